from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from ether_broker.errors import JournalFull, JournalLocked, JournalUnavailable
from ether_broker.journal.journal import Removed
from ether_broker.journal.sqlite import retention
from ether_broker.journal.sqlite.journal import SqliteJournal
from ether_broker.journal.sqlite.reader import JournalReader
from ether_broker.journal.sqlite.retention import collect_closed
from tests.broker.journal.support import delegation, indexed, put, request, settle

OLD, NEW = b"o" * 50_000, b"n" * 50_000


def fill(journal: SqliteJournal) -> None:
    """Thirty commits of ten, a second apart from 1000 s on; each tenth has a large body, the last two share theirs."""
    for index in range(30):
        payload = (OLD if index < 10 else NEW) if index % 10 == 0 else b""
        put(journal, [delegation(index * 10 + n, payload=payload) for n in range(10)], wall=1000.0 + index)


def checkpoint(journal: SqliteJournal, number: int) -> None:
    journal.put_checkpoint(number, b"state")
    put(journal, [b"end"], wall=2000.0)


def test_what_is_old_and_below_the_checkpoint_goes(journal: SqliteJournal):
    fill(journal)
    checkpoint(journal, 301)
    indexed(journal)

    removed = journal.gc(1015.0)

    assert removed[:3] == (15, 150, 1)
    assert removed.bytes > 50_000
    with JournalReader(journal.path) as reader:
        verdict = reader.verify()
        assert (verdict.problem, verdict.first, verdict.envelopes) == (None, 151, 151)
        assert (reader.first, reader.record(150)) == (151, None)
        assert reader.of_requests([request(5)]) == []
        assert next(reader.entries()).number == 151
        assert next(reader.entries(after=1000.0)).number == 151
    assert journal.read(150) is None
    assert journal.read(151) is not None
    assert journal.first == 151


@pytest.mark.parametrize(("number", "left"), [(None, 1), (1, 1), (155, 151), (301, 301)])
def test_what_the_checkpoint_does_not_cover_stays(journal: SqliteJournal, number: int | None, left: int):
    fill(journal)
    if number is not None:
        checkpoint(journal, number)

    journal.gc(9999.0)

    with JournalReader(journal.path) as reader:
        assert reader.first == left
        assert reader.verify().problem is None
    assert [batch.first for batch in journal.replay()][:1] == [number or 1]


def test_a_body_stays_as_long_as_one_commit_uses_it(journal: SqliteJournal):
    fill(journal)
    checkpoint(journal, 301)

    assert journal.gc(1015.0).bodies == 1
    assert journal.gc(1025.0).bodies == 1
    with JournalReader(journal.path) as reader:
        assert reader.verify().problem is None


def test_everything_may_go_but_the_checkpoint_and_the_numbers(path: Path):
    journal = SqliteJournal(path)
    fill(journal)
    journal.put_checkpoint(301, b"state")
    put(journal, [])
    journal.close()

    assert collect_closed(path, 9999.0)[:3] == (30, 300, 2)
    assert collect_closed(path, 9999.0) == Removed()

    assert path.stat().st_size < 150_000
    journal = SqliteJournal(path)
    assert (journal.next, journal.checkpoint, list(journal.replay())) == (301, (301, b"state"), [])
    put(journal, [b"more"])
    journal.close()
    with JournalReader(path) as reader:
        assert reader.verify().problem is None
        assert [record.number for record in reader.entries()] == [301]


def test_a_kept_hash_of_the_last_removed_commit_is_still_known(journal: SqliteJournal):
    fill(journal)
    with JournalReader(journal.path) as reader:
        kept = reader.verify().hash
        checkpoint(journal, 301)
        journal.gc(1030.0)

        assert reader.first == 301
        assert reader.verify(kept).problem is None


def test_commits_go_on_during_a_collection(journal: SqliteJournal):
    fill(journal)
    checkpoint(journal, 301)
    commits: list[int] = []
    journal.on_commit = lambda: commits.append(journal.committed)
    result = journal._writer.collect(9999.0)
    for _ in range(20):
        put(journal, [b"more"], wall=3000.0)

    assert result.result(10).commits == 30
    assert len(commits) == 20
    assert journal.next == 322


def test_it_is_known_until_when_something_was_removed_however_the_wall_clock_was_set(path: Path):
    journal = SqliteJournal(path)
    assert journal.removed_until == 0.0
    for wall in (1000.0, 1700.0, 1500.0, 1600.0):
        put(journal, [b"one"], wall=wall)
    checkpoint(journal, 5)
    journal.gc(1650.0)
    assert (journal.first, journal.removed_until) == (2, 1000.0)

    journal.gc(1900.0)
    assert (journal.first, journal.removed_until) == (5, 1700.0)
    journal.close()

    journal = SqliteJournal(path)
    assert journal.removed_until == 1700.0
    journal.close()


@pytest.mark.parametrize(("left", "until"), [(1015.0, 1015.0), (9999.0, float("inf"))])
def test_a_journal_that_does_not_tell_until_when_it_was_removed_says_the_oldest_time_in_it(
    path: Path, left: float, until: float
):
    journal = SqliteJournal(path)
    fill(journal)
    journal.put_checkpoint(301, b"state")
    journal.gc(left)
    journal._store.connection.execute("DELETE FROM meta WHERE key = 'anchor_wall'")
    journal.close()

    journal = SqliteJournal(path)
    assert journal.removed_until == until
    journal.close()


def test_a_removal_that_fails_has_removed_nothing(path: Path):
    journal = SqliteJournal(path)
    fill(journal)
    checkpoint(journal, 301)
    store = journal._store
    store.connection.execute("CREATE TRIGGER full BEFORE DELETE ON commits BEGIN SELECT RAISE(ABORT, 'full'); END")

    with pytest.raises(JournalUnavailable):
        journal.gc(9999.0)
    assert (journal.first, journal.removed_until) == (1, 0.0)

    store.connection.execute("DROP TRIGGER full")
    journal.gc(9999.0)
    assert (journal.first, journal.removed_until) == (301, 1029.0)
    journal.close()


def test_nothing_to_remove_is_no_error_on_a_full_disk(path: Path, monkeypatch: pytest.MonkeyPatch):
    journal = SqliteJournal(path)
    fill(journal)
    journal.close()
    disk = SimpleNamespace(f_bavail=230, f_frsize=4096)
    monkeypatch.setattr(retention.os, "statvfs", lambda _path: disk)

    assert collect_closed(path, 0.0) == Removed()
    with pytest.raises(JournalFull, match="942,080 bytes are free"):
        collect_closed(path, 9999.0)


def test_a_closed_journal_of_a_living_broker_is_not_touched(journal: SqliteJournal):
    with pytest.raises(JournalLocked):
        collect_closed(journal.path, 9999.0)


def test_there_is_nothing_to_collect_where_no_journal_is(path: Path):
    with pytest.raises(JournalUnavailable):
        collect_closed(path, 9999.0)

    assert not path.exists()


def test_closing_ends_a_collection_between_two_steps(path: Path):
    journal = SqliteJournal(path)
    fill(journal)
    checkpoint(journal, 301)
    result = journal._writer.collect(9999.0)
    journal.close()

    assert result.cancelled() or result.result().commits == 30
    with JournalReader(path) as reader:
        assert reader.verify().problem is None
    collect_closed(path, 9999.0)
    with JournalReader(path) as reader:
        assert reader.verify().problem is None
        assert reader.first == 301


def test_a_commit_is_as_old_as_the_newest_in_it_when_the_wall_clock_is_set_back(journal: SqliteJournal):
    # Given one commit of two batches, the later one an hour older by the wall clock
    first, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        first.set()
        go_on.wait(10)

    journal.on_commit = hold
    journal.append(1, 0.0, 100.0, [b"before"])
    assert first.wait(10)
    journal.append(2, 0.0, 5000.0, [b"new"])
    ticket = journal.append(3, 0.0, 1400.0, [b"old"])
    go_on.set()
    settle(journal, ticket)
    checkpoint(journal, 4)

    # When what is older than the first of them is removed, that commit stays
    assert journal.gc(4000.0).commits == 1
    with JournalReader(journal.path) as reader:
        assert reader.first == 2
        assert [record.envelope for record in reader.entries(after=4000.0)] == [b"new"]
