"""Filters of the audit trail."""

from __future__ import annotations

import pytest

from ether.audit.entry import AuditEntry
from ether.audit.filter import EntryFilter, asks_for_queries
from ether_broker.envelope.status import Status
from ether_broker.wire.frame import Kind
from tests.audit.crew import entries_of, play


@pytest.fixture(scope="module")
def played() -> list[AuditEntry]:
    def ask(bus):
        handle = bus.delegate("ether.statistics")
        bus.advance(0)
        assert handle.result().ok

    return entries_of(play(ask))


def taken(entries: list[AuditEntry], selection: EntryFilter) -> list[AuditEntry]:
    return [entry for entry in entries if selection.takes(entry)]


def test_nothing_said_takes_everything(played: list[AuditEntry]) -> None:
    assert taken(played, EntryFilter()) == played


def test_an_agent_is_one_that_speaks_is_spoken_to_or_is_told_of(played: list[AuditEntry]) -> None:
    found = taken(played, EntryFilter(agents=frozenset({"checker"})))

    assert [entry.what for entry in found] == ["agent_up", "DELEGATION", "COMPLETED", "DELEGATION", "COMPLETED"]


def test_a_capability_takes_what_is_below_it_by_whole_words(played: list[AuditEntry]) -> None:
    def topics(*names: str) -> set[str]:
        return {entry.about_capability for entry in taken(played, EntryFilter(capabilities=names))}

    assert topics("worker") == {"worker.dig", "worker.break"}
    assert topics("worker.dig", "chief") == {"worker.dig", "chief.plan"}
    assert topics("work") == set()


def test_a_status_takes_responses_alone(played: list[AuditEntry]) -> None:
    found = taken(played, EntryFilter(statuses=frozenset({Status.FAILED_EXECUTION, Status.PROGRESS})))

    assert [entry.what for entry in found] == ["PROGRESS", "PROGRESS", "FAILED_EXECUTION"]


def test_kinds_and_events(played: list[AuditEntry]) -> None:
    assert {entry.what for entry in taken(played, EntryFilter(kinds=frozenset({Kind.DELEGATION})))} == {"DELEGATION"}
    assert len(taken(played, EntryFilter(events=frozenset({"agent_up"})))) == 4


def test_a_time_takes_its_first_moment_and_not_its_last(played: list[AuditEntry]) -> None:
    moments = sorted({entry.wall for entry in played})
    found = taken(played, EntryFilter(since=moments[1], until=moments[2]))

    assert {entry.wall for entry in found} == {moments[1]}


def test_different_filters_have_to_fit_all(played: list[AuditEntry]) -> None:
    both = EntryFilter(agents=frozenset({"worker"}), kinds=frozenset({Kind.DELEGATION}), capabilities=("checker",))

    assert [entry.to_agent for entry in taken(played, both)] == ["checker", "checker"]


def test_what_the_bus_is_asked_about_itself_can_be_left_out(played: list[AuditEntry]) -> None:
    asked = [entry for entry in played if entry.about_capability == "ether.statistics"]

    assert len(asked) == 2
    assert taken(played, EntryFilter(queries=False)) == [entry for entry in played if entry not in asked]


@pytest.mark.parametrize(
    ("names", "expected"), [((), False), (("ether",), True), (("ether.agents",), True), (("etherial", "a"), False)]
)
def test_whoever_names_the_buss_own_capabilities_wants_them(names: tuple[str, ...], expected: bool) -> None:
    assert asks_for_queries(names) is expected
