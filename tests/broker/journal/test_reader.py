from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from ether_broker.envelope.status import Status
from ether_broker.journal.sqlite.entry_index import index_journal
from ether_broker.journal.sqlite.journal import SqliteJournal
from ether_broker.journal.sqlite.reader import JournalReader
from ether_broker.wire.frame import Kind
from tests.broker.journal.support import delegation, indexed, put, request, response

STORED = [
    delegation(1),
    delegation(2, capability=b"text.copy.all", parent=request(1)),
    response(2, Status.PROGRESS, capability=b"text.copy.all"),
    response(2, Status.FAILED_EXECUTION, source=b"clerk", capability=b"text.copy.all", payload=b"z" * 6000),
    delegation(3, source=b"clerk", target=b"judge", capability=b"textual", parent=request(1)),
    response(1),
    b"no envelope",
]


@pytest.fixture(params=["indexed", "half", "not indexed"])
def reader(request, journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch) -> Iterator[JournalReader]:
    """Two to a commit, one second apart, with as much of an index as the parameter says."""
    if request.param == "not indexed":
        monkeypatch.setattr("ether_broker.journal.sqlite.group_commit.Writer._index", lambda writer: None)
    for place in range(0, len(STORED), 2):
        put(journal, STORED[place : place + 2], time=place / 2, wall=1000.0 + place / 2)
        if request.param == "half" and place == 2:
            indexed(journal)
            monkeypatch.setattr("ether_broker.journal.sqlite.group_commit.Writer._index", lambda writer: None)
    if request.param == "indexed":
        indexed(journal)
    with JournalReader(journal.path) as reader:
        yield reader


@pytest.mark.parametrize(
    ("conditions", "numbers"),
    [
        ({}, [1, 2, 3, 4, 5, 6, 7]),
        ({"since": 3}, [3, 4, 5, 6, 7]),
        ({"until": 3}, [1, 2]),
        ({"since": 2, "until": 5}, [2, 3, 4]),
        ({"agent": "clerk"}, [4, 5]),
        ({"agent": "judge"}, [5]),
        ({"agent": "nobody"}, []),
        ({"capability": "text.copy"}, [1, 6]),
        ({"capability": "text.copy."}, [2, 3, 4]),
        ({"capability": "text."}, [1, 2, 3, 4, 6]),
        ({"status": Status.PROGRESS}, [3]),
        ({"status": {Status.PROGRESS, Status.COMPLETED}}, [3, 6]),
        ({"kind": Kind.DELEGATION}, [1, 2, 5]),
        ({"kind": (Kind.DELEGATION, Kind.RESPONSE)}, [1, 2, 3, 4, 5, 6]),
        ({"after": 1001.0}, [3, 4, 5, 6, 7]),
        ({"after": 1000.5, "before": 1002.0}, [3, 4]),
        ({"after": 2000.0}, []),
        ({"before": 1000.0}, []),
        ({"limit": 2}, [1, 2]),
        ({"limit": 0}, []),
        ({"agent": "desk", "kind": Kind.RESPONSE, "capability": "text.", "after": 1002.0}, [6]),
    ],
)
def test_entries_that_meet_all_conditions_are_found(reader: JournalReader, conditions: dict, numbers: list[int]):
    assert [record.number for record in reader.entries(**conditions)] == numbers
    if "limit" not in conditions:
        assert [record.number for record in reader.entries(**conditions, newest_first=True)] == numbers[::-1]


def test_the_newest_few_come_first(reader: JournalReader):
    assert [record.number for record in reader.entries(newest_first=True, limit=3)] == [7, 6, 5]


def test_a_record_has_its_bytes_and_its_times(reader: JournalReader):
    record = reader.record(4)

    assert record is not None
    assert (record.number, record.wall, record.clock, record.envelope) == (4, 1001.0, 1.0, STORED[3])
    assert record.header.source == b"clerk"
    assert list(reader.entries(since=4, until=5)) == [record]
    assert reader.record(0) is None
    assert reader.record(8) is None


def test_a_delegation_is_followed_by_its_id(reader: JournalReader):
    assert [record.number for record in reader.of_requests([request(2)])] == [2, 3, 4]
    assert [record.number for record in reader.children(request(1))] == [2, 5]
    assert reader.of_requests([request(9)]) == []


def test_the_ends_and_the_name_are_told(reader: JournalReader, journal: SqliteJournal):
    assert (reader.first, reader.last, reader.identity) == (1, 7, journal.identity)
    assert reader.created > 0


def test_what_is_committed_later_is_seen(reader: JournalReader, journal: SqliteJournal):
    put(journal, [b"later"])

    assert reader.last == 8
    assert [record.envelope for record in reader.entries(since=8)] == [b"later"]


@pytest.mark.parametrize(("first", "following"), [(1, 8), (2, 5), (4, 5), (3, 3), (6, 100), (8, 9)])
def test_the_digest_does_not_depend_on_batches(reader: JournalReader, first: int, following: int):
    wanted = STORED[first - 1 : following - 1]

    assert (
        reader.digest(first, following)
        == hashlib.blake2b(b"".join(struct.pack(">I", len(envelope)) + envelope for envelope in wanted)).hexdigest()
    )


def test_an_empty_journal_has_no_last(path: Path):
    SqliteJournal(path).close()

    with JournalReader(path) as reader:
        assert (reader.first, reader.last, list(reader.entries())) == (1, 0, [])


def test_a_reader_of_a_closed_journal_leaves_no_file(path: Path):
    SqliteJournal(path).close()

    reader = JournalReader(path)
    reader.close()
    reader.close()

    assert list(path.parent.iterdir()) == [path]


def test_a_reader_does_not_hold_up_a_broker(path: Path):
    SqliteJournal(path).close()
    with JournalReader(path) as reader:
        journal = SqliteJournal(path)
        put(journal, [b"one"])
        assert reader.last == 1
    put(journal, [b"two"])
    journal.close()

    assert list(path.parent.iterdir()) == [path]


def test_a_closed_journal_can_be_indexed(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ether_broker.journal.sqlite.group_commit.Writer._index", lambda writer: None)
    monkeypatch.setattr("ether_broker.journal.sqlite.group_commit._FAREWELL", 0.0)
    journal = SqliteJournal(path)
    journal.append(1, 0.0, 0.0, [delegation(number) for number in range(1, 1001)])
    journal.append(2001, 0.0, 0.0, [delegation(2001)])
    journal.close()

    assert index_journal(path) == 2001
    assert index_journal(path) == 0
    with JournalReader(path) as reader:
        assert reader._rows.indexed() == 2002
        assert [record.number for record in reader.entries()] == [*range(1, 1001), 2001]
        assert reader.verify().problem is None


def test_an_index_that_is_far_behind_grows_under_load_too(journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ether_broker.journal.sqlite.group_commit.UNINDEXED", 100)
    monkeypatch.setattr("ether_broker.journal.sqlite.group_commit.CALM", 600.0)
    put(journal, [delegation(number) for number in range(1, 601)])

    for _ in range(2):
        put(journal, [b"more"])

    assert journal._rows.indexed() > 500
