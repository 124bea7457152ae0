"""`ether.journal-gc`, answered when it is done."""

from __future__ import annotations

from typing import Any

import pytest

from ether_actors.supervisor.journal.journal_maintenance import Done
from ether_broker.envelope.payload import unpack
from ether_broker.envelope.status import Status
from ether_broker.errors import JournalUnavailable
from ether_broker.journal.journal import Removed
from tests.actors.peers import Bus, Peer


class Asked:
    """What was asked of the upkeep, for the test to finish when it likes."""

    def __init__(self) -> None:
        self.asked: list[tuple[float, Done]] = []

    def collect(self, older_than: float, done: Done) -> None:
        self.asked.append((older_than, done))


@pytest.fixture
def bus() -> Bus:
    return Bus()


@pytest.fixture
def maintenance(bus: Bus) -> Asked:
    asked = Asked()
    bus.state.journal.identity = "journal-1"
    bus.supervisor.journal_gc.attach(asked)  # type: ignore[arg-type]  # its double
    return asked


def ask(bus: Bus, params: Any, **fields: Any) -> Peer:
    d = bus.delegator("d")
    d.delegate("d", "ether.journal-gc", params=params, **fields)
    bus.step()
    return d


def test_the_answer_comes_when_the_old_part_is_given_up(bus, maintenance):
    d = ask(bus, {"older_than": 5})
    assert [when for when, _ in maintenance.asked] == [5.0]
    assert not d.inbox

    maintenance.asked[0][1](Removed(1, 2, 3, 4))
    bus.step()
    outcome = d.outcome()

    assert outcome.status is Status.COMPLETED
    assert unpack(outcome.body["data"]) == {"commits": 1, "envelopes": 2, "bodies": 3, "bytes": 4}


def test_what_fails_is_told_by_its_code(bus, maintenance):
    d = ask(bus, {"older_than": 5.5})
    maintenance.asked[0][1](JournalUnavailable("The disk is gone."))
    bus.step()
    outcome = d.outcome()

    assert (outcome.status, outcome.code) == (Status.FAILED_EXECUTION, "journal_unavailable")


def test_what_takes_too_long_times_out_at_the_deadline_and_its_end_changes_nothing(bus, maintenance):
    d = ask(bus, {"older_than": 5}, deadline=bus.now + 3.0)
    bus.pass_time(2.9)
    assert not [received for received in d.inbox if received.header.capability]
    bus.pass_time(0.2)
    assert d.outcome().status is Status.TIMEOUT

    d.inbox.clear()
    maintenance.asked[0][1](Removed())
    bus.step()
    assert not d.inbox


@pytest.mark.parametrize("wrong", [None, "1", True, float("nan"), float("inf")])
def test_a_time_that_is_none_is_refused(bus, maintenance, wrong):
    outcome = ask(bus, {"older_than": wrong}).outcome()

    assert (outcome.status, outcome.code) == (Status.REJECTED_CONTEXT, "invalid_envelope")
    assert not maintenance.asked


def test_another_journal_than_the_brokers_is_refused(bus, maintenance):
    outcome = ask(bus, {"older_than": 1, "journal": "another"}).outcome()

    assert (outcome.status, outcome.code) == (Status.REJECTED_CONTEXT, "journal_unavailable")
    assert not maintenance.asked


def test_a_broker_without_a_journal_says_so(bus):
    outcome = ask(bus, {"older_than": 1}).outcome()

    assert (outcome.status, outcome.code) == (Status.REJECTED_CONTEXT, "journal_unavailable")
