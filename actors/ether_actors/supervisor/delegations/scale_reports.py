"""The reports of agents that scale: what a node is told of its instances, and what it tells of them. Sans-IO.

Rebalancing ──► changed ──► telling ──► SCALE ──► the node   how much each instance has to do
a node ── SCALE ──► scaled ──► event                         how many instances it has now
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from math import inf
from typing import Final

from ether_actors.supervisor.registry.registration import Registration
from ether_actors.supervisor.state.broker_state import BrokerState
from ether_actors.supervisor.state.job_schedule import Job
from ether_broker.encoding.bounded import CONTROL, read_map
from ether_broker.envelope.payload import pack
from ether_broker.errors import AccessDenied, InvalidEnvelope
from ether_broker.text import brief, short_text
from ether_broker.transport.sessions.cost import BLOCKED
from ether_broker.transport.sessions.session import Session
from ether_broker.wire.frame import Header, Kind, name_of, pack_envelope

__all__ = ["TELL", "ScaleReports"]

TELL: Final = 0.25
"""Seconds between two words to nodes of how much their instances have to do."""
_MOST_TOLD: Final = 256
"""Agents of which one SCALE tells."""
_WHY: Final = 200
"""Characters of why a node has another number of instances."""
_MOST_INSTANCES: Final = 1 << 17
_Key = tuple[Hashable, Session]


class _Load:
    """The load of the instances of one node that do each other's work, together."""

    __slots__ = ("at", "count", "instances", "key", "most")

    def __init__(self, key: _Key) -> None:
        self.key = key
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


class ScaleReports:
    """The part of the supervisor that tells nodes how much their instances have to do, and hears how many they are.

    Args:
        state: of the broker.
    """

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._names: Counter[tuple[Session, bytes]] = Counter()
        """How many instances a session has of the agents of a name."""
        self._told: dict[Registration, int] = {}
        """{instance: how many delegations its node was told last that it has; -1 before it was told}."""
        self._untold: dict[Registration, None] = {}
        """Instances that have had another number since their nodes were told."""
        self._loads: dict[_Key, _Load] = {}
        """{(what instances have that do each other's work, their node): their load}."""
        self._load: dict[Registration, _Load] = {}
        """{instance: the load that it is counted in}."""
        self._tell_at = -inf
        self.telling: Job = Job(state.schedule, self._tell)
        """Tells nodes how much their instances have to do; it does not wait for the journal."""

    def entered(self, agent: Registration, alike: Hashable) -> None:
        """Note an instance that is new here.

        Args:
            agent: the instance.
            alike: what it has in common with those that do its work.
        """
        self._told[agent] = -1
        key = alike, agent.session
        load = self._loads.get(key)
        if load is None:
            load = self._loads[key] = _Load(key)
        self._load[agent] = load
        load.instances[agent] = 0
        self._names.update((agent.session, name) for name in _agents_of(agent.name))

    def changed(self, agent: Registration) -> None:
        """Note that an instance has more or less to do."""
        outstanding, load = agent.mailbox.outstanding, self._load[agent]
        if outstanding != self._told[agent] or outstanding != load.instances[agent]:
            self._untold[agent] = None
        load.change(agent, outstanding, self._state.now)
        if self._untold:
            self.telling.wake(self._tell_at)

    def left(self, agent: Registration) -> None:
        """Note that an instance is none any more."""
        self._untold.pop(agent, None)
        del self._told[agent]
        load = self._load.pop(agent)
        load.change(agent, 0, self._state.now)
        del load.instances[agent]
        if not load.instances:
            del self._loads[load.key]
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

    def _tell(self) -> float:
        """Tell the nodes how much their instances have to do: what waits and what runs, of one moment, and the most since."""
        now = self._state.now
        self._tell_at = now + TELL
        told: dict[Session, dict[str, int]] = {}
        most: dict[Session, dict[str, int]] = {}
        loads: set[_Load] = set()
        for agent in self._untold:
            session, outstanding = agent.session, agent.mailbox.outstanding
            if session.agents.get(agent.name) is not agent or session.lost:
                continue
            load = self._load[agent]
            loads.add(load)
            load.settle(now)
            has_peak = load.most > load.count
            if has_peak or outstanding != self._told[agent]:
                self._told[agent] = outstanding
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


def _agents_of(instance: bytes) -> set[bytes]:
    """The names of the agents of which one of that name may be an instance: `reader-2` of `reader`."""
    base, _, number = instance.rpartition(b"-")
    return {instance, base} if base and number.isdigit() else {instance}
