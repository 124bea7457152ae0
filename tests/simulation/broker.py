"""The broker's process: the real supervisor on a simulated socket and disk."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from ether_actors.supervisor import Supervisor
from ether_broker.journal.journal import Journal
from ether_broker.journal.memory import MemoryJournal
from ether_broker.router import Session
from ether_broker.wire import Header
from tests.simulation.disk import SimulatedJournal
from tests.simulation.timeline import SkewedClock

if TYPE_CHECKING:
    from tests.simulation.world import World

__all__ = ["Broker"]

_TURN: Final = 32
"""Messages of one step, as `BrokerSocket` takes."""
_RETRY: Final = 0.01
_NEVER: Final = float("inf")


class _HeardJournal(MemoryJournal):
    """A journal that keeps nothing and says what it was given."""

    def __init__(self, heard: Callable[[int, Sequence[bytes]], None]) -> None:
        super().__init__()
        self._heard = heard

    def append(self, first: int, time: float, wall: float, envelopes: Sequence[bytes]) -> int:
        """See `Journal.append`."""
        self._heard(first, envelopes)
        return super().append(first, time, wall, envelopes)


class Broker:
    """One broker after the other, all on one disk."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.supervisor: Supervisor | None = None
        self.clock = SkewedClock(world.timeline, 1000.0)
        self.journal: SimulatedJournal | None = None
        self.up_since = 0.0
        self.lives = 0
        self._arrivals: deque[tuple[bytes, bytes]] = deque()
        self._next = _NEVER

    @property
    def is_up(self) -> bool:
        """Whether it runs."""
        return self.supervisor is not None

    def start(self) -> None:
        """Begin a life, unless one goes on."""
        if self.supervisor is not None:
            return
        world, scenario = self._world, self._world.scenario
        self.lives += 1
        self.up_since = world.timeline.now
        if scenario.moves and self.lives > 1:
            self.clock = SkewedClock(world.timeline, world.chance.uniform(0.0, 5000.0))
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
            patience=scenario.patience, make_id=world.make_id,
        )  # fmt: skip
        supervisor.recover(self.clock.monotonic(), self.clock.wall())
        journal.on_commit = self._poke
        records = supervisor.records
        refuse = records.refuse_unwritten

        def refuse_unwritten(session: Session, header: Header) -> None:
            world.auditor.refused.add(header.request_id)
            refuse(session, header)

        records.refuse_unwritten = refuse_unwritten  # type: ignore[method-assign]
        self.supervisor = supervisor
        self._arrivals.clear()
        self._next = _NEVER
        world.network.listener = self._arrived
        self._poke()

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

    # -- steps ---------------------------------------------------------------------------------------------------

    def _arrived(self, routing_id: bytes, frame: bytes) -> None:
        self._arrivals.append((routing_id, frame))
        self._poke()

    def _poke(self) -> None:
        self._step_at(self._world.timeline.now + self._world.chance.random() * 0.0005)

    def _step_at(self, when: float) -> None:
        if when < self._next:
            self._next = when
            self._world.timeline.at(when, lambda: self._due(when))

    def _due(self, when: float) -> None:
        if self._next == when and self.supervisor is not None:
            self._next = _NEVER
            self._step(self.supervisor)

    def _step(self, supervisor: Supervisor) -> None:
        world, arrivals = self._world, self._arrivals
        batch = [arrivals.popleft() for _ in range(min(len(arrivals), _TURN))]
        supervisor.step(batch, self.clock.monotonic(), self.clock.wall())
        self._transmit(supervisor)
        world.auditor.stepped(supervisor)
        if arrivals:
            self._poke()
        wake = supervisor.next_wake()
        self._step_at(max(self.clock.truth(wake), world.timeline.now + 1e-9) if wake < _NEVER else _NEVER)

    def _transmit(self, supervisor: Supervisor) -> None:
        world = self._world
        router, network, full = supervisor.records.router, world.network, world.scenario.weather.full
        is_blocked = False
        for routing_id, frame in router.outgoing():
            connection = network.table.get(routing_id)
            if connection is None:
                router.unreachable(routing_id)
            elif full and world.chance.random() < full:
                router.undelivered(routing_id, frame)
                is_blocked = True
            else:
                connection.down.send(frame)
        if is_blocked:
            router.retry()
            self._step_at(world.timeline.now + _RETRY)
