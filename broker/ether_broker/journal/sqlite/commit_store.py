"""The writer of commits: one row each, and the end of the hash chain."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from ether_broker.errors import JournalCorrupt, JournalUnavailable
from ether_broker.journal.commit import Packed, pack_row
from ether_broker.journal.hash_chain import checkpoint_digest, link
from ether_broker.journal.journal import Replayed
from ether_broker.journal.sqlite.sqlite_errors import CORRUPT_FIX, explained
from ether_broker.journal.sqlite.tables import LOG_PAGES, PAGE, connect_reader, connect_writer, read_meta, transaction
from ether_broker.journal.sqlite.writer_lock import Lock

__all__ = ["Store", "exclusive"]

_LEAST_LOG: Final = 64
"""Pages of the write-ahead log on the smallest disk, 512 KiB."""
_FITTED: Final = 32
"""Commits after which it is looked how much room the disk has."""
_PART: Final = 4 << 20
"""Bytes of a checkpoint in one row."""
_INSERT: Final = (
    "INSERT INTO commits (seq, first, next, time, wall, hash, refs, checkpoint, body) VALUES (?,?,?,?,?,?,?,?,?)"
)


class Store:
    """The end of a journal file, for its one writer, with the lock on it. After it is made, one thread uses it.

    Args:
        path: without symbolic links.
        patience: as for `Lock`.

    Raises:
        JournalLocked: another process has it.
        JournalTooNew, JournalCorrupt, JournalUnavailable: as `connect_writer`.
    """

    def __init__(self, path: Path, *, patience: float = 0.5) -> None:
        self.path = path
        self.openings = 1
        """How often it was opened."""
        self._log_pages = 0
        with ExitStack() as undo:
            self._lock = Lock(path, patience=patience)
            undo.callback(self._lock.release)
            self.connection = undo.enter_context(closing(connect_writer(path)))
            self.identity, (self.seq, self.next, self.hash) = _end(self.connection, path)
            self.removed_until = _removed_until(self.connection, path)
            """As `Journal.removed_until`; raised before the commits are gone that it tells of. Any thread may read it."""
            self._begin()
            undo.pop_all()

    def _begin(self) -> None:
        files = self.path, Path(f"{self.path}-wal")
        self._files = [(str(file), file.stat().st_ino) for file in files if file.exists()]
        self._fit()

    def reopen(self) -> None:
        """Reopen the file, which may have been put back, or may be written again.

        Raises:
            JournalUnavailable: it is not there, or not what this one wrote, to the end; nothing has changed.
            JournalLocked, JournalTooNew, JournalCorrupt: as when it is made.
        """
        lock = self._lock if self._lock.is_on(self.path) else Lock(self.path, patience=0.0)
        try:
            connection = self._connect_again()
        except BaseException:
            if lock is not self._lock:
                lock.release()
            raise
        # Now, and not before: of a file that has another connection, or was moved, SQLite leaves the log where it is.
        self.connection.close()
        if lock is not self._lock:
            self._lock.release()
        self.connection, self._lock, self._log_pages = connection, lock, 0
        self.openings += 1
        self._begin()

    def _connect_again(self) -> sqlite3.Connection:
        # Read-only first: who writes a file that is being copied back, or another, would take its log away.
        with closing(connect_reader(self.path)) as reader:
            found = _end(reader, self.path)
        if found != (self.identity, (self.seq, self.next, self.hash)):
            raise JournalUnavailable(
                f"The journal {self.path} is not the one that the broker writes, or lacks the end of it: "
                "put that one back, or start the broker again."
            )
        return connect_writer(self.path)

    def _fit(self) -> None:
        """Let the write-ahead log take an eighth of the room on the disk: a log that has all of it cannot be merged."""
        disk = os.statvfs(self.path)
        pages = min(max(disk.f_bavail * disk.f_frsize // (8 * PAGE), _LEAST_LOG), LOG_PAGES)
        if pages != self._log_pages:
            self._log_pages = pages
            self.connection.execute(f"PRAGMA wal_autocheckpoint={pages}")
            self.connection.execute(
                f"PRAGMA journal_size_limit={4 * pages * PAGE}"
            )  # it is cut to that when it is merged

    def make_room(self) -> None:
        """Merge the write-ahead log into the file and give its room back, as far as the disk lets that happen."""
        self._fit()
        with suppress(sqlite3.Error):
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def write(self, batches: Sequence[Replayed], checkpoint: tuple[int, bytes] | None = None) -> None:
        """Commit batches, and a checkpoint after them; durable when it returns, and if it raises not done at all.

        Raises:
            sqlite3.Error: SQLite could not.
            JournalUnavailable: somebody removed or replaced the file.
        """
        self._check_place()
        if not self.seq % _FITTED:
            self._fit()
        packed = pack_row(batches)
        seq = self.seq + 1
        first, following, time, wall = self.next, self.next, 0.0, 0.0
        if batches:
            first = batches[0].first
            time = batches[-1].time
            wall = max(batch.wall for batch in batches)  # a wall clock may be set back
            following = batches[-1].first + len(batches[-1].envelopes)
        digest = checkpoint_digest(checkpoint[0], (checkpoint[1],)) if checkpoint else b""
        chained = link(self.hash, (seq, first, following, time, wall), packed.refs, digest, packed.body)
        values = (seq, first, following, time, wall, chained, packed.refs or None, digest or None, packed.body)
        if packed.cut or checkpoint:
            self._write_together(values, packed, checkpoint)
        else:
            # By itself a statement is a transaction: one call of SQLite, which gives up the interpreter's lock once.
            self.connection.execute(_INSERT, values)
        self.seq, self.next, self.hash = seq, following, chained

    def _write_together(self, values: tuple[object, ...], packed: Packed, checkpoint: tuple[int, bytes] | None) -> None:
        seq = self.seq + 1
        with transaction(self.connection):
            for sha256, body in packed.cut:
                self._keep(sha256, body, seq)
            self.connection.execute(_INSERT, values)
            if checkpoint:
                self._put_checkpoint(seq, *checkpoint)

    def _put_checkpoint(self, seq: int, number: int, body: bytes) -> None:
        self.connection.execute("DELETE FROM checkpoints")
        self.connection.execute("DELETE FROM checkpoint_parts")
        self.connection.execute("INSERT INTO checkpoints VALUES (?, ?)", (number, seq))
        whole = memoryview(body)
        for part, start in enumerate(range(0, len(body), _PART)):
            self.connection.execute("INSERT INTO checkpoint_parts VALUES (?, ?)", (part, whole[start : start + _PART]))

    def _keep(self, sha256: bytes, body: bytes, seq: int) -> None:
        """Store a body if it is new, and note its last use in a table of its own: an update rewrites the whole row."""
        known = self.connection.execute("SELECT id FROM bodies WHERE sha256 = ?", (sha256,)).fetchone()
        if known is None:
            known = (
                self.connection.execute("INSERT INTO bodies (sha256, body) VALUES (?, ?)", (sha256, body)).lastrowid,
            )
        self.connection.execute("INSERT OR REPLACE INTO uses VALUES (?, ?)", (known[0], seq))

    def _check_place(self) -> None:
        """Writing to a file that has no name any more succeeds, and is lost: so look first."""
        for name, inode in self._files:
            try:
                there = os.stat(name).st_ino == inode  # noqa: PTH116  a third of the time, each commit
            except OSError:
                there = False
            if not there:
                raise JournalUnavailable(
                    f"The journal's file {name} was removed or replaced while the broker writes it: "
                    "put it back where it was, or start the broker again to begin a new journal."
                )

    @contextmanager
    def relaxed(self) -> Iterator[sqlite3.Connection]:
        """A transaction that does not wait for the disk: for what a crash may undo, as it can be done again.

        The next commit makes it durable along with itself.
        """
        self._check_place()
        self.connection.execute("PRAGMA synchronous=NORMAL")
        try:
            with transaction(self.connection):
                yield self.connection
        finally:
            self.connection.execute("PRAGMA synchronous=FULL")

    def close(self) -> None:
        """Close; as the last connection it moves everything into the one file."""
        self.connection.close()
        self._lock.release()


def _end(connection: sqlite3.Connection, path: Path) -> tuple[str, tuple[int, int, bytes]]:
    """A journal's identity, and (seq, next, hash) of its last commit."""
    identity, _, anchor = read_meta(connection, path)
    last = connection.execute("SELECT seq, next, hash FROM commits ORDER BY seq DESC LIMIT 1").fetchone() or anchor
    if tuple(map(type, last)) != (int, int, bytes):
        raise JournalCorrupt(f"The last commit of the journal {path} is damaged. {CORRUPT_FIX}")
    return identity, last


def _removed_until(connection: sqlite3.Connection, path: Path) -> float:
    """`Journal.removed_until`; where an older Ether removed something and did not note it, the oldest time that is left."""
    (until,) = connection.execute(
        "SELECT coalesce((SELECT value FROM meta WHERE key = 'anchor_wall'), CASE WHEN value > 1 THEN"
        " (SELECT coalesce(min(wall), 9e999) FROM commits WHERE wall > 0) END, 0.0) FROM meta WHERE key = 'anchor_next'"
    ).fetchone()
    if not isinstance(until, float):
        raise JournalCorrupt(f"The anchor of the journal {path} is damaged. {CORRUPT_FIX}")
    return until


@contextmanager
def exclusive(path: Path, *, patience: float = 0.5) -> Iterator[Store]:
    """The store of a journal that no broker has open, for as long as the block runs.

    Raises:
        JournalLocked: a broker has it.
        JournalUnavailable, JournalCorrupt, JournalTooNew: as `connect_writer`; also for what fails inside.
    """
    if not path.is_file():
        raise JournalUnavailable(f"There is no journal at {path}: name the file of a broker that keeps one.")
    with explained(path), closing(Store(path.resolve(), patience=patience)) as store:
        yield store
