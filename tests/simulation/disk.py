"""The journal's disk: only what was synced survives a crash of the broker."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Final

from ether_broker.errors import EtherError, InternalError, JournalFull
from ether_broker.journal.journal import Replayed
from ether_broker.status import Status
from ether_broker.tap import Batch
from ether_broker.wire import FRAME, Kind
from tests.simulation.timeline import Timeline

if TYPE_CHECKING:
    from tests.simulation.scenario import Weather

__all__ = ["STILL_RUNNING", "Disk", "SimulatedJournal"]

RETRY: Final = 0.5
"""Seconds between two tries while the disk does not take anything, as the real journal's."""
STILL_RUNNING: Final = frozenset({int(Status.ACCEPTED), int(Status.PROGRESS)})
"""Statuses that are no outcome."""
_Item = tuple[int, Replayed | None, tuple[int, bytes] | None]


class Disk:
    """What is on the disk; it outlives every broker."""

    def __init__(self) -> None:
        self.identity = "00000000-0000-7000-8000-00000000d15c"
        self.commits: list[Replayed] = []
        self.firsts: list[int] = []
        self.envelopes: list[bytes] = []
        """By number, from 1 at index 0."""
        self.outcomes: dict[bytes, bytes] = {}
        """{request id: terminal RESPONSE}."""
        self.accepted: set[bytes] = set()
        """Request ids of the delegations."""
        self.checkpoint: tuple[int, bytes] | None = None
        self.is_broken = False
        """Whether it takes nothing at the moment."""

    @property
    def next(self) -> int:
        """The number that the next envelope gets."""
        return len(self.envelopes) + 1

    def sync(self, batch: Replayed | None, checkpoint: tuple[int, bytes] | None) -> None:
        """Make something durable."""
        if checkpoint is not None:
            self.checkpoint = checkpoint
        if batch is None or not batch.envelopes:
            return
        assert batch.first == self.next, "the journal was given numbers that it has, or a gap"
        self.commits.append(batch)
        self.firsts.append(batch.first)
        self.envelopes.extend(batch.envelopes)
        for envelope in batch.envelopes:
            if envelope[0] == Kind.DELEGATION:
                self.accepted.add(envelope[16:32])
            elif envelope[0] == Kind.RESPONSE and envelope[1] not in STILL_RUNNING:
                self.outcomes[envelope[16:32]] = envelope


class SimulatedJournal:
    """A broker's journal on that disk (`ether_broker.journal.journal.Journal`); group commit, as the real one."""

    def __init__(
        self, disk: Disk, timeline: Timeline, weather: Weather, chance: Random,
        heard: Callable[[int, Sequence[bytes]], None],
    ) -> None:  # fmt: skip
        self._disk = disk
        self._timeline = timeline
        self._weather = weather
        self._chance = chance
        self._heard = heard
        self.identity = disk.identity
        self.first = 1
        self.next = disk.next
        self.committed = 0
        self.trouble: EtherError | None = None
        self.queued_bytes = 0
        self.on_commit: Callable[[], None] = lambda: None
        self._tickets = 0
        self._queue: deque[_Item] = deque()
        self._group: list[_Item] = []
        self._is_over = False

    @property
    def checkpoint(self) -> tuple[int, bytes] | None:
        """See `Journal.checkpoint`."""
        return self._disk.checkpoint

    def append(self, first: int, time: float, wall: float, envelopes: Sequence[bytes]) -> int:
        """See `Journal.append`."""
        if first < self.next:
            raise InternalError(f"Envelope {first} is appended where {self.next} is due.")
        self.next = first + len(envelopes)
        self._tickets += 1
        self._heard(first, envelopes)
        self._put((self._tickets, Replayed(first, time, wall, list(envelopes)), None))
        return self._tickets

    def put_checkpoint(self, number: int, body: bytes) -> None:
        """See `Journal.put_checkpoint`."""
        if number > self.next:
            raise InternalError(f"The checkpoint at {number} is ahead of {self.next}.")
        self._put((self._tickets, None, (number, body)))

    def _put(self, item: _Item) -> None:
        self._queue.append(item)
        if not self._group:
            self._begin()

    def _begin(self) -> None:
        self._group = list(self._queue)
        self._queue.clear()
        self._timeline.after(self._weather.sync(self._chance), self._end)

    def _end(self) -> None:
        if self._is_over:
            return
        if self._disk.is_broken:
            if self.trouble is None:
                self.trouble = JournalFull("The journal has no room on its disk: make some, and writing goes on.")
                self.on_commit()
            self._timeline.after(RETRY, self._end)
            return
        self._sync(len(self._group))
        self.committed = self._group[-1][0]
        self._group = []
        self.trouble = None
        if self._queue:
            self._begin()
        self.on_commit()

    def _sync(self, count: int) -> None:
        for _, batch, checkpoint in self._group[:count]:
            self._disk.sync(batch, checkpoint)

    def crash(self) -> None:
        """End with the broker: of what is being written all, nothing or a part is on the disk; of the rest nothing."""
        self._is_over = True
        if self._group and not self._disk.is_broken:
            self._sync(self._chance.choice((0, len(self._group), self._chance.randint(0, len(self._group)))))

    def read(self, number: int) -> Batch | None:
        """See `Journal.read`."""
        if not 0 < number < self._disk.next:
            return None
        batch = self._disk.commits[bisect_right(self._disk.firsts, number) - 1]
        assert sum(map(len, batch.envelopes)) <= FRAME
        return Batch(batch.first, batch.time, batch.envelopes, sum(map(len, batch.envelopes)))

    def outcome(self, request_id: bytes) -> bytes | None:
        """See `Journal.outcome`."""
        return self._disk.outcomes.get(request_id)

    def replay(self) -> Iterator[Replayed]:
        """See `Journal.replay`."""
        start = 1 if self._disk.checkpoint is None else self._disk.checkpoint[0]
        return (batch for batch in list(self._disk.commits) if batch.first >= start)

    def close(self) -> None:
        """Commit what is queued."""
        self._group += self._queue
        self._queue.clear()
        self._is_over = True
        if not self._disk.is_broken:
            self._sync(len(self._group))
            self.committed = self._tickets
