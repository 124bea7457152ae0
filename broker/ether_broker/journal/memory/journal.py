"""A journal in memory, which commits at once, or when it is told to."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from ether_broker.errors import Closed, EtherError, InternalError
from ether_broker.journal.journal import Removed, Replayed
from ether_broker.journal.memory.store import MemoryStore
from ether_broker.tap import Batch

__all__ = ["MemoryJournal"]


class MemoryJournal:
    """One opening of a store: everything that a `Journal` promises, but that it outlives the process.

        store = MemoryStore()
        journal = MemoryJournal(store, holds=True)      # a disk that has its own pace
        journal.append(1, 0.0, 0.0, [envelope])
        again = MemoryJournal(store)                    # as after a crash: what was not committed is lost

    Args:
        store: what it finds there; default: a new one.
        holds: whether what is appended waits for `commit`; else it is committed at once.
    """

    def __init__(self, store: MemoryStore | None = None, *, holds: bool = False) -> None:
        self.store: MemoryStore = store or MemoryStore()
        """Where it keeps everything."""
        self.next: int = self.store.next
        self.committed: int = 0
        self.trouble: EtherError | None = None
        self.index_lags: bool = False
        """While it is set, nothing is committed; `fail` and `mend` change it."""
        self.on_commit: Callable[[], None] = lambda: None
        self._holds = holds
        self._ticket = 0
        self._queue: deque[tuple[int, Replayed | tuple[int, bytes]]] = deque()
        self._closed = False

    @property
    def identity(self) -> str:
        """See `Journal.identity`."""
        return self.store.identity

    @property
    def first(self) -> int:
        """See `Journal.first`."""
        return self.store.first

    @property
    def removed_until(self) -> float:
        """See `Journal.removed_until`."""
        return self.store.removed_until

    @property
    def checkpoint(self) -> tuple[int, bytes] | None:
        """See `Journal.checkpoint`."""
        self._check_open()
        return self.store.checkpoint

    @property
    def pending(self) -> int:
        """Appends and checkpoints that are not committed yet."""
        return len(self._queue)

    def append(self, first: int, time: float, wall: float, envelopes: Sequence[bytes]) -> int:
        """See `Journal.append`."""
        self._check_open()
        if first < self.next:
            raise InternalError(f"Envelope {first} is appended where {self.next} is due.")
        if envelopes:
            self.next = first + len(envelopes)
        self._ticket += 1
        self._put(Replayed(first, time, wall, envelopes))
        return self._ticket

    def put_checkpoint(self, number: int, body: bytes) -> None:
        """See `Journal.put_checkpoint`."""
        self._check_open()
        if number > self.next:
            raise InternalError(f"A checkpoint is taken at {number} where {self.next} is due.")
        self._put((number, body))

    def _put(self, item: Replayed | tuple[int, bytes]) -> None:
        self._queue.append((self._ticket, item))
        if not self._holds:
            self.commit()

    def commit(self, most: int | None = None) -> None:
        """Commit what waits, in order; not while there is trouble.

        Args:
            most: appends and checkpoints at most; None is all.
        """
        left = len(self._queue) if most is None else min(most, len(self._queue))
        if self.trouble is not None or not left:
            return
        for _ in range(left):
            ticket, item = self._queue.popleft()
            if isinstance(item, Replayed):
                self.store.write(item)
                self.committed = ticket
            else:
                self.store.checkpoint = item
        self.on_commit()

    def fail(self, trouble: EtherError) -> None:
        """Commit nothing any more, for that reason, until `mend`."""
        self.trouble = trouble
        self.on_commit()

    def mend(self) -> None:
        """Commit again: what waits at once, unless it waits for `commit`."""
        self.trouble = None
        if not self._holds:
            self.commit()

    def read(self, number: int) -> Batch | None:
        """See `Journal.read`."""
        self._check_open()
        return self.store.read(number)

    def outcome(self, request_id: bytes) -> bytes | None:
        """See `Journal.outcome`."""
        self._check_open()
        return self.store.outcome(request_id)

    def replay(self, number: int | None = None) -> Iterator[Replayed]:
        """See `Journal.replay`."""
        if number is None:
            number = 0 if self.store.checkpoint is None else self.store.checkpoint[0]
        return self.store.replay(number)

    def gc(self, older_than: float) -> Removed:
        """See `Journal.gc`."""
        self._check_open()
        return self.store.gc(older_than)

    def close(self) -> None:
        """See `Journal.close`."""
        if self._closed:
            return
        self.commit()
        self._closed = True
        left = sum(len(item.envelopes) for _, item in self._queue if isinstance(item, Replayed))
        if self.trouble is not None and left:
            raise type(self.trouble)(f"{left} envelopes were not committed when the journal was closed. {self.trouble}")

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("The journal is closed.")
