"""Writing commits: one row each, and the end of the hash chain."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from ether_broker.errors import JournalCorrupt, JournalUnavailable
from ether_broker.journal.chain import checkpoint_digest, link
from ether_broker.journal.failure import CORRUPT_FIX, explained
from ether_broker.journal.journal import Replayed
from ether_broker.journal.layout import connect_writer, read_meta
from ether_broker.journal.lock import Lock
from ether_broker.journal.row import Packed, pack_row

__all__ = ["Store", "exclusive"]

_INSERT: Final = (
    "INSERT INTO commits (seq, first, next, time, wall, hash, refs, checkpoint, body) VALUES (?,?,?,?,?,?,?,?,?)"
)


class Store:
    """The end of a journal file, for its one writer. After it is made, one thread uses it.

    Raises:
        JournalTooNew, JournalCorrupt, JournalUnavailable: as `connect_writer`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.connection = connect_writer(path)
        try:
            self.identity, _, anchor = read_meta(self.connection, path)
            last = self.connection.execute("SELECT seq, next, hash FROM commits ORDER BY seq DESC LIMIT 1").fetchone()
            self.seq, self.next, self.hash = _typed(last, path) if last else anchor
        except BaseException:
            self.connection.close()
            raise
        self._files = [(str(file), file.stat().st_ino) for file in (path, Path(f"{path}-wal")) if file.exists()]

    def write(self, batches: Sequence[Replayed], checkpoint: tuple[int, bytes] | None = None) -> None:
        """Commit batches, and a checkpoint after them; durable when it returns, and if it raises not done at all.

        Raises:
            sqlite3.Error: SQLite could not.
            JournalUnavailable: somebody removed or replaced the file.
        """
        self._check_place()
        packed = pack_row(batches)
        seq = self.seq + 1
        first, following, time, wall = self.next, self.next, 0.0, 0.0
        if batches:
            first = batches[0].first
            time = batches[-1].time
            wall = max(batch.wall for batch in batches)  # a wall clock may be set back
            following = batches[-1].first + len(batches[-1].envelopes)
        digest = checkpoint_digest(*checkpoint) if checkpoint else b""
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
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            for sha256, body in packed.cut:
                self._keep(sha256, body, seq)
            self.connection.execute(_INSERT, values)
            if checkpoint:
                self.connection.execute("DELETE FROM checkpoints")
                self.connection.execute("INSERT INTO checkpoints VALUES (?, ?, ?)", (checkpoint[0], seq, checkpoint[1]))
            self.connection.execute("COMMIT")
        except BaseException:
            self.roll_back()
            raise

    def _keep(self, sha256: bytes, body: bytes, seq: int) -> None:
        """Store a body if it is new, and note its last use in a table of its own: an update rewrites the whole row."""
        known = self.connection.execute("SELECT id FROM bodies WHERE sha256 = ?", (sha256,)).fetchone()
        if known is None:
            known = (
                self.connection.execute("INSERT INTO bodies (sha256, body) VALUES (?, ?)", (sha256, body)).lastrowid,
            )
        self.connection.execute("INSERT OR REPLACE INTO uses VALUES (?, ?)", (known[0], seq))

    def roll_back(self) -> None:
        """End a transaction that failed; SQLite may have ended it already."""
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

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
            self.connection.execute("BEGIN IMMEDIATE")
            yield self.connection
            self.connection.execute("COMMIT")
        finally:
            self.roll_back()
            self.connection.execute("PRAGMA synchronous=FULL")

    def close(self) -> None:
        """Close; as the last connection it moves everything into the one file."""
        self.connection.close()


def _typed(last: tuple[object, ...], path: Path) -> tuple[int, int, bytes]:
    seq, following, digest = last
    if isinstance(seq, int) and isinstance(following, int) and isinstance(digest, bytes):
        return seq, following, digest
    raise JournalCorrupt(f"The last commit of the journal {path} is damaged. {CORRUPT_FIX}")


@contextmanager
def exclusive(path: Path, *, patience: float = 0.5) -> Iterator[Store]:
    """The store of a journal that no broker has open, for as long as the block runs.

    Raises:
        JournalLocked: a broker has it.
        JournalUnavailable, JournalCorrupt, JournalTooNew: as `connect_writer`; also for what fails inside.
    """
    if not path.is_file():
        raise JournalUnavailable(f"There is no journal at {path}: name the file of a broker that keeps one.")
    lock = Lock(path, patience=patience)
    try:
        with explained(path), closing(Store(path)) as store:
            yield store
    finally:
        lock.release()
