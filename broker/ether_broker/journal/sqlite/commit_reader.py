"""The reader of commits, from any connection to the file."""

from __future__ import annotations

import sqlite3
import struct
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

from ether_broker.envelope.status import INTERIM
from ether_broker.errors import JournalCorrupt
from ether_broker.journal.commit import references, restore, unpack_row
from ether_broker.journal.hash_chain import checkpoint_digest, link
from ether_broker.journal.journal import Replayed
from ether_broker.journal.record import is_outcome
from ether_broker.journal.sqlite.sqlite_errors import CORRUPT_FIX
from ether_broker.journal.sqlite.tables import read_meta
from ether_broker.tap import Batch
from ether_broker.wire.frame import REQUEST_ID, Flag, Kind

__all__ = ["COLUMNS", "Row", "Rows"]

COLUMNS: Final = "seq, first, next, time, wall, hash, refs, checkpoint, body"
_CACHED: Final = 8
_RESPONSE: Final = int(Kind.RESPONSE)


class Row(NamedTuple):
    """A commit as it is stored; `tables` has the columns."""

    seq: int
    first: int
    next: int
    time: float
    wall: float
    hash: bytes
    refs: bytes | None
    checkpoint: bytes | None
    body: bytes

    def link(self, before: bytes) -> bytes:
        """The hash that it must have behind `before`; `hash_chain.link` has what it raises."""
        head = self.seq, self.first, self.next, self.time, self.wall
        return link(before, head, self.refs or b"", self.checkpoint or b"", self.body)


class Rows:
    """The commits of a journal file by number; the last few are kept unpacked. Not for several threads at once."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._cache: deque[list[Replayed]] = deque(maxlen=_CACHED)

    def unpack(self, row: Row) -> list[Replayed]:
        """The batches of a commit, with their bodies.

        Raises:
            JournalCorrupt: it is not what was written.
        """
        try:
            batches = unpack_row(restore(row.body, row.refs, dict(self.bodies(row))) if row.refs else row.body)
        except (struct.error, KeyError, TypeError, ValueError) as error:
            raise self._damaged(row.seq, row.first, row.next) from error
        ends = (batches[0].first, batches[-1].first + len(batches[-1].envelopes)) if batches else (row.next, row.next)
        if ends != (row.first, row.next):
            raise self._damaged(row.seq, row.first, row.next)
        return batches

    def bodies(self, row: Row) -> Iterator[tuple[bytes, Any]]:
        """The large bodies of a commit as (SHA-256, body), one at a time; None stands for one that is missing."""
        for _, _, digest in references(row.refs):
            found = self._connection.execute("SELECT body FROM bodies WHERE sha256 = ?", (digest,)).fetchone()
            yield digest, None if found is None else found[0]

    def _damaged(self, seq: int, first: object, following: object = 0) -> JournalCorrupt:
        error = JournalCorrupt(
            f"Commit {seq} of the journal {self._path}, from number {first} on, is not what was written: "
            f"`ether log verify` says more. {CORRUPT_FIX}"
        )
        error.following = following if isinstance(following, int) else 0
        return error

    def at(self, number: int) -> Row | None:
        """The commit that has this number, or has the numbers round it; None if it is not there."""
        found = self._connection.execute(
            f"SELECT {COLUMNS} FROM commits WHERE first <= ? ORDER BY first DESC, seq DESC LIMIT 1",  # noqa: S608  constant
            (number,),
        ).fetchone()
        return None if found is None or found[2] <= number else Row._make(found)

    def scan(self, seq: int) -> Iterator[Row]:
        """All commits from `seq` on, in order, by one statement that sees the file as it is now."""
        cursor = self._connection.execute(
            f"SELECT {COLUMNS} FROM commits WHERE seq >= ? ORDER BY seq",  # noqa: S608  constant
            (seq,),
        )
        return map(Row._make, cursor)

    def walk(self, seq: int, *, backwards: bool = False) -> Iterator[Row]:
        """As `scan`, one statement a commit: whoever takes long holds up nobody, and sees what comes and goes."""
        order = "<= ? ORDER BY seq DESC" if backwards else ">= ? ORDER BY seq"
        statement = f"SELECT {COLUMNS} FROM commits WHERE seq {order} LIMIT 1"  # noqa: S608  constants
        while found := self._connection.execute(statement, (seq,)).fetchone():
            yield (row := Row._make(found))
            seq = row.seq + (-1 if backwards else 1)

    def seq_before(self, number: int) -> int:
        """The commit to start at in order to see everything from `number` on; 1 if all."""
        (seq,) = self._connection.execute("SELECT max(seq) FROM commits WHERE first <= ?", (number,)).fetchone()
        return int(seq or 1)

    def number_at(self, wall: float) -> int | None:
        """A number below which everything passed before a Unix time; None if all did."""
        (first,) = self._connection.execute("SELECT min(first) FROM commits WHERE wall >= ?", (wall,)).fetchone()
        return None if first is None else int(first)

    def batch(self, number: int) -> Batch | None:
        """The part of the batch that holds this number and fits into a frame, as the tap would have cut it."""
        batch = self._batch(number)
        return None if batch is None else batch.part(number)

    def envelope(self, number: int) -> tuple[Replayed, bytes] | None:
        """An envelope and the batch that it came in; None if it is not there."""
        batch = self._batch(number)
        return None if batch is None else (batch, batch.envelopes[number - batch.first])

    def _batch(self, number: int) -> Replayed | None:
        for batches in self._cache:
            if batches[0].first <= number < batches[-1].first + len(batches[-1].envelopes):
                break
        else:
            if (row := self.at(number)) is None:
                return None
            self._cache.append(batches := self.unpack(row))
        batch = batches[bisect_right(batches, number, key=lambda batch: batch.first) - 1]
        return batch if number < batch.first + len(batch.envelopes) else None

    def checkpoint(self) -> tuple[int, bytes] | None:
        """The last checkpoint as (number, body); None if there is none.

        Raises:
            JournalCorrupt: it is not what was written.
        """
        is_apart = not self._connection.in_transaction
        if is_apart:
            self._connection.execute("BEGIN")  # or a checkpoint that is put off meanwhile would be mixed in
        try:
            return self._checkpoint()
        finally:
            if is_apart and self._connection.in_transaction:  # SQLite may have ended it with what is raised
                self._connection.execute("ROLLBACK")

    def _checkpoint(self) -> tuple[int, bytes] | None:
        found = self._connection.execute(
            "SELECT number, seq, checkpoint FROM checkpoints LEFT JOIN commits USING (seq)"
        ).fetchone()
        if found is None:
            return None
        number, seq, digest = found
        body = BytesIO()  # it gives out what was written into it without a copy
        try:
            for (part,) in self._connection.execute("SELECT body FROM checkpoint_parts ORDER BY part"):
                body.write(part)
        except TypeError:
            raise self._damaged(seq, number) from None
        if checkpoint_digest(number, (body.getbuffer(),)) != digest:
            raise self._damaged(seq, number)
        return number, body.getvalue()

    def indexed(self) -> int:
        """The number up to which, exclusive, the index has everything."""
        (last,) = self._connection.execute("SELECT max(number) FROM entries").fetchone()
        _, anchor, _ = read_meta(self._connection, self._path).anchor
        return max(0 if last is None else int(last) + 1, anchor)

    def outcome(self, request_id: bytes, behind: Sequence[int] | None) -> bytes | None:
        """The first terminal RESPONSE to a delegation that was accepted, else the last refusal; None if there is none.

        Args:
            request_id: of the delegation.
            behind: the numbers of its outcomes that are not indexed, as `Unindexed.find` has just said.
        """
        # What is not indexed was looked for first, and is here: what the index has got since is in it.
        scanned = self._outcomes_behind(request_id, self.seq_before(self.indexed())) if behind is None else iter(())
        indexed = self._connection.execute(
            "SELECT number, status FROM entries WHERE request_id = ? AND kind = ? ORDER BY number",
            (request_id, _RESPONSE),
        ).fetchall()
        numbers = chain((number for number, status in indexed if status not in INTERIM), behind or ())
        there = (found[1] for number in numbers if (found := self.envelope(number)))
        refusal: bytes | None = None
        for envelope in chain(there, scanned):
            if not envelope[3] & Flag.REFUSED:
                return envelope
            refusal = envelope
        return refusal

    def _outcomes_behind(self, request_id: bytes, seq: int) -> Iterator[bytes]:
        """Look through all commits from `seq` on: for the 16 bytes first, and apart only where they are."""
        for row in self.scan(seq):
            if request_id in row.body:
                for batch in self.unpack(row):
                    for envelope in batch.envelopes:
                        if envelope[REQUEST_ID] == request_id and is_outcome(envelope):
                            yield envelope

    def replay(self, number: int) -> Iterator[Replayed]:
        """Everything from `number` on, each commit checked against the chain.

        Raises:
            JournalCorrupt: a commit is not what was written, or one is missing.
        """
        seq, before = self._before(self.seq_before(number))
        for row in self.scan(seq + 1):
            seq += 1
            try:
                before = row.link(before)
            except (struct.error, TypeError):
                before = b""
            if row.seq != seq or before != row.hash:
                raise self._damaged(seq, row.first)
            for batch in self.unpack(row):
                if batch.following > number:
                    yield batch.since(number)

    def _before(self, seq: int) -> tuple[int, bytes]:
        """The number and the hash of the commit before `seq`, also when retention has removed it."""
        found = self._connection.execute("SELECT seq, hash FROM commits WHERE seq = ?", (seq - 1,)).fetchone()
        if found is not None:
            return found[0], found[1]
        before, _, digest = read_meta(self._connection, self._path).anchor
        return before, digest

    def first(self) -> int:
        """The number of the oldest envelope that retention has left, or will find."""
        return read_meta(self._connection, self._path).anchor[1]
