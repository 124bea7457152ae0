"""The rebalancing of what waits among the instances of agents that scale, and what their nodes are told of it. Sans-IO.

a mailbox changes ──► changed ──► job ──► Reassignment.rebalance   what waits goes to who is free, or up
                              └─► telling ──► SCALE ──► the node   how much each instance has to do
a node ── SCALE ──► scaled ──► event                           how many instances it has now
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from itertools import islice
from math import inf
from operator import attrgetter
from typing import Final

from ether_actors.supervisor.delegations.reassignment import Reassignment
from ether_actors.supervisor.delegations.recipient_policy import RecipientPolicy
from ether_actors.supervisor.registry.registration import Condition, Registration
from ether_actors.supervisor.state.broker_state import BrokerState
from ether_actors.supervisor.state.job_schedule import OWN, Job, StepShare
from ether_actors.supervisor.state.round_robin import RoundRobin
from ether_broker.encoding.bounded import CONTROL, read_map
from ether_broker.envelope.payload import pack
from ether_broker.errors import AccessDenied, InvalidEnvelope
from ether_broker.text import brief, short_text
from ether_broker.transport.sessions.cost import BLOCKED, HOLDERS_SHIFT, REBALANCED
from ether_broker.transport.sessions.session import Session
from ether_broker.wire.frame import Header, Kind, name_of, pack_envelope

__all__ = ["REBALANCED_PER_STEP", "TELL", "Rebalancing"]

REBALANCED_PER_STEP: Final = 16
"""Delegations that one step looks at to give them to other instances."""
TELL: Final = 0.25
"""Seconds between two words to nodes of how much their instances have to do."""
_COMPARED: Final = 16
"""Instances of which the oldest delegation is looked for, and that are looked at for who may have it."""
_MOST_TOLD: Final = 256
"""Agents of which one SCALE tells."""
_WHY: Final = 200
"""Characters of why a node has another number of instances."""
_MOST_INSTANCES: Final = 1 << 17


class _Load:
    """The load of those instances of one node that do each other's work, together."""

    __slots__ = ("at", "count", "instances", "most", "session")

    def __init__(self, session: Session) -> None:
        self.session = session
        self.instances: dict[Registration, int] = {}
        """{instance: how many delegations it has}."""
        self.count: int = 0
        """How many they have in all."""
        self.at: float = -inf
        """When that changed, in seconds by the broker's clock."""
        self.most: int = 0
        """The most that they had at a moment since their node was told."""

    def change(self, agent: Registration, count: int, now: float) -> None:
        """Note how many delegations one has from now on; what is so for no time, as while one is moved, is not counted."""
        self.settle(now)
        self.count += count - self.instances.get(agent, 0)
        self.instances[agent] = count

    def settle(self, now: float) -> None:
        """Note that they had so many until now."""
        if now > self.at:
            self.at = now
            self.most = max(self.most, self.count)


class _Instances:
    """Instances of agents that scale which do each other's work: they declare the same, and who may reach one may reach all.

    So none is free in vain while something waits for another, whatever else is registered.
    """

    __slots__ = ("due", "free", "key", "loads", "lost", "members", "open", "waiting")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.members: dict[Registration, int] = {}
        """{instance: how many delegations its node was told last that it has; -1 before it was told}."""
        self.loads: dict[Session, _Load] = {}
        """By their nodes."""
        self.free: dict[Registration, None] = {}
        """Those that begin at once what they are given, and some that do no more; next whose turn it is."""
        self.waiting: dict[Registration, None] = {}
        """Those for which something waits that others may have, and some for which nothing does any more."""
        self.open: dict[Registration, None] = {}
        """Those that begin what they are given, at once or after what waits for them; next whose turn it is."""
        self.lost: dict[Registration, None] = {}
        """Of `waiting`, those that are down, but for those of which no other could have the oldest since they changed last."""
        self.due: set[str] = set()
        """Whose turns they are looked at in."""


class Rebalancing:
    """The part of the supervisor that treats what waits for instances of an agent as one queue.

    As soon as an instance is free, it is given the oldest delegation that waits for another one that is alike, high priority
    first; if something waits for more than 16, for one of 16 whose turn it is. While none is free, what waits for one that is
    down waits for one that is up instead, in whose node's count it is. Those are alike that declare the same
    (capabilities, which of them are idempotent, exclusions, interface) and belong to the same rules of the access list: what
    somebody else registers, whom the delegators of these do not reach, is not one of them. A delegation stays where it is if
    its delegator names the instance, if another one has handed it back, and once none of those that are free may have it: by
    what it was made for, or by the access list that a restarted broker has. Nothing here runs for agents that do not scale.

    Args:
        state: of the broker.
        recipients: says who may have it.
        reassignment: gives what waits to others.
    """

    def __init__(self, state: BrokerState, recipients: RecipientPolicy, reassignment: Reassignment) -> None:
        self._state = state
        self._recipients = recipients
        self._reassignment = reassignment
        self._alike: dict[Hashable, _Instances] = {}
        """{`Group.rebalancing_key`: the instances that have it}."""
        self._instances: dict[Registration, _Instances] = {}
        """{instance: it and those that are like it}."""
        self._names: Counter[tuple[Session, bytes]] = Counter()
        """How many instances a session has of the agents of a name."""
        self._due: RoundRobin[str, tuple[str, _Instances]] = RoundRobin(REBALANCED_PER_STEP)
        """{whose instance has changed: those of which one is free and something waits for another}, in turn."""
        self._loads: dict[Registration, _Load] = {}
        """{instance: the load that it is counted in}."""
        self._untold: dict[Registration, None] = {}
        """Instances that have had another number since their nodes were told."""
        self._tell_at = -inf
        self.job: Job = Job(state.schedule, self._go_on, most=OWN)
        """Gives what waits to who is free."""
        self.telling: Job = Job(state.schedule, self._tell)
        """Tells nodes how much their instances have to do; it does not wait for the journal, as the other does."""
        self._share = StepShare(state.schedule, REBALANCED_PER_STEP)

    def changed(self, agent: Registration) -> None:
        """Note that an instance has more or less to do, or another condition, or is none any more."""
        if agent.replicas is None:
            self._leave(agent)
            return
        instances = self._instances.get(agent)
        if instances is None:
            instances = self._enter(agent)
        for some, belongs in (
            (instances.free, _is_free), (instances.waiting, _has_movable),
            (instances.open, _is_open), (instances.lost, _is_lost),
        ):  # fmt: skip
            if belongs(agent):
                some.setdefault(agent)
            else:
                some.pop(agent, None)
        self._put(agent.session.principal, instances)
        outstanding = agent.mailbox.outstanding
        load = self._load_of(agent, instances)
        if outstanding != instances.members[agent] or outstanding != load.instances[agent]:
            self._untold[agent] = None
        load.change(agent, outstanding, self._state.now)
        if self._due.owners:
            self.job.wake()
        if self._untold:
            self.telling.wake(self._tell_at)

    def _enter(self, agent: Registration) -> _Instances:
        agent.mailbox.track_movable(_is_movable)
        assert agent.replicas is not None
        key = agent.replicas.rebalancing_key
        instances = self._alike.get(key)
        if instances is None:
            instances = self._alike[key] = _Instances(key)
        instances.members[agent] = -1
        self._instances[agent] = instances
        self._names.update((agent.session, name) for name in _agents_of(agent.name))
        return instances

    def _load_of(self, agent: Registration, instances: _Instances) -> _Load:
        """The load that an instance is counted in, that of the node that it is at now."""
        load, before = instances.loads.get(agent.session), self._loads.get(agent)
        if load is None:
            load = instances.loads[agent.session] = _Load(agent.session)
        if load is not before:
            self._uncount(agent, instances)
            self._loads[agent] = load
            load.instances[agent] = 0
        return load

    def _uncount(self, agent: Registration, instances: _Instances) -> None:
        load = self._loads.pop(agent, None)
        if load is not None:
            load.change(agent, 0, self._state.now)
            del load.instances[agent]
            if not load.instances:
                del instances.loads[load.session]

    def _leave(self, agent: Registration) -> None:
        self._untold.pop(agent, None)
        instances = self._instances.pop(agent, None)
        if instances is None:
            return
        for some in (instances.members, instances.free, instances.waiting, instances.open, instances.lost):
            some.pop(agent, None)
        self._uncount(agent, instances)
        if not instances.members:
            del self._alike[instances.key]
        for name in _agents_of(agent.name):
            self._names[agent.session, name] -= 1
            if not self._names[agent.session, name]:
                del self._names[agent.session, name]

    def scaled(self, session: Session, header: Header, envelope: bytes) -> None:
        """Tell observers that a node has another number of instances of an agent.

        Raises:
            AccessDenied: it has none.
            InvalidEnvelope: the numbers are none.
        """
        agent, said = name_of(header.source), read_map(envelope[header.body :], CONTROL)
        if (session, header.source) not in self._names:
            raise AccessDenied(f"The node {session.node!r} has no instances of {agent!r}: it cannot tell how many.")
        numbers = {key: said.get(key) for key in ("before", "instances")}
        for key, number in numbers.items():
            if type(number) is not int or not 0 <= number < _MOST_INSTANCES:
                raise InvalidEnvelope(f"SCALE: {key} is {brief(number, 40)} and has to be a number of instances.")
        session.input.spend(BLOCKED)
        why = short_text(said.get("why"), _WHY)
        self._state.event("agent_scaled", agent=agent, node=session.node, **numbers, why=why)

    def _go_on(self) -> float:
        owners, share = self._due.owners, self._share
        if owners and self._state.journal.trouble is not None:
            self.job.pause()  # until the journal can be written
            return inf
        share.keep_half()
        while owners and share.left > 0:
            for owner, instances in self._due.take(share.left):
                share.spend()
                self._give_next(instances)
                instances.due.discard(owner)
                self._put(owner, instances)
        return 0.0 if owners else inf

    def _put(self, owner: str, instances: _Instances) -> None:
        if owner in instances.due:
            return
        if (instances.free and instances.waiting) or (instances.open and instances.lost):
            instances.due.add(owner)
            self._due.put(owner, (owner, instances), last=True)

    def _give_next(self, instances: _Instances) -> None:
        """Give the oldest delegation that waits for an instance, and may go to others, to one that is free.

        If none is, the oldest that waits for one that is down is given to one that is up and has room for it.
        """
        free = _first(instances.free, _is_free)
        waiting = _first(instances.waiting, _has_movable) if free else _first(instances.lost, _is_lost)
        takers = free or _first(instances.open, _is_open)
        if not waiting or not takers:
            return
        before = min(waiting, key=lambda agent: _age(agent.mailbox.next_movable))
        entry = before.mailbox.next_movable
        assert entry is not None
        choices = (self._recipients.of(agent, entry) for agent in takers if free or agent.mailbox.has_room(entry))
        choice = next(filter(None, choices), None)
        before.session.input.spend(REBALANCED + (self._state.registry.looked() >> HOLDERS_SHIFT))
        if choice is not None:
            self._reassignment.rebalance(entry, choice)
            for takes in (instances.free, instances.open):
                _to_end(takes, choice.agent)
        elif free:
            before.mailbox.withhold(entry)
        else:  # one that has no room, or all places of which its ancestors hold, is no reason why none may have it later
            instances.lost.pop(before, None)
        _to_end(instances.waiting, before)

    def _tell(self) -> float:
        """Tell the nodes how much their instances have to do: what waits and what runs, of one moment, and the most since."""
        now = self._state.now
        self._tell_at = now + TELL
        told: dict[Session, dict[str, int]] = {}
        most: dict[Session, dict[str, int]] = {}
        loads: set[_Load] = set()
        for agent in self._untold:
            session, outstanding, members = agent.session, agent.mailbox.outstanding, self._instances[agent].members
            if session.agents.get(agent.name) is not agent or session.lost:
                continue
            load = self._loads[agent]
            loads.add(load)
            load.settle(now)
            has_peak = load.most > load.count
            if has_peak or outstanding != members[agent]:
                members[agent] = outstanding
                told.setdefault(session, {})[agent.manifest.agent] = outstanding
            if has_peak:
                most.setdefault(session, {})[agent.manifest.agent] = load.most
        self._untold.clear()
        for load in loads:
            load.most = 0
        for session, numbers in told.items():
            rows, peaks = list(numbers.items()), most.get(session, {})
            for first in range(0, len(rows), _MOST_TOLD):
                part = dict(rows[first : first + _MOST_TOLD])
                body = {
                    "outstanding": part,
                    "most": {agent: peaks[agent] for agent in part if agent in peaks},
                }
                self._state.session_table.send_aside(session, pack_envelope(Kind.SCALE, body=pack(body)))
        return inf


def _is_free(agent: Registration) -> bool:
    """Whether an instance begins at once what it is given."""
    mailbox = agent.mailbox
    return mailbox.is_open and not mailbox.waiting_count and mailbox.in_flight < mailbox.limits.window


def _has_movable(agent: Registration) -> bool:
    """Whether something waits for an instance that others may have."""
    return agent.mailbox.next_movable is not None


def _is_open(agent: Registration) -> bool:
    """Whether an instance begins what it is given."""
    return agent.mailbox.is_open


def _is_lost(agent: Registration) -> bool:
    """Whether an instance is down for which something waits that others may have."""
    return agent.condition is Condition.DOWN and _has_movable(agent)


def _first(agents: dict[Registration, None], belongs: Callable[[Registration], bool]) -> list[Registration]:
    """The first few, but for those that do not belong to them any more, which are taken out."""
    found = []
    for agent in list(islice(agents, _COMPARED)):
        if belongs(agent):
            found.append(agent)
        else:
            del agents[agent]
    return found


def _to_end(agents: dict[Registration, None], agent: Registration) -> None:
    """Let it be another's turn."""
    if agent in agents:
        del agents[agent]
        agents[agent] = None


def _agents_of(instance: bytes) -> set[bytes]:
    """The names of the agents of which one of that name may be an instance: `reader-2` of `reader`."""
    base, _, number = instance.rpartition(b"-")
    return {instance, base} if base and number.isdigit() else {instance}


_is_movable = attrgetter("is_movable")
_age = attrgetter("priority", "number")
