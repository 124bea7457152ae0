"""Look-ups by request id, whatever part of the journal the index has; and what a collection would remove."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ether_broker.envelope.ids import NO_ID
from ether_broker.journal.journal import Removed
from ether_broker.journal.sqlite import search
from ether_broker.journal.sqlite.entry_index import index_journal
from ether_broker.journal.sqlite.journal import SqliteJournal
from ether_broker.journal.sqlite.reader import JournalReader
from ether_broker.journal.sqlite.retention import collect_closed
from ether_broker.wire.frame import Kind, pack_envelope

LOW, HIGH = bytes(16), b"\xff" * 16


def request(number: int) -> bytes:
    return number.to_bytes(16)


def asked(number: int, parent: int = 0) -> bytes:
    return pack_envelope(Kind.DELEGATION, request_id=request(number), parent=request(parent) if parent else NO_ID)


def answered(number: int) -> bytes:
    return pack_envelope(Kind.RESPONSE, request_id=request(number), status=2)


FAMILY = [asked(1), asked(2, 1), asked(3, 1), asked(4, 3), answered(4), answered(3), asked(9), answered(2), answered(1)]


def happened(number: int) -> bytes:
    return pack_envelope(Kind.EVENT, request_id=request(number))


def write(path: Path, envelopes: list[bytes], *, each: int = 2) -> None:
    journal = SqliteJournal(path)
    for place in range(0, len(envelopes), each):
        journal.append(place + 1, 10.0 * place, 1000.0 + place, envelopes[place : place + each])
    journal.close()


def write_more(path: Path) -> None:
    journal = SqliteJournal(path)
    journal.append(journal.next, 0.0, 2000.0, [asked(20)])
    journal.close()


def forget_from(path: Path, number: int) -> None:
    """Let the index be behind, as it is of a broker that was killed under load."""
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM entries WHERE number >= ?", (number,))
    connection.close()


@pytest.fixture(params=[1, 4, 6, 100], ids=lambda number: f"indexed below {number}")
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "journal.db"
    write(path, [*FAMILY, happened(5)])
    forget_from(path, request.param)
    return path


def test_ids_are_found_between_two(journal: Path) -> None:
    with JournalReader(journal) as reader:
        assert reader.requests(LOW, HIGH, 10) == [request(number) for number in (1, 2, 3, 4, 9)]
        assert reader.requests(request(2), request(4), 10) == [request(2), request(3), request(4)]
        assert reader.requests(request(5), request(8), 10) == []


def test_no_more_than_the_limit_is_given(journal: Path) -> None:
    with JournalReader(journal) as reader:
        assert len(reader.requests(LOW, HIGH, 3)) == 3


def test_all_below_a_delegation_is_found_the_nearest_first(journal: Path) -> None:
    with JournalReader(journal) as reader:
        assert reader.below(request(1)) == [request(2), request(3), request(4)]
        assert reader.below(request(3)) == [request(4)]
        assert reader.below(request(9)) == []


def test_everything_about_several_is_found_in_order(journal: Path) -> None:
    with JournalReader(journal) as reader:
        assert [record.number for record in reader.of_requests([request(4), request(1)])] == [1, 4, 5, 9]
        assert reader.of_requests([request(7)]) == []


def test_what_is_committed_later_is_found_by_the_next_look(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    write(path, FAMILY[:4])
    with JournalReader(path) as reader:
        forget_from(path, 3)
        assert reader.requests(LOW, HIGH, 10) == [request(number) for number in (1, 2, 3, 4)]
        journal = SqliteJournal(path)
        journal.append(5, 50.0, 1050.0, [asked(5, 4), answered(4)])
        journal.close()

        assert reader.requests(LOW, HIGH, 10) == [request(number) for number in (1, 2, 3, 4, 5)]
        assert reader.below(request(3)) == [request(4), request(5)]
        assert [record.number for record in reader.of_requests([request(4)])] == [4, 6]


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_list_goes_on_where_it_was_when_the_index_catches_up_under_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, newest_first: bool
) -> None:
    # Given a list of which some has been read, a page of two at a time
    monkeypatch.setattr(search, "_PAGE", 2)
    path = tmp_path / "journal.db"
    write(path, [asked(number) for number in range(1, 13)])
    forget_from(path, 5)
    with JournalReader(path) as reader:
        records = reader.entries(newest_first=newest_first)
        seen = [next(records).number for _ in range(6)]

        # When the index has caught up, and another question has been asked
        index_journal(path)
        write_more(path)
        reader.of_requests([request(1)])

        # Then it has the rest
        seen += [record.number for record in records]
    assert seen[:12] == sorted(range(1, 13), reverse=newest_first)


def test_a_parent_that_is_its_own_child_ends_the_search(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    write(path, [asked(1, 2), asked(2, 1), asked(3, 3)])
    with JournalReader(path) as reader:
        assert reader.below(request(1)) == [request(2)]
        assert reader.below(request(3)) == []


@settings(max_examples=20)  # each writes a file
@given(
    st.lists(st.integers(1, 12), unique=True, max_size=12), st.integers(1, 12), st.integers(0, 14), st.integers(0, 14)
)
def test_the_index_changes_no_answer(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[int], indexed: int, low: int, high: int
) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal.db"
    write(path, [asked(number, number // 2) for number in numbers], each=3)
    forget_from(path, indexed)
    with JournalReader(path) as reader:
        assert reader.requests(request(low), request(high), 99) == [
            request(number) for number in sorted(numbers) if low <= number <= high
        ]


@pytest.mark.parametrize("checkpoint", [0, 4, 8])
@pytest.mark.parametrize("older_than", [1000.0, 1003.0, 2000.0])
def test_what_would_be_removed_is_what_is_removed(tmp_path: Path, checkpoint: int, older_than: float) -> None:
    path = tmp_path / "journal.db"
    for place in range(0, 8, 2):
        large = pack_envelope(Kind.RESPONSE, request_id=request(place + 1), status=2, body=bytes([place]) * 20_000)
        journal = SqliteJournal(path)  # reopened, so that each is a commit of its own
        journal.append(place + 1, 10.0 * place, 1000.0 + place, [asked(place + 1), large])
        if checkpoint == place + 2:
            journal.put_checkpoint(checkpoint + 1, b"state")
        journal.close()

    with JournalReader(path) as reader:
        told = reader.removable(older_than)
    removed = collect_closed(path, older_than)

    assert told[:3] == removed[:3]
    assert bool(removed.commits) is (checkpoint > 0 and older_than > 1000.0)
    with JournalReader(path) as reader:
        assert reader.removable(older_than) == Removed()
        assert reader.verify().problem is None


def test_of_an_empty_journal_nothing_would_be_removed(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    SqliteJournal(path).close()
    with JournalReader(path) as reader:
        assert reader.removable(2000.0) == Removed()
        assert reader.requests(LOW, HIGH, 10) == []
