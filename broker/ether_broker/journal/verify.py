"""Proving that a journal is what was written.

The chain shows any change of a commit to whoever kept a later hash. Somebody who may write the file can make the whole chain
anew: only a hash that was kept elsewhere tells, so `Verdict` has the last one, and `verify` takes it the next time.
"""

from __future__ import annotations

import hashlib
import sqlite3
import struct
from dataclasses import dataclass
from enum import StrEnum, unique
from pathlib import Path
from typing import Final

from ether_broker.errors import JournalCorrupt
from ether_broker.journal.index import describe
from ether_broker.journal.layout import read_meta
from ether_broker.journal.row import references
from ether_broker.journal.rows import Row, Rows

__all__ = ["Flaw", "Problem", "Verdict", "verify"]

_ENTRY: Final = "number, seq, wall, kind, status, request_id, parent, source, target, capability"


@unique
class Flaw(StrEnum):
    """What can be wrong with a journal."""

    ALTERED = "altered"
    """What is stored of a commit does not give its hash."""
    MISSING = "missing"
    """A commit is not there, and later ones are."""
    BODY = "body"
    """A large body is missing, or is not the one that its commit names."""
    UNREADABLE = "unreadable"
    """SQLite cannot read on."""
    CHECKPOINT = "checkpoint"
    """The checkpoint is not the one that its commit names."""
    INDEX = "index"
    """The index tells otherwise than the commits; those are whole."""
    TRUNCATED = "truncated"
    """The last commits are missing: the index, the checkpoint or a kept hash knows of more."""


@dataclass(frozen=True, slots=True)
class Problem:
    """The first thing that is wrong."""

    flaw: Flaw
    seq: int
    """The commit; of a truncation the first that is missing."""
    number: int
    """The envelope at or behind which it is."""
    message: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What `verify` saw, up to the first problem."""

    identity: str
    commits: int
    envelopes: int
    bodies: int
    """References to large bodies that were followed."""
    first: int
    next: int
    seq: int
    """The last commit that is whole."""
    hash: str
    """Its hash, in hex: keep it elsewhere, and nobody can rewrite what is before it unseen."""
    problem: Problem | None


class _Walk:
    """One pass over a snapshot of the file."""

    def __init__(self, connection: sqlite3.Connection, path: Path, known: str | None) -> None:
        self._connection = connection
        self._rows = Rows(connection, path)
        self._known = known
        self.identity, _, (self.seq, self.next, self.hash) = read_meta(connection, path)
        self.first = self.next
        self.commits = self.envelopes = self.bodies = 0
        self._indexed = self._rows.indexed()
        self._entries = 0
        self._start = self.seq

    def _value(self, question: str) -> int:
        value: int = self._connection.execute(question).fetchone()[0]
        return value

    def run(self) -> Problem | None:
        """The first problem; None if all is well."""
        met = self._known in {None, self.hash.hex()}
        try:
            for row in self._rows.scan(0):
                if problem := self._commit(row):
                    return problem
                met = met or self.hash.hex() == self._known
            return self._end(met)
        except sqlite3.DatabaseError as error:
            return self._problem(Flaw.UNREADABLE, f"SQLite cannot read on behind commit {self.seq}: {error}.")

    def _problem(self, flaw: Flaw, message: str) -> Problem:
        return Problem(flaw, self.seq + 1, self.next, message)

    def _commit(self, row: Row) -> Problem | None:
        seq = self.seq + 1
        if row.seq > seq:
            return self._problem(Flaw.MISSING, f"Commit {seq} is missing; the next one there is {row.seq}.")
        try:
            whole = row.seq == seq and row.link(self.hash) == row.hash and row.first >= self.next
        except (struct.error, TypeError):
            whole = False
        if not whole:
            return self._problem(Flaw.ALTERED, f"What is stored of commit {row.seq} does not give its hash.")
        problem = self._bodies(row) or self._contents(row)
        if problem is None:
            self.first = self.first if self.commits else row.first
            self.commits += 1
            self.seq, self.hash, self.next = row.seq, row.hash, row.next
        return problem

    def _bodies(self, row: Row) -> Problem | None:
        for _, _, digest in references(row.refs):
            found = self._connection.execute("SELECT body FROM bodies WHERE sha256 = ?", (digest,)).fetchone()
            if found is None:
                return self._problem(Flaw.BODY, f"The body {digest.hex()} of commit {row.seq} is missing.")
            if not isinstance(found[0], bytes) or hashlib.sha256(found[0]).digest() != digest:
                return self._problem(Flaw.BODY, f"The body {digest.hex()} of commit {row.seq} is not what was written.")
            self.bodies += 1
        return None

    def _contents(self, row: Row) -> Problem | None:
        try:
            batches = self._rows.unpack(row)
        except JournalCorrupt as error:
            return self._problem(Flaw.ALTERED, str(error))
        self.envelopes += sum(len(batch.envelopes) for batch in batches)
        if row.first >= self._indexed:
            return None
        expected = [
            describe(number, row.seq, batch.wall, envelope)
            for batch in batches
            for number, envelope in enumerate(batch.envelopes, batch.first)
            if number < self._indexed
        ]
        stored = self._connection.execute(
            f"SELECT {_ENTRY} FROM entries WHERE number >= ? AND number < ? ORDER BY number",  # noqa: S608  constant
            (row.first, row.next),
        ).fetchall()
        self._entries += len(stored)
        if stored == expected:
            return None
        number = next((e[0] for e, s in zip(expected, stored, strict=False) if e != s), row.first)
        return Problem(
            Flaw.INDEX, row.seq, number, f"The index tells otherwise than commit {row.seq}, from number {number} on."
        )

    def _end(self, met: bool) -> Problem | None:  # noqa: FBT001
        if self._indexed > self.next:
            return self._problem(
                Flaw.TRUNCATED, f"The journal ends before number {self.next}, and its index at {self._indexed}."
            )
        if self._value("SELECT count(*) FROM entries WHERE number >= "
                       "(SELECT value FROM meta WHERE key = 'anchor_next')") != self._entries:  # fmt: skip
            return self._problem(Flaw.INDEX, "The index has entries that belong to no commit.")
        try:
            checkpoint = self._rows.checkpoint()
        except JournalCorrupt:
            return self._problem(Flaw.CHECKPOINT, "The checkpoint is not the one that its commit names.")
        if checkpoint and checkpoint[0] > self.next:
            return self._problem(
                Flaw.TRUNCATED, f"The journal ends before number {self.next}, and its checkpoint at {checkpoint[0]}."
            )
        if not met:
            return self._problem(
                Flaw.TRUNCATED,
                f"No commit has the hash {self._known}: commits were taken from the end, the journal was rewritten, or "
                f"retention has removed that commit (it has all up to {self._start}).",
            )
        return None


def verify(connection: sqlite3.Connection, path: Path, known: str | None = None) -> Verdict:
    """Walk the whole chain, the bodies, the index and the checkpoint, in one snapshot.

    Args:
        connection: to the journal; not in a transaction.
        path: of it, for messages.
        known: a `Verdict.hash` that was kept elsewhere.
    """
    connection.execute("BEGIN")
    try:
        walk = _Walk(connection, path, known)
        problem = walk.run()
    finally:
        connection.execute("ROLLBACK")
    return Verdict(
        walk.identity, walk.commits, walk.envelopes, walk.bodies, walk.first, walk.next, walk.seq, walk.hash.hex(), problem
    )  # fmt: skip
