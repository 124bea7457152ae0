"""The broker's process: the real supervisor on a simulated socket and disk."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ether_actors.supervisor.recovery import read_history
from ether_actors.supervisor.supervisor import Supervisor
from ether_broker.errors import EtherError
from ether_broker.journal.journal import Journal, Removed
from ether_broker.journal.null import NullJournal
from ether_broker.security.access_list import Access, DelegateRule, RegisterRule
from ether_broker.timing import Timing
from ether_broker.transport.sessions.session import Session
from ether_broker.wire.frame import Header
from tests.simulation.disk import RETRY, SimulatedJournal
from tests.simulation.endless import bounded
from tests.simulation.timeline import SkewedClock

if TYPE_CHECKING:
    from tests.simulation.world import World

__all__ = ["Broker"]

_TURN: Final = 32
"""Messages of one step, as `ZmqServer` takes."""
_RETRY: Final = 0.01
_ENVELOPE: Final = 0.0001
"""Seconds that the broker takes for an envelope."""
_NEVER: Final = float("inf")


class _HeardJournal(NullJournal):
    """A journal that keeps nothing and says what it was given."""

    def __init__(self, heard: Callable[[int, Sequence[bytes]], None]) -> None:
        super().__init__()
        self._heard = heard

    def append(self, first: int, time: float, wall: float, envelopes: Sequence[bytes]) -> int:
        """See `Journal.append`."""
        self._heard(first, envelopes)
        return super().append(first, time, wall, envelopes)


class SimulatedUpkeep:
    """What gives up the journal's old part: a checkpoint of what is committed, and then what is below it."""

    def __init__(self, world: World, journal: SimulatedJournal) -> None:
        self._world = world
        self._journal = journal
        self._number = journal.next

    def collect(self, older_than: float, done: Callable[[Removed], None]) -> None:
        """See `JournalMaintenance.collect`."""
        self._world.timeline.after(self._world.chance.uniform(0.01, 0.3), lambda: self._checkpoint(older_than, done))

    def _checkpoint(self, older_than: float, done: Callable[[Removed], None]) -> None:
        if not self._journal.is_over:
            history = read_history(self._journal, remembered=self._world.scenario.remembered)
            if history.next > self._number:
                self._journal.put_checkpoint(history.next, history.pack())
                self._number = history.next
            self._world.timeline.after(0.3, lambda: self._remove(older_than, done))

    def _remove(self, older_than: float, done: Callable[[Removed], None]) -> None:
        if not self._journal.is_over:
            self._world.note("gc", self._world.disk.gc(older_than).commits)
            done(Removed())
            self._world.broker.poke()


class Broker:
    """One broker after the other, all on one disk."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.supervisor: Supervisor | None = None
        self.clock = SkewedClock(world.timeline, 1000.0)
        self.clocks = {"boot 0": self.clock}
        """{start of the machine: its clock}"""
        self.journal: SimulatedJournal | None = None
        self.up_since = 0.0
        self.lives = 0
        self._arrivals: dict[bytes, deque[bytes]] = {}
        """{routing id: frames}; they are taken in turn, as a ROUTER takes from its connections."""
        self._next = _NEVER
        self._busy_until = 0.0

    @property
    def is_up(self) -> bool:
        """Whether it runs."""
        return self.supervisor is not None

    @property
    def boot(self) -> str:
        """Which start of the machine it is."""
        return next((boot for boot, clock in self.clocks.items() if clock is self.clock), f"boot {len(self.clocks)}")

    def start(self) -> None:
        """Begin a life, unless one goes on."""
        if self.supervisor is not None:
            return
        if self._world.disk.is_locked and self._world.scenario.durable:
            self._world.timeline.after(RETRY, self.start)
            return
        world, scenario = self._world, self._world.scenario
        self.lives += 1
        self.up_since = world.timeline.now
        if scenario.moves and self.lives > 1:
            before, self.clock = self.clock, SkewedClock(world.timeline, world.chance.uniform(0.0, 5000.0))
            self.clock.jump(before.wall() - self.clock.wall())
            self.clocks[self.boot] = self.clock
        journal: Journal
        if scenario.durable:
            journal = self.journal = SimulatedJournal(
                world.disk, world.timeline, scenario.weather, world.chance, world.auditor.passed
            )  # fmt: skip
        else:
            journal = _HeardJournal(world.auditor.passed)
        world.auditor.broker_began(self)
        supervisor = Supervisor(
            limits=scenario.limits, tap_count=scenario.tap_count, tap_interval=scenario.tap_interval, journal=journal,
            timing=Timing(patience=scenario.patience), make_id=world.make_id, access=self._access(),
            remembered=scenario.remembered, fast_path=world.has_fast_path,
        )  # fmt: skip
        supervisor.recover(self.clock.monotonic(), self.clock.wall(), self.boot)
        journal.on_commit = self.poke
        reject = supervisor.state.reject_unwritten

        def reject_unwritten(session: Session, header: Header, trouble: EtherError) -> None:
            world.auditor.refused.add(header.request_id)
            reject(session, header, trouble)

        supervisor.state.reject_unwritten = reject_unwritten  # type: ignore[method-assign]
        self.supervisor = supervisor
        world.auditor.waits.count(supervisor)
        world.auditor.outstanding.watch(supervisor)
        if self.journal is not None:
            maintenance: Any = SimulatedUpkeep(world, self.journal)
            supervisor.journal_gc.attach(maintenance)
        self._arrivals.clear()
        self._next = _NEVER
        world.network.listener = self._arrived
        self.poke()

    def crash(self) -> None:
        """End as by SIGKILL."""
        if self.supervisor is None:
            return
        self.supervisor = None
        self._next = _NEVER
        self._world.network.collapse()
        if self.journal is not None:
            self.journal.crash()
            self.journal = None
        self._world.auditor.broker_ended(self)

    def _access(self) -> Access | None:
        """The list that bars what the scenario says, and nothing else."""
        world = self._world
        if not world.scenario.barred:
            return None
        rules = [DelegateRule(who=("worker-*", "evil-*", "crowd*"))]
        agents = world.agents
        for member in world.members:
            free = [agent for agent in agents if (member.name, agent) not in world.scenario.barred]
            allowed = [name for agent in free for name in world.names_of(agent)]
            rules.append(DelegateRule(who=member.name, to=allowed or ("-",)))
        return Access(delegate=rules, observe="*", read="*", change="*", register=[RegisterRule("*", "*")])

    # -- steps ---------------------------------------------------------------------------------------------------

    def _arrived(self, routing_id: bytes, frame: bytes) -> None:
        self._arrivals.setdefault(routing_id, deque()).append(frame)
        self._world.auditor.waits.arrived(routing_id, frame)
        self._world.auditor.answers.arrived(frame)
        self.poke()

    def poke(self) -> None:
        """Have the next step soon."""
        self._step_at(self._world.timeline.now + self._world.chance.random() * 0.0005)

    def _step_at(self, when: float) -> None:
        when = max(when, self._busy_until)
        if when < self._next:
            self._next = when
            self._world.timeline.at(when, lambda: self._due(when))

    def _due(self, when: float) -> None:
        if self._next == when and self.supervisor is not None:
            self._next = _NEVER
            self._step(self.supervisor)

    def _step(self, supervisor: Supervisor) -> None:
        world, arrivals = self._world, self._arrivals
        batch: list[tuple[bytes, bytes]] = []
        while arrivals and len(batch) < _TURN:
            routing_id = next(iter(arrivals))
            frames = arrivals.pop(routing_id)
            batch.append((routing_id, frames.popleft()))
            if frames:
                arrivals[routing_id] = frames
        waits = world.auditor.waits
        before = waits.handled
        with bounded("a step of the broker"):
            supervisor.step(batch, self.clock.monotonic(), self.clock.wall())
        self._transmit(supervisor)
        world.auditor.stepped(supervisor)
        if world.scenario.hostiles:  # only there it matters that the broker takes its time for each envelope
            self._busy_until = world.timeline.now + _ENVELOPE * (waits.handled - before)
        if arrivals:
            self.poke()
        wake = supervisor.next_wake()
        self._step_at(max(self.clock.truth(wake), world.timeline.now + 1e-9) if wake < _NEVER else _NEVER)

    def _transmit(self, supervisor: Supervisor) -> None:
        world = self._world
        session_table, network, full = supervisor.state.session_table, world.network, world.scenario.weather.full
        is_blocked = False
        for routing_id, frame in session_table.outgoing():
            connection = network.table.get(routing_id)
            if connection is None:
                session_table.unreachable(routing_id)
            elif full and world.chance.random() < full:
                session_table.undelivered(routing_id, frame)
                is_blocked = True
            else:
                connection.down.send(frame)
        if is_blocked:
            session_table.retry()
            self._step_at(world.timeline.now + _RETRY)
