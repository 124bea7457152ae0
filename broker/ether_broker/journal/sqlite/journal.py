"""The journal in a SQLite file, with group commit."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import CancelledError
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from ether_broker.errors import Closed, EtherError, InternalError, JournalUnavailable
from ether_broker.journal.journal import Removed, Replayed
from ether_broker.journal.sqlite.commit_reader import Rows
from ether_broker.journal.sqlite.commit_store import Store
from ether_broker.journal.sqlite.group_commit import Append, Checkpoint, Writer
from ether_broker.journal.sqlite.sqlite_errors import explained
from ether_broker.journal.sqlite.tables import connect_reader, make_file
from ether_broker.tap import Batch

__all__ = ["SqliteJournal"]

_T = TypeVar("_T")


class SqliteJournal:
    """A journal in a SQLite file: survives the broker, the machine's power, and whatever else leaves the disk whole.

    `committed` means that the commit is on the disk (`fsync`), as far as the disk tells the truth.

    Args:
        path: the file; it is made (0600) where it is missing, with its folder (0700).
            Beside it are `PATH-wal` and `PATH-shm` as long as it is open.
        create: whether it may be made; else a missing one is JournalUnavailable.

    Raises:
        JournalLocked: another process has it; the message names it.
        JournalTooNew: a newer Ether wrote it.
        JournalCorrupt: it is no journal, or a damaged one.
        JournalReadOnly, JournalFull, JournalUnavailable: it cannot be written here and now.
    """

    def __init__(self, path: str | os.PathLike[str], *, create: bool = True) -> None:
        self.path: Path = Path(path).resolve()
        if create:
            make_file(self.path)
        with explained(self.path):
            self._open()
        self._ticket = 0
        self._taken = 0
        self._closed = False
        self._closing = threading.Lock()

    def _open(self) -> None:
        self._store = Store(self.path)
        try:
            self.identity: str = self._store.identity
            self.next: int = self._store.next
            self._writer = Writer(self._store)
            self._connect_reader()
        except BaseException:
            self._store.close()
            raise
        self._reading = threading.Lock()
        self._writer.start()

    def _connect_reader(self) -> None:
        self._reader = connect_reader(self.path)
        self._rows = Rows(self._reader, self.path)
        self._openings = self._store.openings

    @property
    def first(self) -> int:
        """The number of the oldest envelope; see `Journal.first`."""
        return self._read(lambda rows: rows.first())

    @property
    def removed_until(self) -> float:
        """The latest time at which something passed that was removed; see `Journal.removed_until`."""
        return self._store.removed_until

    @property
    def committed(self) -> int:
        """The last ticket that is durable."""
        return self._writer.committed

    @property
    def trouble(self) -> EtherError | None:
        """Why it cannot write now."""
        return self._writer.trouble

    @property
    def index_lags(self) -> bool:
        """Whether the index has fallen too far behind what is committed; see `Journal.index_lags`."""
        return self._writer.index_lags

    @property
    def queued_bytes(self) -> int:
        """Bytes of the envelopes that wait for their commit."""
        return self._taken - self._writer.written_bytes

    @property
    def on_commit(self) -> Callable[[], None]:
        """Called from the writer's thread after each commit and when trouble comes or goes."""
        return self._writer.on_commit

    @on_commit.setter
    def on_commit(self, callback: Callable[[], None]) -> None:
        self._writer.on_commit = callback

    def append(self, first: int, time: float, wall: float, envelopes: Sequence[bytes]) -> int:
        """Queue envelopes for the next commit; see `Journal.append`."""
        if self._closed:
            raise Closed(f"The journal {self.path} is closed.")
        if first < self.next:
            raise InternalError(f"Envelope {first} is appended where {self.next} is due.")
        size = sum(map(len, envelopes))
        if envelopes:
            self.next = first + len(envelopes)
        self._taken += size
        self._ticket = ticket = self._ticket + 1
        self._writer.put(Append(ticket, size, Replayed(first, time, wall, envelopes)))
        return ticket

    def put_checkpoint(self, number: int, body: bytes) -> None:
        """Queue a checkpoint; see `Journal.put_checkpoint`."""
        if self._closed:
            raise Closed(f"The journal {self.path} is closed.")
        if number > self.next:
            raise InternalError(f"A checkpoint is taken at {number} where {self.next} is due.")
        self._writer.put(Checkpoint(number, body))

    @property
    def checkpoint(self) -> tuple[int, bytes] | None:
        """The last durable checkpoint, read from the file."""
        return self._read(Rows.checkpoint)

    def read(self, number: int) -> Batch | None:
        """The committed batch that holds this number; see `Journal.read`.

        Raises:
            JournalCorrupt, JournalUnavailable: it cannot be read.
        """
        return self._read(lambda rows: rows.batch(number))

    def outcome(self, request_id: bytes) -> bytes | None:
        """The committed terminal RESPONSE to a delegation; see `Journal.outcome`.

        Raises:
            JournalCorrupt, JournalUnavailable: it cannot be read.
        """
        return self._read(lambda rows: rows.outcome(request_id, self._writer.unindexed.find(request_id)))

    def replay(self, number: int | None = None) -> Generator[Replayed, None, None]:
        """Everything committed from the last checkpoint's number on, as the file is when it is first asked.

        Args:
            number: begin there; None at the last checkpoint's.

        Raises:
            JournalCorrupt, JournalUnavailable: while iterating.
        """
        with closing(connect_reader(self.path)) as connection, explained(self.path):
            rows = Rows(connection, self.path)
            if number is None:
                checkpoint = rows.checkpoint()
                number = checkpoint[0] if checkpoint else 0
            yield from rows.replay(number)

    def gc(self, older_than: float) -> Removed:
        """Remove what passed before a Unix time and is below the last checkpoint, while the broker goes on; see `collect`.

        It waits for the end of that, so not to be called from `on_commit`; commits go first meanwhile.

        Raises:
            Closed: the journal is closed, or was before it was done.
            JournalUnavailable: it cannot be written now; what was removed so far stays removed.
        """
        with self._closing:
            if self._closed:
                raise Closed(f"The journal {self.path} is closed.")
            result = self._writer.collect(older_than)
        try:
            return result.result()
        except CancelledError:
            raise Closed(f"The journal {self.path} was closed before all of it was removed.") from None

    def close(self) -> None:
        """Commit what is queued, and leave one whole file; see `Journal.close`."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
        left = self._writer.stop()
        with self._reading:
            self._reader.close()
        self._store.close()
        if left:
            trouble = self.trouble or JournalUnavailable("The writer had ended.")
            raise type(trouble)(f"{left} envelopes were not committed when the journal was closed. {trouble}")

    def _read(self, query: Callable[[Rows], _T]) -> _T:
        with self._reading, explained(self.path):
            if self._closed:
                raise Closed(f"The journal {self.path} is closed.")
            if self._openings != self._store.openings:  # what was open is a file that nobody writes any more
                self._reader.close()
                self._connect_reader()
            return query(self._rows)
