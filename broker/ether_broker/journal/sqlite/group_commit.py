"""The thread that commits: whatever has been appended when the last commit ended makes the next one.

    append ─► queue ─► group of at most 1 MiB ─► Store.write ─► committed, on_commit
                                                     │ fails
                                                     ├─► trouble, on_commit; the same group again in 0.5 s, when the file
                                                     │   has been reopened, or its log merged, if that may help
                                                     └─► with a checkpoint: the group without it, and that again later

Nothing waits to be batched: an idle writer commits a single envelope at once, a busy one finds more each time. When nothing
is queued it indexes, and takes a step of a collection.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Final, NamedTuple

from ether_broker.errors import EtherError, InternalError, JournalFull, JournalReadOnly, JournalUnavailable
from ether_broker.journal.journal import Removed, Replayed
from ether_broker.journal.sqlite.commit_store import Store
from ether_broker.journal.sqlite.entry_index import SLICE, Indexer
from ether_broker.journal.sqlite.retention import collect
from ether_broker.journal.sqlite.sqlite_errors import explain

__all__ = ["Append", "Checkpoint", "Writer"]

GROUP: Final = 1 << 20
"""Bytes of envelopes after which a commit takes no further append."""
RETRY: Final = 0.5
"""Seconds between two tries while there is trouble."""
CALM: Final = 0.005
"""Seconds without an append before the writer indexes: under load the interpreter's lock is the broker's."""
UNINDEXED: Final = 262_144
"""Envelopes that may be unindexed before it indexes under load too: a reader's first search reads them all, in a second. At
twice as many it lags (`index_lags`), and who writes most is to wait; at four times as many everybody does, as it indexes twice
what comes."""
PUT_OFF: Final = 30.0
"""Seconds after which a checkpoint is tried again that could not be written."""
_REOPENED: Final = (JournalUnavailable, JournalReadOnly)
"""Trouble after which the file may be another, or may be written only when it is reopened."""
_SPELL: Final = 60.0
"""Seconds without trouble of the index after which the next is told again."""
_FAREWELL: Final = 0.5
"""Seconds that closing may take for indexing."""

_log = logging.getLogger(__name__)


class Append(NamedTuple):
    """Envelopes in the queue."""

    ticket: int
    size: int
    batch: Replayed


class Checkpoint(NamedTuple):
    """A checkpoint in the queue."""

    number: int
    body: bytes


class _Collection(NamedTuple):
    steps: Generator[None, None, Removed]
    result: Future[Removed]


class Writer:
    """Owns the store from `start` until `stop` returns."""

    def __init__(self, store: Store) -> None:
        self.committed = 0
        self.written_bytes = 0
        """Bytes of all envelopes that left the queue."""
        self.trouble: EtherError | None = None
        self.on_commit: Callable[[], None] = lambda: None
        self._store = store
        self._indexer = Indexer(store)
        self.unindexed = self._indexer.unindexed()
        """Changed by the thread alone."""
        self._queue: deque[Append | Checkpoint] = deque()
        self._group: list[Append] = []
        self._checkpoint: Checkpoint | None = None
        self._put_off: Checkpoint | None = None
        """One that could not be written; it waits until `_put_off_until`, and goes when there is a newer one."""
        self._put_off_until = 0.0
        self._has_committed = False
        """Whether the first commit of this opening is done: a checkpoint in it tells the clock of what comes after."""
        self._collections: deque[_Collection] = deque()
        self._bell = threading.Event()
        self._asleep = False
        self._stopping = False
        self._ended = False
        self._calm = False
        """Whether nothing has been appended for `CALM`."""
        self._quiet_until = 0.0
        self._has_begun = False
        """Whether something was given to commit: until then a broker reads what was; it needs the interpreter's lock."""
        self._thread = threading.Thread(target=self._run, name="ether-journal", daemon=True)

    @property
    def index_lags(self) -> bool:
        """Whether so much is unindexed that who writes most is to wait; not while indexing fails."""
        return self._indexer.behind > 2 * UNINDEXED and time.monotonic() >= self._quiet_until

    @property
    def _is_due(self) -> bool:
        """Whether so much is unindexed that it indexes under load too; not while indexing fails."""
        return self._indexer.behind > UNINDEXED and time.monotonic() >= self._quiet_until

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def put(self, item: Append | Checkpoint) -> None:
        """Queue something, in the order in which it is to be committed."""
        self._queue.append(item)
        if self._asleep:  # it says so before it looks into the queue a last time, so this cannot be missed
            self._bell.set()

    def collect(self, older_than: float) -> Future[Removed]:
        """Queue a collection; see `retention.collect`."""
        result: Future[Removed] = Future()
        self._collections.append(_Collection(collect(self._store, older_than), result))
        self._bell.set()
        if self._ended:  # set before the thread cancels what it did not do
            result.cancel()
        return result

    def stop(self) -> int:
        """Try to commit what is queued and end the thread; returns how many envelopes could not be committed."""
        self._stopping = True
        self._bell.set()
        self._thread.join()
        left = [*self._group, *(item for item in self._queue if isinstance(item, Append))]
        return sum(len(append.batch.envelopes) for append in left)

    def _run(self) -> None:
        try:
            while self._turn():
                pass
            self._index_for(_FAREWELL)
        except BaseException as error:  # noqa: BLE001  whoever waits for a commit has to be told
            _log.exception("The journal's writer has a bug and ends.")
            self._set_trouble(InternalError(f"The journal's writer ended by a bug of ours: {error!r}."))
        finally:
            self._ended = True
            for collection in self._collections:
                collection.result.cancel()

    def _turn(self) -> bool:
        """Do what is most urgent; False when the thread is to end."""
        stopping = self._stopping  # before the try: when told to stop, it tries once more
        if self._fill():
            return self._commit() or not stopping
        if stopping:
            return False
        if self._collections:
            self._collect()
            if self._is_due:
                self._index()  # who is to wait for it does not wait for the whole collection
        elif self._indexer.behind and self._has_begun and time.monotonic() >= self._quiet_until:
            self._calm = self._calm or self._indexer.behind > UNINDEXED or self._sleep(CALM)
            if self._calm:
                self._index()
        else:
            self._sleep(RETRY if self._put_off or (self._indexer.behind and self._has_begun) else None)
        return True

    def _fill(self) -> bool:
        """Take from the queue what makes the next commit; what failed before goes first, and alone."""
        if self._group or self._checkpoint:
            return True
        size = 0
        while self._queue and size < GROUP:
            self._has_begun = True
            item = self._queue.popleft()
            if isinstance(item, Checkpoint):
                self._checkpoint, self._put_off = item, None
                return True
            self._group.append(item)
            size += item.size
        if self._put_off and not self._group and time.monotonic() >= self._put_off_until:
            self._checkpoint, self._put_off = self._put_off, None
        return bool(self._group or self._checkpoint)

    def _commit(self) -> bool:
        """Write the group, or put off the checkpoint behind it; False when it failed, and it is time for the next try."""
        self._calm = False
        batches = [append.batch for append in self._group if append.batch.envelopes]
        try:
            self._prepare()
            if batches or self._checkpoint:
                self._store.write(batches, self._checkpoint)
        except (sqlite3.Error, OSError) as error:
            return self._fail(explain(error, self._store.path))
        except EtherError as error:
            return self._fail(error)
        self.unindexed.note(batches)
        if self._group:
            self.committed = self._group[-1].ticket
            self.written_bytes += sum(append.size for append in self._group)
        self._group = []
        self._checkpoint = None
        self._has_committed = True
        if self.trouble:
            self._put_off_until = 0.0  # what kept a checkpoint back may have gone too
        self.trouble = None
        self._notify()
        written = sum(len(batch.envelopes) for batch in batches)
        slices = 1 if self._indexer.behind <= 4 * UNINDEXED else 2 * written // SLICE + 1
        for _ in range(slices):
            if self._is_due:
                self._index()
        return True

    def _prepare(self) -> None:
        """Do what may help after trouble."""
        if type(self.trouble) in _REOPENED:
            self._store.reopen()
        elif isinstance(self.trouble, JournalFull):
            self._store.make_room()

    def _fail(self, trouble: EtherError) -> bool:
        if self._checkpoint and self._has_committed:  # whether more than that is wrong, the commit without it tells
            _log.warning("The journal's checkpoint has to wait: %s", trouble)
            self._put_off = None if self._stopping else self._checkpoint
            self._put_off_until = time.monotonic() + PUT_OFF
            self._checkpoint = None
            return True
        self._set_trouble(trouble)
        if not self._stopping:
            self._bell.clear()
            self._bell.wait(RETRY)  # nothing but `stop` and `collect` rings: the writer is not asleep
        return False

    def _set_trouble(self, trouble: EtherError) -> None:
        before, self.trouble = self.trouble, trouble
        if before is None or before.code != trouble.code:
            _log.error("%s", trouble)
            self._notify()

    def _notify(self) -> None:
        try:
            self.on_commit()
        except Exception:  # noqa: BLE001  the broker's bug is not the journal's
            _log.exception("What the journal calls after a commit raised.")

    def _sleep(self, timeout: float | None) -> bool:
        """Wait for something to do; True when nothing came in time."""
        self._bell.clear()
        self._asleep = True
        rang = bool(self._queue or self._collections or self._stopping) or self._bell.wait(timeout)
        self._asleep = False
        return not rang

    def _index(self) -> None:
        """Index a slice; if that fails nothing is lost, and it is tried again later."""
        lagged = self.index_lags
        try:
            self._indexer.slice()
            self.unindexed.forget(self._indexer.next)
        except (sqlite3.Error, EtherError) as error:
            if self._quiet_until < time.monotonic() - _SPELL:
                _log.warning("The journal's index waits: %s", error)
            self._quiet_until = time.monotonic() + RETRY
        if lagged and not self.index_lags:
            self._notify()

    def _index_for(self, seconds: float) -> None:
        limit = time.monotonic() + seconds
        while self._indexer.behind and self._quiet_until < time.monotonic() < limit:
            self._index()

    def _collect(self) -> None:
        steps, result = self._collections[0]
        try:
            next(steps)
            if self._indexer.is_overtaken:
                self.unindexed.drop(self._store.next)  # what was removed may have hidden a later outcome
            return
        except StopIteration as done:
            result.set_result(done.value)
        except sqlite3.Error as error:
            result.set_exception(explain(error, self._store.path))
        except EtherError as error:
            result.set_exception(error)
        self._collections.popleft()
