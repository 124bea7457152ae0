"""The journal's disk: only what was synced survives a crash of the broker."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Final

from ether_broker.envelope.status import Status
from ether_broker.errors import EtherError, InternalError, JournalFull
from ether_broker.journal.journal import Removed, Replayed
from ether_broker.journal.memory.store import MemoryStore
from ether_broker.journal.record import is_outcome
from ether_broker.tap import Batch
from ether_broker.wire.frame import Kind
from tests.simulation.timeline import Timeline

if TYPE_CHECKING:
    from tests.simulation.scenario import Weather

__all__ = ["STILL_RUNNING", "Disk", "SimulatedJournal"]

RETRY: Final = 0.5
"""Seconds between two tries while the disk does not take anything, as the real journal's."""
STILL_RUNNING: Final = frozenset({Status.ACCEPTED.code, Status.PROGRESS.code})
"""Statuses that are no outcome."""
_Item = tuple[int, Replayed | None, tuple[int, bytes] | None]


class Disk(MemoryStore):
    """What is on the disk; it outlives every broker."""

    def __init__(self) -> None:
        super().__init__("00000000-0000-7000-8000-00000000d15c")
        self.envelopes: list[bytes] = []
        """All that was ever written, by number, from 1 at index 0; what was given up too."""
        self.outcomes: dict[bytes, bytes] = {}
        """{request id: terminal RESPONSE}, likewise."""
        self.accepted: set[bytes] = set()
        """Request ids of the delegations."""
        self.is_broken = False
        """Whether it takes nothing at the moment."""
        self.cause: type[EtherError] = JournalFull
        """Why."""
        self.is_index_behind = False
        """Whether what is committed is far ahead of what is indexed."""
        self.on_indexed: Callable[[], None] = lambda: None
        """Told when it is not any more."""
        self._locks = 0

    def index(self) -> None:
        """Let the index have all that is committed."""
        self.is_index_behind = False
        self.on_indexed()

    def lock(self, cause: type[EtherError]) -> None:
        """Let nobody write, nor open it for writing."""
        self._locks += 1
        self.cause = cause

    def unlock(self) -> None:
        """Let it be written again."""
        self._locks -= 1

    @property
    def is_locked(self) -> bool:
        """Whether a broker cannot be started on it."""
        return self._locks > 0

    @property
    def takes_nothing(self) -> bool:
        """Whether nothing can be written."""
        return self.is_broken or self.is_locked

    def sync(self, batch: Replayed | None, checkpoint: tuple[int, bytes] | None) -> None:
        """Make something durable."""
        if checkpoint is not None:
            self.checkpoint = checkpoint
        if batch is None or not batch.envelopes:
            return
        assert batch.first == self.next, "the journal was given numbers that it has, or a gap"
        self.write(batch)
        self.envelopes.extend(batch.envelopes)
        for envelope in batch.envelopes:
            if envelope[0] == Kind.DELEGATION:
                self.accepted.add(envelope[16:32])
            elif is_outcome(envelope):
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
        self.next = disk.next
        self.committed = 0
        self.trouble: EtherError | None = None
        self.queued_bytes = 0
        self.on_commit: Callable[[], None] = lambda: None
        self._tickets = 0
        self._queue: deque[_Item] = deque()
        self._group: list[_Item] = []
        self._is_over = False
        disk.on_indexed = self._indexed

    @property
    def index_lags(self) -> bool:
        """See `Journal.index_lags`."""
        return self._disk.is_index_behind

    def _indexed(self) -> None:
        if not self._is_over:
            self.on_commit()

    @property
    def first(self) -> int:
        """See `Journal.first`."""
        return self._disk.first

    @property
    def removed_until(self) -> float:
        """See `Journal.removed_until`."""
        return self._disk.removed_until

    @property
    def is_over(self) -> bool:
        """Whether its broker has ended."""
        return self._is_over

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
        if self._disk.takes_nothing:
            if self.trouble is None:
                self.trouble = (self._disk.cause if self._disk.is_locked else JournalFull)(
                    "Nothing can be written now."
                )
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
        if self._group and not self._disk.takes_nothing:
            self._sync(self._chance.choice((0, len(self._group), self._chance.randint(0, len(self._group)))))

    def read(self, number: int) -> Batch | None:
        """See `Journal.read`."""
        return self._disk.read(number)

    def outcome(self, request_id: bytes) -> bytes | None:
        """See `Journal.outcome`."""
        return self._disk.outcome(request_id)

    def replay(self, number: int | None = None) -> Iterator[Replayed]:
        """See `Journal.replay`."""
        if number is None:
            number = 0 if self._disk.checkpoint is None else self._disk.checkpoint[0]
        return self._disk.replay(number)

    def gc(self, older_than: float) -> Removed:
        """See `Journal.gc`."""
        return self._disk.gc(older_than)

    def close(self) -> None:
        """Commit what is queued."""
        self._group += self._queue
        self._queue.clear()
        self._is_over = True
        if not self._disk.takes_nothing:
            self._sync(len(self._group))
            self.committed = self._tickets
