from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from ether_broker.envelope.status import Status
from ether_broker.errors import Closed, InternalError, JournalCorrupt
from ether_broker.journal.journal import Replayed
from ether_broker.journal.sqlite import group_commit as writer
from ether_broker.journal.sqlite.journal import SqliteJournal
from ether_broker.wire.frame import FRAME, Flag, mark
from tests.broker.journal.support import delegation, indexed, put, request, response, settle


def test_what_was_committed_is_there_after_reopening(path: Path):
    journal = SqliteJournal(path)
    identity = journal.identity
    put(journal, [b"one", b"two"], time=1.5, wall=1000.5)
    put(journal, [b"three"], time=2.5, wall=1001.5)
    journal.close()

    again = SqliteJournal(path)

    assert (again.identity, again.next, again.committed) == (identity, 4, 0)
    assert list(again.replay()) == [Replayed(1, 1.5, 1000.5, [b"one", b"two"]), Replayed(3, 2.5, 1001.5, [b"three"])]
    again.close()


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


def test_closing_commits_what_is_queued(path: Path):
    journal = SqliteJournal(path)
    for _ in range(500):
        journal.append(journal.next, 0.0, 0.0, [b"x" * 1000])
    journal.close()

    again = SqliteJournal(path)

    assert again.next == 501
    assert sum(len(batch.envelopes) for batch in again.replay()) == 500
    again.close()


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


def test_a_batch_is_read_by_any_of_its_numbers(journal: SqliteJournal):
    put(journal, [b"one"])
    put(journal, [b"two", b"three"], time=2.0)
    journal.append(10, 3.0, 1.0, [b"ten"])
    settle(journal, 3)

    for number in (2, 3):
        assert journal.read(number) == (2, 2.0, [b"two", b"three"], 8)
    assert journal.read(10) == (10, 3.0, [b"ten"], 3)
    assert [journal.read(number) for number in (0, 4, 9, 11)] == [None] * 4


def test_a_large_batch_is_read_in_parts_that_fit_into_frames(journal: SqliteJournal):
    envelopes = [bytes([index]) * 300_000 for index in range(10)] + [b"z" * (FRAME + 1)]
    put(journal, envelopes)

    read: list[bytes] = []
    while batch := journal.read(len(read) + 1):
        assert batch.first == len(read) + 1
        assert batch.size <= FRAME or len(batch.envelopes) == 1
        read += batch.envelopes

    assert read == envelopes


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


def test_replay_starts_at_the_checkpoint(path: Path):
    journal = SqliteJournal(path)
    put(journal, [b"one", b"two"])
    journal.append(3, 3.0, 3.0, [b"three"])
    journal.put_checkpoint(4, b"after three")
    journal.append(4, 4.0, 4.0, [b"four"])
    journal.close()

    again = SqliteJournal(path)

    assert again.checkpoint == (4, b"after three")
    assert list(again.replay()) == [Replayed(4, 4.0, 4.0, [b"four"])]
    again.close()


def test_a_checkpoint_inside_a_batch_replays_the_rest_of_it(journal: SqliteJournal):
    put(journal, [b"one", b"two", b"three"])
    journal.put_checkpoint(1, b"old")
    journal.put_checkpoint(3, b"new")
    put(journal, [])

    assert journal.checkpoint == (3, b"new")
    assert [(batch.first, batch.envelopes) for batch in journal.replay()] == [(3, [b"three"])]


def test_a_checkpoint_of_the_future_is_refused(journal: SqliteJournal):
    with pytest.raises(InternalError, match="A checkpoint is taken at 2 where 1 is due"):
        journal.put_checkpoint(2, b"")


def test_an_altered_checkpoint_is_not_believed(journal: SqliteJournal):
    journal.put_checkpoint(1, b"state")
    put(journal, [])
    journal._store.connection.execute("UPDATE checkpoints SET body = x'00'")

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


def test_after_closing_every_question_is_refused(path: Path):
    journal = SqliteJournal(path)
    journal.close()

    for question in (
        lambda: journal.read(1),
        lambda: journal.outcome(bytes(16)),
        lambda: journal.checkpoint,
        lambda: journal.put_checkpoint(1, b""),
        lambda: journal.gc(0.0),
    ):
        with pytest.raises(Closed):
            question()


def test_the_index_keeps_up_with_a_load_without_end(journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch):
    """Who searches looks through what it lacks: under load too that is a bounded number of envelopes."""
    monkeypatch.setattr(writer, "UNINDEXED", 1_000)
    monkeypatch.setattr(writer, "GROUP", 4_000)
    lacking: list[int] = []
    journal.on_commit = lambda: lacking.append(journal._writer._indexer.behind)

    tickets = [journal.append(journal.next, 0.0, 0.0, [b"1234"] * 1_000) for _ in range(60)]
    settle(journal, tickets[-1])

    assert len(lacking) >= 60
    assert max(lacking) <= 1_000 + 1_000 + 256
