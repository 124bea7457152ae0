"""Looking for an outcome does not read what is not indexed yet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ether_broker.envelope.status import Status
from ether_broker.journal.sqlite.commit_reader import Rows
from ether_broker.journal.sqlite.entry_index import Unindexed
from ether_broker.journal.sqlite.group_commit import Writer
from ether_broker.journal.sqlite.journal import SqliteJournal
from ether_broker.wire.frame import Flag, mark
from tests.broker.journal.support import delegation, indexed, put, request, response
from tests.support import wait_until

pytestmark = pytest.mark.usefixtures("nothing_is_indexed")


@pytest.fixture
def nothing_is_indexed() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Writer, "_index", lambda writer: None)
        yield patch


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many envelopes each commit has that is read, by whichever way."""
    sizes: list[int] = []
    make = Rows.at, Rows.scan

    def at(rows: Rows, number: int):
        if row := make[0](rows, number):
            sizes.append(row.next - row.first)
        return row

    def scan(rows: Rows, seq: int):
        for row in make[1](rows, seq):
            sizes.append(row.next - row.first)
            yield row

    monkeypatch.setattr(Rows, "at", at)
    monkeypatch.setattr(Rows, "scan", scan)
    return sizes


def _fill(journal: SqliteJournal) -> None:
    for first in range(0, 10_000, 100):
        put(journal, [e for n in range(first, first + 100) for e in (delegation(n), response(n))])


def test_a_look_for_an_id_that_nobody_knows_reads_nothing(journal: SqliteJournal, looked_at: list[int]):
    _fill(journal)

    assert journal.outcome(request(20_000)) is None

    assert (journal.next, journal._rows.indexed(), looked_at) == (20_001, 1, [])


def test_a_look_for_a_known_id_reads_the_commit_that_has_it(journal: SqliteJournal, looked_at: list[int]):
    _fill(journal)

    assert journal.outcome(request(7_001)) == response(7_001)

    assert looked_at == [200]


def test_what_another_broker_left_unindexed_is_known_from_the_opening_on(path: Path, looked_at: list[int]):
    with closing(SqliteJournal(path)) as journal:
        _fill(journal)

    with closing(SqliteJournal(path)) as again:
        assert sum(looked_at) == 20_000
        looked_at.clear()
        assert again.outcome(request(20_000)) is None
        assert again.outcome(request(7_001)) == response(7_001)
        assert looked_at == [200]


def test_nothing_is_kept_of_what_is_indexed(journal: SqliteJournal, nothing_is_indexed: pytest.MonkeyPatch):
    refusal = mark(response(3, Status.REJECTED_CAPABILITY), Flag.REFUSED)
    put(
        journal, [delegation(1), refusal, response(1), response(1), refusal, response(2, Status.PROGRESS), b"", b"\x02"]
    )
    assert len(journal._writer.unindexed) == 2

    nothing_is_indexed.undo()
    put(journal, [response(4)])
    indexed(journal)

    wait_until(lambda: not len(journal._writer.unindexed), what="all is forgotten")
    assert [journal.outcome(request(number)) for number in (1, 2, 3, 4)] == [response(1), None, refusal, response(4)]


def test_beyond_the_limit_everything_is_read_until_it_is_indexed(
    journal: SqliteJournal, nothing_is_indexed: pytest.MonkeyPatch, looked_at: list[int]
):
    nothing_is_indexed.setattr("ether_broker.journal.sqlite.entry_index.LIMIT", 8)
    put(journal, [response(number) for number in range(9)])
    put(journal, [response(9)])
    assert [journal.outcome(request(number)) for number in (0, 8, 9, 10)] == [*map(response, (0, 8, 9)), None]
    assert len(journal._writer.unindexed) == 1

    nothing_is_indexed.undo()
    put(journal, [response(11)])
    indexed(journal)
    wait_until(lambda: not len(journal._writer.unindexed), what="all is forgotten")
    looked_at.clear()

    assert journal.outcome(request(10)) is None
    assert looked_at == []


def test_too_much_is_not_read_at_the_opening(path: Path, nothing_is_indexed: pytest.MonkeyPatch, looked_at: list[int]):
    nothing_is_indexed.setattr("ether_broker.journal.sqlite.entry_index.LIMIT", 8)
    with closing(SqliteJournal(path)) as journal:
        put(journal, [response(number) for number in range(9)])

    with closing(SqliteJournal(path)) as again:
        assert looked_at == []
        assert again.outcome(request(8)) == response(8)


def test_damage_in_what_is_not_indexed_hinders_no_opening(path: Path):
    with closing(SqliteJournal(path)) as journal:
        put(journal, [response(1)])
        put(journal, [response(2)])
        journal._store.connection.execute("UPDATE commits SET body = x'00' WHERE seq = 1")

    with closing(SqliteJournal(path)) as again:
        assert again.outcome(request(2)) == response(2)


def test_an_outcome_is_found_behind_one_that_was_removed_before_it_was_indexed(journal: SqliteJournal):
    put(journal, [response(1)], wall=1.0)
    journal.put_checkpoint(journal.next, b"")
    put(journal, [response(1, Status.PARTIAL)], wall=10.0)

    assert journal.gc(5.0).envelopes == 1

    assert journal.outcome(request(1)) == response(1, Status.PARTIAL)


def test_what_is_indexed_in_the_middle_of_a_look_is_found(
    journal: SqliteJournal, nothing_is_indexed: pytest.MonkeyPatch, monkeypatch: pytest.MonkeyPatch
):
    find = Unindexed.find

    def find_late(unindexed: Unindexed, request_id: bytes) -> list[int] | None:
        nothing_is_indexed.undo()
        put(journal, [response(2)])
        indexed(journal)
        wait_until(lambda: not len(unindexed), what="all is forgotten")
        return find(unindexed, request_id)

    put(journal, [response(1)])
    monkeypatch.setattr(Unindexed, "find", find_late)

    assert journal.outcome(request(1)) == response(1)
