"""What holds for a journal of every kind, also for the one that keeps nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ether_broker.errors import Closed, InternalError
from ether_broker.journal.journal import Journal
from ether_broker.journal.null import NullJournal
from tests.broker.journal.kinds import KINDS
from tests.support import run_python, wait_until


@pytest.fixture(params=[*KINDS, "null"])
def kind(request, tmp_path: Path) -> Iterator[Journal]:
    journal: Journal = NullJournal() if request.param == "null" else KINDS[request.param](tmp_path)()
    yield journal
    journal.close()


def test_a_new_journal_begins_at_one(kind: Journal):
    assert (kind.next, kind.committed, kind.trouble, kind.checkpoint) == (1, 0, None, None)
    assert list(kind.replay()) == []
    assert kind.read(1) is None
    assert kind.outcome(bytes(16)) is None


def test_tickets_rise_by_one_and_are_committed_in_order(kind: Journal):
    assert [kind.append(kind.next, 0.0, 0.0, [b"a", b"b"]) for _ in range(3)] == [1, 2, 3]
    wait_until(lambda: kind.committed == 3)
    assert kind.next == 7


def test_nothing_at_all_has_its_ticket_too_and_takes_no_number(kind: Journal):
    ticket = kind.append(5, 0.0, 0.0, [])

    wait_until(lambda: kind.committed == ticket)
    assert kind.next == 1


def test_a_number_is_given_once(kind: Journal):
    kind.append(1, 0.0, 0.0, [b"a"])

    with pytest.raises(InternalError, match="Envelope 1 is appended where 2 is due"):
        kind.append(1, 0.0, 0.0, [b"b"])


def test_numbers_may_be_skipped(kind: Journal):
    kind.append(10, 0.0, 0.0, [b"a"])

    assert kind.next == 11


def test_a_closed_journal_takes_nothing(kind: Journal):
    kind.close()
    kind.close()

    with pytest.raises(Closed):
        kind.append(1, 0.0, 0.0, [b"a"])


def test_a_checkpoint_may_be_put(kind: Journal):
    kind.put_checkpoint(1, b"state")


def test_the_protocol_and_the_kind_that_keeps_nothing_bring_no_sqlite():
    loaded = run_python(
        "import sys; before = set(sys.modules)\n"  # measuring coverage brings it
        "import ether_broker.journal.null, ether_broker.journal.journal; print(*(set(sys.modules) - before))"
    )

    assert "ether_broker.journal.null" in loaded.split()
    assert "sqlite3" not in loaded.split()
