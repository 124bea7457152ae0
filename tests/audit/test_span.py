"""A delegation with its sub-delegations and timings."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from ether.audit.entry import AuditEntry
from ether.audit.span import Moment, Span, grow
from ether.testing import TestRuntime
from ether_broker.envelope.ids import NO_ID, to_text
from ether_broker.envelope.payload import pack
from ether_broker.envelope.status import Status
from ether_broker.wire.frame import Kind, pack_envelope
from tests.audit.crew import Chief, Worker, commits_of, entries_of, play

ONE, TWO, THREE, STRANGER = (bytes([number]) * 16 for number in range(1, 5))
NOW = Moment(100.0, 1100.0)


class Written:
    """Entries made by hand, for what is rare on a bus."""

    def __init__(self) -> None:
        self.entries: list[AuditEntry] = []

    def _add(self, at: float, kind: Kind, wall: float | None = None, **fields: object) -> None:
        envelope = pack_envelope(kind, **fields)  # type: ignore[arg-type]
        self.entries.append(AuditEntry(len(self.entries) + 1, at, at + 1000.0 if wall is None else wall, envelope))

    def asked(self, at: float, request_id: bytes, parent: bytes = NO_ID, to: str = "worker", **fields: object) -> None:
        self._add(
            at, Kind.DELEGATION, request_id=request_id, parent=parent, source=b"desk", target=to.encode(),
            capability=b"dig", body=pack({"params": pack({})}), **fields,
        )  # fmt: skip

    def said(
        self, at: float, request_id: bytes, status: Status, by: str = "worker", attempt: int = 1, **body: object
    ) -> None:
        wall = body.pop("wall", None)
        self._add(
            at, Kind.RESPONSE, wall, request_id=request_id, status=status, source=by.encode(), target=b"desk",
            capability=b"dig", attempt=attempt, body=pack(body),
        )  # fmt: skip

    def happened(self, at: float, event: str, **body: object) -> None:
        self._add(at, Kind.EVENT, request_id=STRANGER, source=b"ether", body=pack({"event": event, **body}))

    def span(self, root: bytes = ONE) -> Span:
        span = grow(root, self.entries, NOW)
        assert span is not None
        return span


def names(spans: Iterable[Span]) -> list[str]:
    return [span.entry.capability for span in spans]


@pytest.fixture(scope="module")
def chief() -> Span:
    """The chief's plan: it digs for 1 and for 2 hours, with one worker, and then breaks the spade."""
    entries = entries_of(play())
    root = next(entry for entry in entries if entry.about_capability == "chief.plan")
    span = grow(root.header.request_id, entries, Moment.of(entries[-1]))
    assert span is not None
    return span


def test_sub_delegations_stand_below_what_they_were_made_for(chief: Span) -> None:
    assert names(chief.walk()) == [
        "chief.plan", "worker.dig", "checker.check", "worker.dig", "checker.check", "worker.break",
    ]  # fmt: skip
    assert names(chief.children) == ["worker.dig", "worker.dig", "worker.break"]


def test_time_in_the_handler_is_told_apart_from_waiting_for_it(chief: Span) -> None:
    first, second, broken = chief.children

    assert (chief.duration, chief.run, chief.queued) == pytest.approx((3.0, 3.0, 0.0))
    assert (first.duration, first.run, first.queued) == pytest.approx((1.0, 1.0, 0.0))
    assert (second.duration, second.run, second.queued) == pytest.approx((3.0, 2.0, 1.0))
    assert (broken.state, broken.error["code"]) == ("FAILED_EXECUTION", "exception")


def test_a_row_is_json_and_names_everything(chief: Span) -> None:
    row = json.loads(json.dumps(chief.children[1].row()))

    assert list(row) == [
        "request_id", "parent", "number", "outcome", "capability", "from_agent", "agent", "state", "status", "error",
        "summary", "begin", "end", "duration", "queued", "run", "attempt", "retries", "attempts", "signs", "dead_letters",
    ]  # fmt: skip
    assert (row["parent"], row["from_agent"], row["agent"]) == (chief.row()["request_id"], "chief", "worker")
    assert row["end"] - row["begin"] == pytest.approx(row["duration"])


def test_of_the_trunk_only_the_branch_that_is_asked_for_is_taken() -> None:
    entries = entries_of(play())
    dug = next(entry for entry in entries if entry.about_capability == "worker.dig")

    span = grow(dug.header.request_id, entries, NOW)

    assert span is not None
    assert names(span.walk()) == ["worker.dig", "checker.check"]
    assert grow(STRANGER, entries, NOW) is None


def test_an_open_delegation_lasts_until_the_journals_last_word() -> None:
    written = Written()
    written.asked(10.0, ONE)
    span = written.span()

    assert (span.state, span.status, span.outcome) == ("OPEN", None, None)
    assert (span.duration, span.queued, span.run) == (90.0, None, None)
    assert span.row()["end"] is None


def test_a_sign_of_life_says_that_it_runs_and_since_when_at_least() -> None:
    written = Written()
    written.asked(10.0, ONE)
    written.said(30.0, ONE, Status.ACCEPTED)
    written.said(50.0, ONE, Status.PROGRESS)
    span = written.span()

    assert (span.state, span.signs) == ("RUNNING", 2)
    assert (span.duration, span.queued, span.run) == (90.0, 20.0, 70.0)


def test_a_timeout_while_it_ran_counts_from_the_first_sign() -> None:
    written = Written()
    written.asked(10.0, ONE)
    written.said(12.0, ONE, Status.PROGRESS)
    written.said(40.0, ONE, Status.TIMEOUT, by="ether", error={"code": "deadline", "message": "late"})
    span = written.span()

    assert (span.agent, span.queued, span.run) == ("worker", 2.0, 28.0)


def test_of_a_timeout_without_a_sign_nobody_knows_whether_it_ran() -> None:
    written = Written()
    written.asked(10.0, ONE)
    written.said(40.0, ONE, Status.TIMEOUT, by="ether", error={"code": "deadline", "message": "late"})
    span = written.span()

    assert (span.queued, span.run) == (None, None)


@pytest.mark.parametrize(
    ("status", "code"), [(Status.REJECTED_CAPABILITY, "agent_gone"), (Status.TIMEOUT, "expired")]
)  # fmt: skip
def test_what_was_not_started_was_queued_all_the_time(status: Status, code: str) -> None:
    written = Written()
    written.asked(10.0, ONE)
    written.said(40.0, ONE, status, by="ether", error={"code": code, "message": ""})
    span = written.span()

    assert (span.queued, span.run) == (30.0, None)


def test_a_reassigned_delegation_has_an_attempt_for_each_agent() -> None:
    written = Written()
    written.asked(10.0, ONE, to="first")
    written.said(12.0, ONE, Status.ACCEPTED, by="first")
    written.happened(20.0, "reassigned", request_id=to_text(ONE), agent="second", attempt=2)
    written.said(31.0, ONE, Status.COMPLETED, by="second", attempt=2, elapsed=8.0)
    span = written.span()

    assert [(attempt.number, attempt.agent, attempt.begin.clock) for attempt in span.attempts] == [
        (1, "first", 10.0), (2, "second", 20.0),
    ]  # fmt: skip
    assert (span.lost, span.queued, span.run, span.duration) == (10.0, 3.0, 8.0, 21.0)
    assert (span.agent, span.retries) == ("second", 1)


def test_work_that_was_not_started_goes_to_another_without_a_new_attempt() -> None:
    written = Written()
    written.asked(10.0, ONE, to="first")
    written.happened(20.0, "reassigned", request_id=to_text(ONE), agent="second")

    assert (written.span().agent, written.span().retries) == ("second", 0)


def test_an_attempt_that_the_journal_did_not_announce_is_known_by_its_answer() -> None:
    written = Written()
    written.asked(10.0, ONE, to="first")
    written.said(31.0, ONE, Status.COMPLETED, by="second", attempt=2, elapsed=8.0)
    span = written.span()

    assert [(attempt.number, attempt.agent, attempt.begin.clock) for attempt in span.attempts] == [
        (1, "first", 10.0), (2, "second", 23.0),
    ]  # fmt: skip
    assert (span.lost, span.queued, span.run) == (13.0, 0.0, 8.0)


def test_the_supervisors_word_does_not_make_it_the_specialist() -> None:
    written = Written()
    written.asked(10.0, ONE, to="first")
    written.said(31.0, ONE, Status.FAILED_EXECUTION, by="ether", attempt=2, error={"code": "node_lost", "message": ""})

    assert (written.span().agent, written.span().retries) == ("first", 1)


def test_the_specialists_own_retries_count_too() -> None:
    written = Written()
    written.asked(10.0, ONE)
    written.said(31.0, ONE, Status.COMPLETED, metadata={"retries": 2})

    assert written.span().retries == 2


def test_the_first_outcome_counts() -> None:
    written = Written()
    written.asked(10.0, ONE)
    written.said(20.0, ONE, Status.TIMEOUT, by="ether")
    written.said(30.0, ONE, Status.COMPLETED)

    assert written.span().status is Status.TIMEOUT
    assert written.span().duration == 10.0


def test_dead_letters_stand_with_the_delegation_that_they_are_about() -> None:
    written = Written()
    written.asked(10.0, ONE)
    written.asked(11.0, TWO, ONE)
    written.said(20.0, TWO, Status.TIMEOUT, by="ether")
    written.happened(30.0, "dead_letter", request_id=to_text(TWO), reason="late", detail="it had\nended")
    written.happened(30.0, "dead_letter", request_id=to_text(STRANGER), reason="late")
    (child,) = written.span().children

    assert child.row()["dead_letters"] == [{"number": 4, "reason": "late", "detail": "it had ended"}]
    assert written.span().letters == []


def test_a_machine_that_was_started_anew_has_another_clock() -> None:
    written = Written()
    written.asked(10.0, ONE)
    written.said(2.0, ONE, Status.COMPLETED, wall=1070.0)

    assert written.span().duration == 60.0


def test_a_tree_may_be_deep_and_wide() -> None:
    written = Written()
    ids = [number.to_bytes(16) for number in range(1, 3001)]
    for number, request_id in enumerate(ids):
        parent = NO_ID if number == 0 else ids[number - 1] if number < 128 else ids[127]
        written.asked(10.0, request_id, parent)
    span = written.span(ids[0])

    assert len(list(span.walk())) == 3000


def test_what_the_supervisor_cancels_ends_with_its_parent() -> None:
    with TestRuntime(name="desk") as bus:
        bus.start(Chief)
        bus.start(Worker)
        handle = bus.delegate("chief.plan", timeout=0.5)
        bus.advance(2)
        assert handle.result().status is Status.TIMEOUT
        entries = entries_of(list(commits_of(bus)))
    root = next(entry for entry in entries if entry.about_capability == "chief.plan")
    span = grow(root.header.request_id, entries, Moment.of(entries[-1]))

    assert span is not None
    assert [child.state for child in span.children] == ["CANCELLED"] * 2
    assert [child.error["code"] for child in span.children] == ["parent_ended"] * 2
