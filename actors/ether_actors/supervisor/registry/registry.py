"""The registry: the agents of the bus, by name and by capability."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from dataclasses import replace
from typing import Final, cast

from ether_actors.supervisor.registry.capability_index import RESOLVED_SHIFT, CapabilityIndex
from ether_actors.supervisor.registry.registration import Choice, Condition, Registration, places_of, turns
from ether_actors.supervisor.registry.replicas_by_load import Replicas
from ether_actors.supervisor.registry.subscription_index import SubscriptionIndex
from ether_broker.envelope.manifest.manifest import ANY, Capability, Interface, Manifest
from ether_broker.envelope.names import EVENT_PREFIX
from ether_broker.errors import DuplicateAgent
from ether_broker.mailbox.mailbox import Mailbox
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.security.access_list import EVERYTHING, Access, Grant
from ether_broker.sorted_keys import SortedKeys
from ether_broker.transport.sessions.session import Session

__all__ = ["Registry"]

_MOST_RESOLVED: Final = 64
"""Names of capabilities that are remembered of each agent."""
_EVENT: Final = Capability(name=EVENT_PREFIX.rstrip(b".").decode())
_UP: Final = Condition.UP  # a member of an Enum costs a look-up each time that it is named
_SINGLE: Final = Interface.SINGLE


class Registry:
    """The registry: the agents of the bus by name and by capability.

    Args:
        limits: bounds of each agent's mailbox, and of how many agents there may be.
        access: which agents it tells apart for those who delegate.
    """

    def __init__(self, limits: Limits, access: Access | None = None) -> None:
        self._limits = limits
        self._access = access or Access.open()
        self.most: int = limits.most_agents
        """Places of agents that there may be, those that are down among them; see `registration.places_of`."""
        self.of_key: Counter[str] = Counter()
        """Places that the agents of each key's nodes take, and of those without one under the empty word."""
        self.places: int = 0
        """Places of all agents."""
        self._agents: dict[bytes, Registration] = {}
        self._names: SortedKeys[bytes] = SortedKeys()
        self.index: CapabilityIndex = CapabilityIndex()
        self.subscriptions: SubscriptionIndex = SubscriptionIndex()

    def __len__(self) -> int:
        return len(self._agents)

    @property
    def agents(self) -> Collection[Registration]:
        """All agents, in the order in which they first registered."""
        return self._agents.values()

    def get(self, name: bytes) -> Registration | None:
        """The agent of that name."""
        return self._agents.get(name)

    def after(self, name: bytes | None) -> Iterator[bytes]:
        """The agents' names above one, in order; all of them after None."""
        return self._names.after(name)

    def agents_near(self, name: bytes) -> Iterator[bytes]:
        """The agents' names, those first that are next to one in their order."""
        return self._names.around(name)

    def capabilities_near(self, name: bytes) -> Iterator[bytes]:
        """The declared capabilities, those first that are next to one in their order."""
        return self.index.declared.around(name)

    def register(
        self, manifest: Manifest, session: Session, size: int = 0,
        listener: Callable[[Registration], None] | None = None,
    ) -> Registration:  # fmt: skip
        """Enter an agent, or bring back one that was down: its mailbox is kept; `check_free` has said that it may.

        One that drains drains on.

        Args:
            manifest: without its schemas.
            session: of its node.
            size: bytes of the manifest as it was packed, with them.
            listener: of an instance of an agent that scales. Its node is given no more than it has places for, so that what
                waits can go to any instance.
        """
        known = self._agents.get(manifest.agent.encode())
        if known is None:
            return self._enter(manifest, session, Condition.UP, size, listener)
        self.index.remove(known)
        if known.listener is not None:
            known.listener(known)
        self.subscriptions.remove(known)
        is_elsewhere = known.session is not session
        reset = is_elsewhere or known.condition is Condition.MOVING
        self._detach(known)
        known.manifest, known.load = manifest, {}
        known.resolved.clear()
        self._listen(known, listener)
        self._attach(known, session, size)
        drains_on = known.condition is Condition.DRAINING and not is_elsewhere
        self.condition(known, Condition.DRAINING if drains_on else Condition.UP, reset=reset)
        return known

    def check_free(self, name: str, session: Session) -> None:
        """Check that a node may register an agent of that name.

        Raises:
            DuplicateAgent: a living agent of another node has it.
        """
        known = self._agents.get(name.encode())
        if known is None or known.session is session or known.session.lost or not known.is_hosted:
            return
        raise DuplicateAgent(
            f"An agent named {name!r} lives on node {known.session.node!r}: choose another name. If that node was "
            "killed, the name is free when the bus has not heard of it for `Timing.silence` seconds."
        )

    def restore(
        self, manifest: Manifest, session: Session, condition: Condition, size: int,
        listener: Callable[[Registration], None] | None = None,
    ) -> Registration:  # fmt: skip
        """Enter an agent as a journal knows it; its mailbox takes work and gives none until it registers again."""
        return self._enter(manifest, session, condition, size, listener)

    def _enter(
        self, manifest: Manifest, session: Session, condition: Condition, size: int,
        listener: Callable[[Registration], None] | None = None,
    ) -> Registration:  # fmt: skip
        name = manifest.agent.encode()
        agent = self._agents[name] = Registration(manifest, name, session, Mailbox(self._limits))
        self._names.add(name)
        agent.condition = condition
        self._listen(agent, listener)
        if condition is not Condition.UP:
            agent.mailbox.pause()
        self._attach(agent, session, size)
        if listener is not None:
            listener(agent)
        return agent

    def _listen(self, agent: Registration, listener: Callable[[Registration], None] | None) -> None:
        agent.listener, limits = listener, self._limits
        if listener is not None:
            limits = replace(limits, window=min(limits.window, agent.manifest.max_concurrency))
        agent.mailbox.limits = limits

    def remove(self, agent: Registration) -> None:
        """Take an agent out for good."""
        if self._agents.pop(agent.name, None) is not None:
            self._detach(agent)
            self._names.remove(agent.name)
            self.index.remove(agent)
            if agent.listener is not None:
                agent.listener(agent)
            self.subscriptions.remove(agent)
            agent.resolved.clear()  # they and the mailbox lead back to it: nothing is left to the garbage collector
            agent.mailbox.close()

    def _attach(self, agent: Registration, session: Session, size: int) -> None:
        agent.session = session
        self.index.add(agent, self._access.marks(agent.manifest.agent))
        self.subscriptions.add(agent)
        agent.places = places_of(agent.manifest, size)
        session.agents[agent.name] = agent
        session.newcomers.add(agent.name)
        if not self._access.is_open:
            session.rules.update(self._access.grant(session.node, agent.manifest.agent).rules)
        self.of_key[session.owner] += agent.places
        self.places += agent.places

    def _detach(self, agent: Registration) -> None:
        session = agent.session
        session.agents.pop(agent.name, None)
        session.newcomers.discard(agent.name)
        if not self._access.is_open:
            for rule in self._access.grant(session.node, agent.manifest.agent).rules:
                session.rules[rule] -= 1
                if not session.rules[rule]:
                    del session.rules[rule]
        self.of_key[session.owner] -= agent.places
        self.places -= agent.places
        if not self.of_key[session.owner]:
            del self.of_key[session.owner]

    def condition(self, agent: Registration, condition: Condition, *, reset: bool = False) -> None:
        """Note how an agent is; with `reset`, what its node held is its no more, and all credit is back."""
        took = agent.takes_work
        agent.condition = condition
        if condition is _UP:
            agent.mailbox.resume(reset=reset)
        else:
            agent.mailbox.pause()
        if took and agent.takes_work:
            agent.changed()
        elif took:
            cast("Replicas", agent.replicas).deactivate([agent])
        elif agent.takes_work:
            self.index.activate(agent)
        if agent.listener is not None:
            agent.listener(agent)

    def condition_all(self, agents: Iterable[Registration], condition: Condition) -> None:
        """Note of several agents that those of them that take work take none any more: they are DRAINING or DOWN."""
        alike: dict[Replicas, list[Registration]] = {}
        for agent in agents:
            if agent.takes_work:
                agent.condition = condition
                agent.mailbox.pause()
                alike.setdefault(cast("Replicas", agent.replicas), []).append(agent)
        for replicas, inactive in alike.items():
            replicas.deactivate(inactive)

    def holders(self, capability: bytes, grant: Grant = EVERYTHING) -> Iterator[Choice]:
        """Everybody who may do it and may be asked by the delegator, whatever their condition."""
        for agent in self.index.everybody(capability, grant):
            choice = self.resolve(agent, capability)
            if choice is not None:
                yield choice

    def resolve(self, agent: Registration, capability: bytes) -> Choice | None:
        """What the agent makes of a capability that it is asked for by name, or None (G10)."""
        resolved = agent.resolved
        if capability not in resolved:
            if capability.startswith(EVENT_PREFIX):  # not remembered: `FastPath` takes what is
                return _subscribed(agent, capability)
            if len(resolved) >= _MOST_RESOLVED:
                resolved.clear()
            resolved[capability] = _choice(agent, capability)
            self.index.looked += len(agent.manifest.capabilities) >> RESOLVED_SHIFT
        return resolved[capability]

    def best_of(self, agent: Registration) -> Choice | None:
        """The lightest, then most confident of all that an agent declares: for who names it, and no capability."""
        declared = agent.manifest.capabilities
        self.index.looked += len(declared) >> RESOLVED_SHIFT
        best = min(declared, key=lambda item: (item.latency_weight, -item.confidence, item.name), default=None)
        return None if best is None else self.resolve(agent, best.name.encode())

    def choose(
        self, capability: bytes, kind: Interface = _SINGLE, grant: Grant = EVERYTHING,
        without: Container[Registration] = (), *, may_move: bool = True,
    ) -> Choice | None:  # fmt: skip
        """The best of the holders that take work: the fewest delegations, then the lowest weight, then the most confident.

        Holders of the capability itself come before those below it, and fallback agents last (spec 3, "Agent Lookup"). An agent
        that restarts counts as having 128 delegations more than it has, and one that moves comes last. Among equals the work
        goes round; which of them
        is next is not promised (`replicas_by_load`).

        Args:
            capability: what is asked for.
            kind: the pattern of the delegation, which has to be in the agent's interface.
            grant: what the delegator may reach.
            without: agents that are passed over.
            may_move: whether it may be one that moves.
        """
        agent = self.index.best(capability, kind, grant, without, may_move=may_move)
        if agent is None:
            return None
        if agent.mailbox.on_change is None:  # else it gets another turn when it is given the work
            agent.turn = next(turns)
        return agent.resolved.get(capability) or self.resolve(agent, capability)

    def looked(self) -> int:
        """How many entries choices examined in vain, or to compare, since the last call; who asked is charged for them."""
        found, self.index.looked = self.index.looked, 0
        return found


def _subscribed(agent: Registration, event: bytes) -> Choice | None:
    """What the agent makes of an event, by the capability that it is delivered by."""
    subscription = agent.manifest.subscription(event.removeprefix(EVENT_PREFIX).decode(errors="replace"))
    return None if subscription is None else Choice(agent, _EVENT, event, subscription.idempotent, tier=0)


def _choice(agent: Registration, asked: bytes) -> Choice | None:
    name = asked.decode(errors="replace")
    capability = agent.manifest.resolve(name)
    if capability is None:
        return None
    if capability.name == ANY != name:
        return Choice(agent, capability, asked, capability.idempotent, tier=2)
    return Choice(agent, capability, capability.name.encode(), capability.idempotent, tier=int(capability.name != name))
