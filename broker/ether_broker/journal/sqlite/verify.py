"""The proof that a journal is what was written.

The chain shows any change of a commit to whoever kept a later hash. Somebody who may write the file can compute the whole
chain again: only a hash that was kept elsewhere tells, so `Verification` has the last one, and `verify` takes it the next time.
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
from ether_broker.journal.sqlite.commit_reader import Row, Rows
from ether_broker.journal.sqlite.entry_index import describe_all
from ether_broker.journal.sqlite.tables import read_meta

__all__ = ["Flaw", "Problem", "Verification", "verify"]

_ENTRY: Final = "number, seq, wall, kind, status, request_id, parent, source, target, capability"


@unique
class Flaw(StrEnum):
    """The kinds of damage to a journal."""

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
class Verification:
    """The result of verifying a journal, up to the first problem."""

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


class _Flawed(Exception):
    """The first problem was met."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


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

    def run(self) -> Problem | None:
        """The first problem; None if all is well."""
        is_met = self._known in {None, self.hash.hex()}
        try:
            for row in self._rows.scan(0):
                self._commit(row)
                is_met = is_met or self.hash.hex() == self._known
            self._end()
        except _Flawed as met:
            return met.problem
        except sqlite3.DatabaseError as error:
            return self._flaw(Flaw.UNREADABLE, f"SQLite cannot read on behind commit {self.seq}: {error}.").problem
        return None if is_met else self._flaw(
            Flaw.TRUNCATED,
            f"No commit has the hash {self._known}: commits were taken from the end, the journal was rewritten, or "
            f"retention has removed that commit (it has all up to {self._start}).",
        ).problem  # fmt: skip

    def _flaw(self, flaw: Flaw, message: str) -> _Flawed:
        return _Flawed(Problem(flaw, self.seq + 1, self.next, message))

    def _commit(self, row: Row) -> None:
        seq = self.seq + 1
        if row.seq > seq:
            raise self._flaw(Flaw.MISSING, f"Commit {seq} is missing; the next one there is {row.seq}.")
        try:
            whole = row.seq == seq and row.link(self.hash) == row.hash and row.first >= self.next
        except (struct.error, TypeError):
            whole = False
        if not whole:
            raise self._flaw(Flaw.ALTERED, f"What is stored of commit {row.seq} does not give its hash.")
        self._bodies(row)
        self._contents(row)
        self.first = self.first if self.commits else row.first
        self.commits += 1
        self.seq, self.hash, self.next = row.seq, row.hash, row.next

    def _bodies(self, row: Row) -> None:
        for digest, body in self._rows.bodies(row):
            if body is None:
                raise self._flaw(Flaw.BODY, f"The body {digest.hex()} of commit {row.seq} is missing.")
            if not isinstance(body, bytes) or hashlib.sha256(body).digest() != digest:
                raise self._flaw(Flaw.BODY, f"The body {digest.hex()} of commit {row.seq} is not what was written.")
            self.bodies += 1

    def _contents(self, row: Row) -> None:
        try:
            batches = self._rows.unpack(row)
        except JournalCorrupt as error:
            raise self._flaw(Flaw.ALTERED, str(error)) from None
        self.envelopes += sum(len(batch.envelopes) for batch in batches)
        if row.first >= self._indexed:
            return
        expected = [entry for entry in describe_all(batches, row.seq) if entry[0] < self._indexed]
        stored = self._connection.execute(
            f"SELECT {_ENTRY} FROM entries WHERE number >= ? AND number < ? ORDER BY number",  # noqa: S608  constant
            (row.first, row.next),
        ).fetchall()
        self._entries += len(stored)
        if stored != expected:
            number = next((e[0] for e, s in zip(expected, stored, strict=False) if e != s), row.first)
            message = f"The index tells otherwise than commit {row.seq}, from number {number} on."
            raise _Flawed(Problem(Flaw.INDEX, row.seq, number, message))

    def _end(self) -> None:
        """Compare what says how long the journal is."""
        checkpoint = self._checkpoint()
        for what, end in (("index", self._indexed), ("checkpoint", checkpoint)):
            if end > self.next:
                message = f"The journal ends before number {self.next}, and its {what} at {end}."
                raise self._flaw(Flaw.TRUNCATED, message)
        (entries,) = self._connection.execute(
            "SELECT count(*) FROM entries WHERE number >= (SELECT value FROM meta WHERE key = 'anchor_next')"
        ).fetchone()
        if entries != self._entries:
            raise self._flaw(Flaw.INDEX, "The index has entries that belong to no commit.")

    def _checkpoint(self) -> int:
        try:
            return (self._rows.checkpoint() or (0, b""))[0]
        except JournalCorrupt:
            message = "The checkpoint is not the one that its commit names."
            raise self._flaw(Flaw.CHECKPOINT, message) from None


def verify(connection: sqlite3.Connection, path: Path, known: str | None = None) -> Verification:
    """Walk the whole chain, the bodies, the index and the checkpoint, in one snapshot.

    Args:
        connection: to the journal; not in a transaction.
        path: of it, for messages.
        known: a `Verification.hash` that was kept elsewhere.
    """
    connection.execute("BEGIN")
    try:
        walk = _Walk(connection, path, known)
        problem = walk.run()
    finally:
        connection.execute("ROLLBACK")
    return Verification(
        walk.identity, walk.commits, walk.envelopes, walk.bodies, walk.first, walk.next, walk.seq, walk.hash.hex(), problem
    )  # fmt: skip
