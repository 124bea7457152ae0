"""The policy of who may get a delegation: the agent that it names, or the holders of its capability. Sans-IO.

Who of the permitted holders gets it, by load and by turn, is the rule of `registry/replicas_by_load.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Final

from ether_actors.supervisor.delegations.rejection import Rejection, cycle
from ether_actors.supervisor.registry.hint_cost import LOOKED_AT
from ether_actors.supervisor.registry.registration import Choice, Condition, Registration
from ether_actors.supervisor.state.broker_state import BrokerState
from ether_actors.supervisor.state.ledger import Entry
from ether_broker.dead_letters import Reason
from ether_broker.envelope.manifest.manifest import ANY, Interface
from ether_broker.envelope.status import Status
from ether_broker.errors import AccessDenied
from ether_broker.security.access_list import EVERYTHING, Grant
from ether_broker.wire.frame import Flag, Header, name_of

__all__ = ["RecipientPolicy", "has_to_end"]

_FALLTHROUGH: Final = int(Flag.FALLTHROUGH)
_ANYTHING: Final = ANY.encode()
_NOBODY: Final[frozenset[Registration]] = frozenset()
_MOVING: Final = Condition.MOVING  # a member of an Enum costs a look-up each time that it is named
_DRAINING: Final = Condition.DRAINING
_ENDING: Final = frozenset({Condition.RESTARTING, Condition.DRAINING})
"""Of agents whose nodes have them end what they work at."""
_SINGLE: Final = Interface.SINGLE
_CHAINED: Final = Interface.CHAINED
_SHOWN: Final = 8


class RecipientPolicy:
    """The policy of who gets a delegation, within what the access list lets the delegator reach."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state

    def choose(self, node: str, header: Header, parent: Entry | None) -> Choice:
        """Whom a delegation goes to.

        With FALLTHROUGH, a delegation that names an agent which is not there, or does not take it, goes to whom its capability
        finds, and last to a fallback agent (spec 3, "Agent Lookup").

        Args:
            node: of the delegator.
            header: of the delegation.
            parent: what it is made for; whom all of that chain keeps busy would wait for itself.

        Raises:
            Rejection: nobody can have it.
        """
        access, registry = self._state.access, self._state.registry
        if access.is_open and parent is None and not header.target:
            choice = registry.choose(header.capability)
            if choice is not None:
                return choice
        grant = EVERYTHING if access.is_open else access.grant(node, name_of(header.source))
        try:
            return self._named(grant, header, parent) if header.target else self._any(grant, header, parent)
        except Rejection as rejection:
            if (
                not header.flags & _FALLTHROUGH
                or rejection.status is not Status.REJECTED_CAPABILITY
                or not header.target
            ):
                raise
            try:
                return self._any(grant, header, parent)
            except (Rejection, AccessDenied):
                raise rejection from None
        except AccessDenied:
            to = f" to {name_of(header.target)!r}" if header.target else ""
            message = (
                f"{name_of(header.source)} on node {node!r} may not delegate {name_of(header.capability)!r}{to}: "
                "the access list does not have it."
            )
            raise Rejection(
                Status.REJECTED_CAPABILITY, AccessDenied.code, message, reason=Reason.FORBIDDEN
            ) from None  # fmt: skip

    def another(self, entry: Entry) -> Choice | None:
        """Who else may have what was accepted: another holder than the one that has it now, and no less idempotent."""
        choice = self.alternative(entry)
        return None if choice is None or (entry.idempotent and not choice.idempotent) else choice

    def alternative(self, entry: Entry) -> Choice | None:
        """Who else takes what an accepted delegation asks for."""
        access = self._state.access
        grant = EVERYTHING if access.is_open else access.grant(entry.asking_session.node, name_of(entry.source))
        blocked = _blocked(entry.parent) if entry.parent is not None else _NOBODY
        return self._best(entry.capability, grant, entry.parent, {entry.agent, *blocked})

    def of(self, agent: Registration, entry: Entry) -> Choice | None:
        """What an agent makes of a delegation that was accepted for another one; None: it may not have it."""
        choice = self._state.registry.resolve(agent, entry.capability)
        if choice is None or choice.name != entry.capability or (entry.idempotent and not choice.idempotent):
            return None
        if not agent.manifest.takes(_kind(entry.parent)) or (
            entry.parent is not None and _is_cycle(agent, entry.parent)
        ):
            return None
        access, source = self._state.access, name_of(entry.source)
        if access.is_open:
            return choice
        grant = access.grant(entry.asking_session.node, source)
        return choice if grant.permits(name_of(choice.name), agent.manifest.agent) else None

    def _named(self, grant: Grant, header: Header, parent: Entry | None) -> Choice:
        registry = self._state.registry
        is_free = grant is EVERYTHING
        if not is_free and not grant.knows_agent(name_of(header.target)):
            raise AccessDenied
        agent = registry.get(header.target)
        if agent is None:
            asked = name_of(header.target)
            names = filter(grant.knows_agent, map(name_of, islice(registry.agents_near(header.target), LOOKED_AT)))
            message = f"There is no agent {asked!r}."
            raise self._refused(grant, header, parent, "unknown_agent", message, asked=asked, known=names)
        choice = registry.resolve(agent, header.capability)
        if choice is None and header.flags & _FALLTHROUGH and header.capability == _ANYTHING:
            choice = registry.best_of(agent)
        if choice is None:
            asked = name_of(header.capability)
            several = [] if "." in asked else [name for name in _declared(agent, grant) if name.endswith(f".{asked}")]
            if len(several) > 1:
                message = (
                    f"{agent.manifest.agent} declares several that end so: {', '.join(several)}. Name one of them."
                )
                raise self._refused(grant, header, parent, "not_declared", message)
            message = f"{agent.manifest.agent} does not declare {asked!r}."
            raise self._refused(
                grant, header, parent, "not_declared", message, asked=asked, known=_held(agent, grant, asked)
            )
        if not is_free and not grant.permits(name_of(choice.name), agent.manifest.agent):
            raise AccessDenied
        if not agent.takes_work or (agent.condition is _MOVING and not _may_move(parent)):
            message = f"{agent.manifest.agent} is {agent.condition.value}."
            code = "agent_draining" if agent.condition is _DRAINING else "agent_down"
            raise self._refused(grant, header, parent, code, message, retryable=True)
        if not agent.manifest.takes(_kind(parent)):
            raise self._refused(grant, header, parent, "not_in_interface", _interface(agent, parent))
        if parent is not None and _is_cycle(agent, parent):
            raise cycle(parent, agent)
        return choice

    def _any(self, grant: Grant, header: Header, parent: Entry | None) -> Choice:
        registry, capability = self._state.registry, header.capability
        blocked = _blocked(parent) if parent is not None else _NOBODY
        choice = self._best(capability, grant, parent, blocked)
        if choice is not None:
            return choice
        if parent is not None and (choice := self._best(capability, grant, parent, set())) is not None:
            raise cycle(parent, choice.agent)
        other = _CHAINED if parent is None else _SINGLE
        if (choice := registry.choose(capability, other, grant, may_move=_may_move(parent))) is not None:
            if not choice.agent.manifest.takes(_kind(parent)):
                raise self._refused(grant, header, parent, "not_in_interface", _interface(choice.agent, parent))
            if choice.agent not in blocked:
                return choice  # the first look came to its bound before it
        holders = list(islice(registry.holders(capability, grant), _SHOWN))
        if holders:
            names = ", ".join(f"{holder.agent.manifest.agent} ({holder.agent.condition.value})" for holder in holders)
            message = f"Nobody takes {name_of(capability)!r} now: {names}."
            raise self._refused(grant, header, parent, "agent_down", message, retryable=True)
        if not grant.knows_capability(name_of(capability)) or any(registry.holders(capability)):
            raise AccessDenied
        asked = name_of(capability)
        known = filter(grant.knows_capability, map(name_of, islice(registry.capabilities_near(capability), LOOKED_AT)))
        message = f"No agent holds {asked!r}."
        raise self._refused(grant, header, parent, "no_holder", message, asked=asked, known=known)

    def _best(
        self, capability: bytes, grant: Grant, parent: Entry | None, without: AbstractSet[Registration]
    ) -> Choice | None:  # fmt: skip
        """The best of those that take such a delegation, and end it before its delegator has to be gone."""
        registry, kind = self._state.registry, _kind(parent)
        choice = registry.choose(capability, kind, grant, without)
        if choice is None or choice.agent.condition is not _MOVING or _may_move(parent):
            return choice
        return registry.choose(capability, kind, grant, without, may_move=False)

    def _refused(
        self, grant: Grant, header: Header, parent: Entry | None, code: str, message: str, *, retryable: bool = False,
        asked: str = "", known: Iterable[str] = (),
    ) -> Rejection:  # fmt: skip
        other = self._best(header.capability, grant, parent, set()) if header.target else None
        reason = Reason.UNKNOWN_AGENT if header.target else Reason.NO_HOLDER
        return Rejection(
            Status.REJECTED_CAPABILITY, code, message, retryable=retryable, reason=reason, asked=asked, known=known,
            alternative_agent=other.agent.manifest.agent if other else None,
        )  # fmt: skip


def has_to_end(parent: Entry) -> bool:
    """Whether an agent has to end a delegation, or one that this was made for, as it restarts, drains or moves.

    It may not wait for an agent that moves: the next node may start that only when the other has ended its work. Of one whose
    node is not back since the broker restarted nobody knows.
    """
    return any(
        entry.agent.condition is _MOVING or (entry.agent.condition in _ENDING and not entry.agent.session.lost)
        for entry in parent.ancestors()
    )


def _may_move(parent: Entry | None) -> bool:
    """Whether an agent that moves may be given a sub-delegation of this."""
    return parent is None or not has_to_end(parent)


def _kind(parent: Entry | None) -> Interface:
    return _SINGLE if parent is None else _CHAINED


def _interface(agent: Registration, parent: Entry | None) -> str:
    kind = "single ones, from plain code" if parent is None else "chained ones, made for another delegation"
    return f"{agent.manifest.agent} takes delegations of {', '.join(agent.manifest.interface)}, and no {kind}."


def _declared(agent: Registration, grant: Grant) -> list[str]:
    """The capabilities of an agent that the delegator may know of."""
    declared = islice(agent.manifest.capabilities, LOOKED_AT)
    return [item.name for item in declared if grant.knows_capability(item.name)]


def _held(agent: Registration, grant: Grant, asked: str) -> Iterator[str]:
    """What an agent can be asked for: its capabilities; for one word, first the last words that one of them alone has."""
    names = _declared(agent, grant)
    if "." not in asked:
        counts = Counter(name.rpartition(".")[2] for name in names)
        yield from (word for word, count in counts.items() if count == 1)
    yield from names


def _is_cycle(agent: Registration, parent: Entry) -> bool:
    """Whether a delegation and its ancestors hold every place that the agent has to work in."""
    return sum(entry.agent is agent for entry in parent.ancestors()) >= agent.manifest.max_concurrency


def _blocked(parent: Entry) -> frozenset[Registration]:
    counts = Counter(entry.agent for entry in parent.ancestors())
    return frozenset(agent for agent, count in counts.items() if count >= agent.manifest.max_concurrency)
