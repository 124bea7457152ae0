from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ether_broker.journal.sqlite.journal import SqliteJournal
from ether_broker.journal.sqlite.reader import JournalReader
from ether_broker.journal.sqlite.verify import Flaw, Verification
from tests.broker.journal.support import delegation, indexed, put, response


@pytest.fixture
def closed(path: Path) -> Path:
    """Five commits of two, with a checkpoint at 7, a large body in the second, and a whole index."""
    journal = SqliteJournal(path)
    for number in range(1, 6):
        if number == 4:
            journal.put_checkpoint(7, b"state")
        put(journal, [delegation(number, payload=b"b" * 5000 * (number == 2)), response(number)])
    indexed(journal)
    journal.close()
    return path


def verify(path: Path, known: str | None = None) -> Verification:
    with JournalReader(path) as reader:
        return reader.verify(known)


def tamper(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def test_a_whole_journal_gives_its_last_hash(closed: Path):
    verdict = verify(closed)

    assert verdict.problem is None
    assert (verdict.commits, verdict.envelopes, verdict.bodies) == (6, 10, 1)
    assert (verdict.first, verdict.next, verdict.seq) == (1, 11, 6)
    assert len(verdict.hash) == 64
    assert verify(closed, verdict.hash).problem is None


def test_a_kept_hash_is_found_in_a_journal_that_has_grown(closed: Path):
    kept = verify(closed).hash
    journal = SqliteJournal(closed)
    put(journal, [b"more"])
    journal.close()

    assert verify(closed).hash != kept
    assert verify(closed, kept).problem is None


@pytest.mark.parametrize(
    ("statement", "flaw", "seq"),
    [
        ("UPDATE commits SET body = CAST(replace(CAST(body AS TEXT), 'scout', 'thief') AS BLOB) WHERE seq = 3",
         Flaw.ALTERED, 3),
        ("UPDATE commits SET body = zeroblob(length(body)) WHERE seq = 1", Flaw.ALTERED, 1),
        ("UPDATE commits SET body = 'text' WHERE seq = 2", Flaw.ALTERED, 2),
        ("UPDATE commits SET first = first + 1 WHERE seq = 3", Flaw.ALTERED, 3),
        ("UPDATE commits SET next = next + 1 WHERE seq = 3", Flaw.ALTERED, 3),
        ("UPDATE commits SET time = 9.5 WHERE seq = 3", Flaw.ALTERED, 3),
        ("UPDATE commits SET wall = wall + 1 WHERE seq = 3", Flaw.ALTERED, 3),
        ("UPDATE commits SET hash = zeroblob(32) WHERE seq = 3", Flaw.ALTERED, 3),
        ("UPDATE commits SET refs = NULL WHERE seq = 2", Flaw.ALTERED, 2),
        ("UPDATE commits SET checkpoint = NULL WHERE seq = 4", Flaw.ALTERED, 4),
        ("UPDATE commits SET first = -1 WHERE seq = 5", Flaw.ALTERED, 5),
        ("DELETE FROM commits WHERE seq = 1", Flaw.MISSING, 1),
        ("DELETE FROM commits WHERE seq IN (3, 4)", Flaw.MISSING, 3),
        ("UPDATE commits SET seq = 9 WHERE seq = 6", Flaw.MISSING, 6),
        ("UPDATE commits SET seq = -seq WHERE seq = 6", Flaw.TRUNCATED, 6),
        ("UPDATE bodies SET body = zeroblob(length(body))", Flaw.BODY, 2),
        ("UPDATE bodies SET body = 5", Flaw.BODY, 2),
        ("DELETE FROM bodies", Flaw.BODY, 2),
        ("UPDATE checkpoint_parts SET body = CAST('other' AS BLOB)", Flaw.CHECKPOINT, 7),
        ("UPDATE checkpoint_parts SET body = 'text'", Flaw.CHECKPOINT, 7),
        ("DELETE FROM checkpoint_parts", Flaw.CHECKPOINT, 7),
        ("UPDATE checkpoints SET number = number + 1", Flaw.CHECKPOINT, 7),
        ("UPDATE checkpoints SET seq = 1", Flaw.CHECKPOINT, 7),
        ("UPDATE entries SET status = 6 WHERE number = 6", Flaw.INDEX, 3),
        ("DELETE FROM entries WHERE number = 6", Flaw.INDEX, 3),
        ("UPDATE entries SET number = -number WHERE number = 6", Flaw.INDEX, 3),
        ("DELETE FROM commits WHERE seq = 6", Flaw.TRUNCATED, 6),
        ("UPDATE meta SET value = '7b3d6f5e-0000-4000-8000-000000000000' WHERE key = 'identity'", Flaw.ALTERED, 1),
    ],
)  # fmt: skip
def test_the_first_flaw_is_named(closed: Path, statement: str, flaw: Flaw, seq: int):
    tamper(closed, statement)

    problem = verify(closed).problem

    assert problem is not None
    assert (problem.flaw, problem.seq) == (flaw, seq)


def test_an_entry_of_no_commit_is_named(path: Path):
    journal = SqliteJournal(path)
    put(journal, [delegation(1)])
    journal.append(10, 0.0, 0.0, [delegation(10)])
    put(journal, [])
    indexed(journal)
    journal.close()
    tamper(path, "INSERT INTO entries VALUES (5, 1, 0.0, 1, 0, x'00', NULL, '', '', '')")

    problem = verify(path).problem

    assert problem is not None
    assert problem.flaw is Flaw.INDEX


def test_a_journal_cut_off_with_its_index_shows_to_whoever_kept_a_hash(closed: Path):
    kept = verify(closed).hash
    tamper(closed, "DELETE FROM commits WHERE seq = 6", "DELETE FROM entries WHERE seq = 6")

    assert verify(closed).problem is None
    problem = verify(closed, kept).problem
    assert problem is not None
    assert problem.flaw is Flaw.TRUNCATED
    assert kept in problem.message


def test_a_checkpoint_behind_the_end_shows_the_end_is_missing(closed: Path):
    tamper(closed, "DELETE FROM commits WHERE seq > 4", "DELETE FROM entries WHERE number >= 7",
           "DELETE FROM commits WHERE seq = 4")  # fmt: skip

    problem = verify(closed).problem

    assert problem is not None
    assert problem.flaw is Flaw.CHECKPOINT


def test_a_file_that_sqlite_cannot_read_on_is_named(path: Path):
    journal = SqliteJournal(path)
    for index in range(50):
        put(journal, [os.urandom(3000) + bytes([index])])
    journal.close()
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'commits'").fetchone()
    with path.open("r+b") as file:
        file.seek((root - 1) * 8192)
        file.write(b"\xa5" * 8192)

    problem = verify(path).problem

    assert problem is not None
    assert problem.flaw is Flaw.UNREADABLE
