"""Who gets a delegation: the agent that it names, or the holder that has the most room; or why nobody. Sans-IO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ether_actors.ledger import Entry
from ether_actors.reach import Reach
from ether_actors.records import Records
from ether_actors.refusal import Refusal, cycle, too_deep
from ether_actors.registry import Choice, Condition, Registration
from ether_broker.dead_letters import Reason
from ether_broker.errors import AccessDenied, nearest
from ether_broker.status import Status
from ether_broker.wire import Header, name_of

__all__ = ["MAX_DEPTH", "Selection"]

MAX_DEPTH: Final = 128
"""Delegations in a chain; a longer one is taken for a runaway recursion."""


class Selection:
    """The choice among the registry's agents, within what the access list lets the delegator reach."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def ancestors(self, header: Header) -> list[Entry]:
        """The delegations that a delegation is made for, nearest first.

        Raises:
            Refusal: its parent has ended, is not its delegator's, or is as deep as a chain may be.
        """
        ledger = self._records.ledger
        chain = ledger.chain(header.parent)
        if not chain:
            if ledger.has_ended(header.parent):
                message = "The delegation that this one was made for has ended, and its sub-delegations with it."
                raise Refusal(Status.CANCELLED, "parent_ended", message)
            return chain
        if chain[0].agent.name != header.source:
            message = f"The parent was given to {name_of(chain[0].agent.name)}, not to {name_of(header.source)}."
            raise Refusal(Status.REJECTED_CONTEXT, "not_your_parent", message, required_fields=("parent",))
        if len(chain) >= MAX_DEPTH:
            raise too_deep(chain)
        return chain

    def choose(self, node: str, header: Header, ancestors: list[Entry]) -> Choice:
        """Whom a delegation goes to.

        Args:
            node: of the delegator.
            header: of the delegation.
            ancestors: what it is made for; whom all of them keep busy would wait for itself.

        Raises:
            Refusal: nobody can have it.
        """
        reach = Reach(self._records.access, node, header.source)
        return self._named(reach, header, ancestors) if header.target else self._any(reach, header, ancestors)

    def another(self, entry: Entry) -> Choice | None:
        """Who else may have what was accepted: another holder than the one that has it now."""
        registry = self._records.registry
        reach = Reach(self._records.access, entry.delegator.node, entry.source)
        choice = registry.choose(entry.capability, (entry.agent, *self._barred(reach, entry.capability)))
        if choice is None or (entry.idempotent and not choice.idempotent):
            return None
        return choice

    def _named(self, reach: Reach, header: Header, ancestors: list[Entry]) -> Choice:
        registry = self._records.registry
        if not reach.knows_agent(header.target):
            raise self._denied(reach, header)
        agent = registry.get(header.target)
        if agent is None:
            known = (other.manifest.agent for other in registry.agents if reach.knows_agent(other.name))
            hint = nearest(name_of(header.target), known)
            raise self._refused(reach, header, "unknown_agent", f"There is no agent {name_of(header.target)!r}.{hint}")
        choice = registry.resolve(agent, header.capability)
        if choice is None:
            held = [capability.name for capability in agent.manifest.capabilities]
            hint = nearest(name_of(header.capability), filter(reach.knows_capability, held))
            message = f"{agent.manifest.agent} does not declare {name_of(header.capability)!r}.{hint}"
            raise self._refused(reach, header, "not_declared", message)
        if not reach.permits(choice):
            raise self._denied(reach, header)
        if agent.condition in (Condition.DOWN, Condition.DRAINING):
            message = f"{agent.manifest.agent} is {agent.condition.value}."
            raise self._refused(reach, header, f"agent_{agent.condition.value}", message, retryable=True)
        if _is_cycle(agent, ancestors):
            raise cycle(ancestors, agent)
        return choice

    def _any(self, reach: Reach, header: Header, ancestors: list[Entry]) -> Choice:
        registry = self._records.registry
        barred = self._barred(reach, header.capability)
        blocked = [entry.agent for entry in ancestors if _is_cycle(entry.agent, ancestors)]
        choice = registry.choose(header.capability, (*barred, *blocked))
        if choice is not None:
            return choice
        if blocked:
            choice = registry.choose(header.capability, barred)
            if choice is not None:
                raise cycle(ancestors, choice.agent)
        holders = [holder for holder in registry.holders(header.capability) if holder.agent not in barred]
        if holders:
            names = ", ".join(f"{holder.agent.manifest.agent} ({holder.agent.condition.value})" for holder in holders)
            message = f"Nobody takes {name_of(header.capability)!r} now: {names}."
            raise self._refused(reach, header, "agent_down", message, retryable=True)
        if barred or not reach.knows_capability(header.capability):
            raise self._denied(reach, header)
        hint = nearest(name_of(header.capability), filter(reach.knows_capability, registry.capabilities()))
        raise self._refused(reach, header, "no_holder", f"No agent holds {name_of(header.capability)!r}.{hint}")

    def _refused(self, reach: Reach, header: Header, code: str, message: str, *, retryable: bool = False) -> Refusal:
        registry = self._records.registry
        other = None
        if header.target:
            other = registry.choose(header.capability, self._barred(reach, header.capability))
        reason = Reason.UNKNOWN_AGENT if header.target else Reason.NO_HOLDER
        return Refusal(
            Status.REJECTED_CAPABILITY, code, message, retryable=retryable, reason=reason,
            alternative_agent=other.agent.manifest.agent if other else None,
        )  # fmt: skip

    def _denied(self, reach: Reach, header: Header) -> Refusal:
        message = reach.denial(header.capability, header.target)
        return Refusal(Status.REJECTED_CAPABILITY, AccessDenied.code, message, reason=Reason.FORBIDDEN)

    def _barred(self, reach: Reach, capability: bytes) -> Sequence[Registration]:
        return () if reach.is_open else reach.barred(self._records.registry.holders(capability))


def _is_cycle(agent: Registration, ancestors: list[Entry]) -> bool:
    """Whether the ancestors of a delegation hold every place that the agent has to work in."""
    return sum(entry.agent is agent for entry in ancestors) >= agent.manifest.max_concurrency
