from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from ether_broker.envelope.status import Status
from ether_broker.errors import JournalCorrupt, JournalUnavailable
from ether_broker.journal.sqlite import group_commit as writer
from ether_broker.journal.sqlite.commit_reader import Rows
from ether_broker.journal.sqlite.journal import SqliteJournal
from ether_broker.journal.sqlite.reader import JournalReader
from ether_broker.wire.frame import Flag, mark
from tests.broker.journal.support import delegation, indexed, put, request, response, settle
from tests.support import wait_until


def test_two_journals_have_two_identities(tmp_path: Path):
    first, second = SqliteJournal(tmp_path / "a.db"), SqliteJournal(tmp_path / "b.db")

    assert first.identity != second.identity
    first.close()
    second.close()


def test_a_clean_close_leaves_one_file_that_its_owner_alone_reads(tmp_path: Path):
    path = tmp_path / "state" / "ether" / "journal.db"
    journal = SqliteJournal(path)
    put(journal, [b"one"])
    assert sorted(file.name for file in path.parent.iterdir()) == [
        "journal.db",
        "journal.db-shm",
        "journal.db-wal",
    ]
    assert {file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {0o600}

    journal.close()

    assert list(path.parent.iterdir()) == [path]
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_each_commit_is_told_after_it_is_durable(journal: SqliteJournal):
    seen: list[int] = []
    told = threading.Event()

    def note() -> None:
        seen.append(journal.committed)
        told.set()

    journal.on_commit = note
    journal.append(1, 0.0, 0.0, [b"one"])

    assert told.wait(10)
    assert seen == [1]


def test_a_callback_that_raises_does_not_end_the_writer(journal: SqliteJournal, caplog: pytest.LogCaptureFixture):
    def fail() -> None:
        raise ValueError("the broker's bug")

    journal.on_commit = fail
    put(journal, [b"one"])
    put(journal, [b"two"])

    assert journal.trouble is None
    assert "the broker's bug" in caplog.text


def test_appending_while_a_commit_is_under_way_makes_one_commit_of_all(journal: SqliteJournal):
    first, rest = threading.Event(), threading.Event()
    commits: list[int] = []

    def note() -> None:
        commits.append(journal.committed)
        first.set()
        rest.wait(10)

    journal.on_commit = note
    journal.append(1, 0.0, 0.0, [b"one"])
    assert first.wait(10)
    for _ in range(100):
        ticket = journal.append(journal.next, 0.0, 0.0, [b"more"])
    rest.set()
    settle(journal, ticket)

    assert commits[:2] == [1, 101]


@pytest.mark.parametrize("wait", [indexed, lambda journal: None], ids=["indexed", "maybe not indexed"])
def test_the_outcome_of_a_delegation_is_found(journal: SqliteJournal, wait):
    put(journal, [delegation(1), delegation(2), response(1, Status.PROGRESS)])
    end = response(1, Status.PARTIAL, payload=b"y" * 9000)
    put(journal, [end, response(1, Status.COMPLETED)])
    wait(journal)

    assert journal.outcome(request(1)) == end
    assert journal.outcome(request(2)) is None
    assert journal.outcome(request(3)) is None


@pytest.mark.parametrize("wait", [indexed, lambda journal: None], ids=["indexed", "maybe not indexed"])
def test_the_outcome_of_what_was_accepted_is_found_behind_refusals_to_others(journal: SqliteJournal, wait):
    refusals = [mark(response(1, Status.REJECTED_CAPABILITY, payload=text), Flag.REFUSED) for text in (b"a", b"b")]
    put(journal, [delegation(1), refusals[0], delegation(1), refusals[1]])
    wait(journal)
    assert journal.outcome(request(1)) == refusals[1]

    put(journal, [delegation(1), response(1)])
    wait(journal)

    assert journal.outcome(request(1)) == response(1)


def test_an_outcome_is_found_in_what_is_not_indexed(journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ether_broker.journal.sqlite.group_commit.Writer._index", lambda writer: None)
    put(journal, [delegation(1), response(1, Status.ACCEPTED), request(1) + response(2)])
    assert journal.outcome(request(1)) is None

    put(journal, [response(1)])

    assert journal._rows.indexed() == 1
    assert journal.outcome(request(1)) == response(1)


def test_a_checkpoint_larger_than_a_value_of_sqlite_comes_back_whole(journal: SqliteJournal):
    journal._store.connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 5 << 20)  # 10^9 bytes is what it has by itself
    large = os.urandom(1 << 20) * 13 + b"end"

    journal.put_checkpoint(1, large)
    put(journal, [b"one"])

    assert journal.checkpoint == (1, large)
    with JournalReader(journal.path) as reader:
        assert reader.verify().problem is None

    journal.put_checkpoint(2, b"small")
    put(journal, [b"two"])
    assert journal.checkpoint == (2, b"small")


def test_a_checkpoint_that_cannot_be_read_says_why_also_if_sqlite_has_ended_the_transaction(
    journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
):
    def fail(rows: Rows) -> None:
        rows._connection.execute("ROLLBACK")  # as SQLite does by itself when memory or the disk fails
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(Rows, "_checkpoint", fail)

    with pytest.raises(JournalUnavailable, match="disk I/O error"):
        _ = journal.checkpoint


def test_a_checkpoint_that_cannot_be_written_waits_and_holds_up_no_commit(
    journal: SqliteJournal, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(writer, "PUT_OFF", 0.1)
    put(journal, [b"one"])
    connection = journal._store.connection
    connection.execute("CREATE TRIGGER no BEFORE INSERT ON checkpoint_parts BEGIN SELECT RAISE(ABORT, 'not now'); END")
    journal.append(2, 2.0, 2.0, [b"two"])
    journal.put_checkpoint(3, b"after two")

    put(journal, [b"three"])

    assert (journal.trouble, journal.checkpoint) == (None, None)
    assert "checkpoint has to wait" in caplog.text
    assert "not now" in caplog.text
    connection.execute("DROP TRIGGER no")
    wait_until(lambda: journal.checkpoint == (3, b"after two"), what="the checkpoint is written")
    assert [batch.envelopes for batch in journal.replay()] == [[b"three"]]
    with JournalReader(journal.path) as reader:
        assert reader.verify().problem is None


def test_the_checkpoint_of_a_brokers_start_comes_before_all_that_passes_then(path: Path):
    SqliteJournal(path).close()
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("CREATE TRIGGER no BEFORE INSERT ON checkpoint_parts BEGIN SELECT RAISE(ABORT, 'not now'); END")
    journal = SqliteJournal(path)
    journal.put_checkpoint(1, b"by this clock")
    ticket = journal.append(1, 1.0, 1.0, [b"one"])
    wait_until(lambda: journal.trouble, what="it is told")
    assert journal.committed == 0

    journal._store.connection.execute("DROP TRIGGER no")

    settle(journal, ticket)
    assert journal.checkpoint == (1, b"by this clock")
    journal.close()


def test_a_checkpoint_that_cannot_be_written_does_not_keep_a_journal_from_closing(journal: SqliteJournal):
    put(journal, [b"one"])
    connection = journal._store.connection
    connection.execute("CREATE TRIGGER no BEFORE INSERT ON checkpoint_parts BEGIN SELECT RAISE(ABORT, 'not now'); END")
    journal.put_checkpoint(2, b"after one")
    journal.append(2, 2.0, 2.0, [b"two"])

    journal.close()

    with JournalReader(journal.path) as reader:
        assert (reader.last, reader.verify().problem) == (2, None)


def test_an_altered_checkpoint_is_not_believed(journal: SqliteJournal):
    journal.put_checkpoint(1, b"state")
    put(journal, [])
    journal._store.connection.execute("UPDATE checkpoint_parts SET body = x'00'")

    with pytest.raises(JournalCorrupt):
        _ = journal.checkpoint


@pytest.mark.parametrize(
    "tamper",
    [
        "UPDATE commits SET body = replace(body, x'74', x'75') WHERE seq = 2",
        "UPDATE commits SET wall = 5 WHERE seq = 2",
        "UPDATE commits SET time = 'noon' WHERE seq = 2",
        "DELETE FROM commits WHERE seq = 2",
    ],
)
def test_an_altered_commit_is_not_replayed(journal: SqliteJournal, tamper: str):
    for envelope in (b"one", b"two", b"three"):
        put(journal, [envelope])
    journal._store.connection.execute(tamper)

    replayed = journal.replay()

    assert next(replayed).envelopes == [b"one"]
    with pytest.raises(JournalCorrupt, match="Commit 2 of the journal"):
        next(replayed)


def test_a_large_payload_is_stored_once_and_comes_back_to_the_byte(journal: SqliteJournal):
    payload = os.urandom(100_000)
    envelopes = [delegation(1, payload=payload), delegation(2, payload=payload), response(2, payload=payload)]
    for envelope in envelopes:
        put(journal, [envelope])

    assert [batch.envelopes[0] for batch in journal.replay()] == envelopes
    assert journal._store.connection.execute("SELECT count(*), sum(length(body)) FROM bodies").fetchone() == (
        1,
        100_000,
    )
    assert journal._store.connection.execute("SELECT max(length(body)) FROM commits").fetchone()[0] < 200


def test_the_index_keeps_up_with_a_load_without_end(journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch):
    """Who searches looks through what it lacks: under load too that is a bounded number of envelopes."""
    monkeypatch.setattr(writer, "UNINDEXED", 1_000)
    monkeypatch.setattr(writer, "GROUP", 4_000)
    lacking: list[int] = []
    journal.on_commit = lambda: lacking.append(journal._writer._indexer.behind)

    tickets = [journal.append(journal.next, 0.0, 0.0, [b"1234"] * 1_000) for _ in range(60)]
    settle(journal, tickets[-1])

    assert len(lacking) >= 60
    assert 2_000 < max(lacking) <= 4 * 1_000 + 1_000 + 256
    wait_until(lambda: not journal._writer._indexer.behind)


def test_a_commit_waits_for_one_slice_of_the_index_and_who_is_told_that_it_lags_hears_when_it_is_not(
    journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(writer, "UNINDEXED", 1_000)
    monkeypatch.setattr(writer, "GROUP", 2_000)
    told: list[tuple[int, bool]] = []
    journal.on_commit = lambda: told.append((journal._writer._indexer.next, journal.index_lags))

    settle(journal, [journal.append(journal.next, 0.0, 0.0, [b"1234"] * 500) for _ in range(8)][-1])
    wait_until(lambda: told[-1][1] is False and journal._writer._indexer.behind == 0)

    assert any(lags for _, lags in told)
    assert max(after - before for (before, _), (after, _) in pairwise(told[:8])) <= 256
