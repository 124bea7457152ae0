"""The metrics by hand: small streams whose figures can be worked out on paper."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace

import pytest

from ether_actors.observers.metrics.definitions import DEFINITIONS, EXTENSION_METRICS, Target
from ether_actors.observers.metrics.metrics import Metrics
from ether_actors.observers.metrics.rates_and_means import Figures
from ether_actors.observers.metrics.snapshot import NOBODY, OTHER, MetricsStatistics
from ether_broker.clock import ManualClock
from ether_broker.envelope.ids import foreign_id
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import Status
from ether_broker.envelope.views.subgoal import AgentResponse
from ether_broker.errors import InvalidSpec
from ether_broker.wire.frame import Kind, pack_envelope
from tests.actors.observers.stream import START, Stream, request_id

TERMINAL = [status for status in Status if status.is_terminal]


@pytest.fixture
def clock() -> ManualClock:
    """Stands still unless a test moves it: what matters is the time of the messages."""
    return ManualClock()


@pytest.fixture
def metrics(clock: ManualClock) -> Metrics:
    return Metrics(clock=clock)


@pytest.fixture
def stream(metrics: Metrics) -> Stream:
    return Stream(metrics)


def overall(metrics: Metrics, window: str = "all") -> Figures:
    return metrics.snapshot().windows[window].overall


# -- the five of spec 2 ----------------------------------------------------------------------------------------


def test_delegation_success_rate_is_completed_of_all_that_ended(metrics: Metrics, stream: Stream) -> None:
    for number, status in enumerate(TERMINAL):
        stream.work(str(number), status)
    stream.work("once more")
    stream.delegation("still open")

    assert overall(metrics).delegation_success_rate == 2 / 10
    assert metrics.snapshot().open == 1


def test_the_round_trip_is_the_handlers_time_and_the_turnaround_that_from_delegation_to_outcome(
    metrics: Metrics, stream: Stream
) -> None:
    stream.work("a", takes=1.0, elapsed=0.5)
    stream.work("b", takes=4.0, elapsed=0.1)
    stream.work("c", Status.TIMEOUT, takes=60.0)
    stream.work("d", Status.FAILED_EXECUTION, takes=9.0, elapsed=9.0)

    assert overall(metrics).avg_round_trip_sec == 0.3
    assert overall(metrics).avg_turnaround_sec == 2.5
    assert overall(metrics).turnaround.count == 2


def test_gap_suggestion_frequency_counts_30_days(metrics: Metrics, stream: Stream) -> None:
    stream.event("suggestion", suggestion_id="gap-1")
    stream.passes(29 * 86_400)
    stream.event("suggestion", suggestion_id="gap-2")
    assert metrics.snapshot().gap_suggestion_frequency == 2

    stream.passes(2 * 86_400)
    stream.event("agent_up", agent="ann")

    assert metrics.snapshot().gap_suggestion_frequency == 1


def test_a_suggestion_that_is_made_again_counts_once(metrics: Metrics, stream: Stream) -> None:
    for suggestion in ("gap-1", "gap-2", "gap-1"):
        stream.event("suggestion", suggestion_id=suggestion)

    assert metrics.snapshot().gap_suggestion_frequency == 2
    assert metrics.snapshot().events["suggestion"] == 3


def test_one_task_with_two_cycles_of_clarification_gives_two(metrics: Metrics, stream: Stream) -> None:
    stream.work("a", Status.NEEDS_INPUT, questions=("Which one?",))
    stream.work("a answered", Status.NEEDS_INPUT, questions=("And where?",))
    assert overall(metrics).clarification_rework_ratio is None  # no task has ended
    stream.work("a answered again")
    assert overall(metrics).clarification_rework_ratio == 2.0
    stream.work("b")

    assert overall(metrics).clarification_rework_ratio == 1.0


def test_unresolved_carryover_counts_the_items_of_answers_alone(metrics: Metrics, stream: Stream) -> None:
    stream.work("a", unresolved=("variance of 1.3", "variance of 1.4"))
    stream.work("b", Status.PARTIAL, unresolved=("the rest",))
    stream.work("c")
    stream.work("d", Status.NEEDS_INPUT)
    stream.work("e", Status.FAILED_EXECUTION, unresolved=("everything",))
    stream.work("f", Status.REJECTED_CONTEXT)

    assert overall(metrics).unresolved_carryover == 3 / 4
    assert overall(metrics).unresolved_rate == 2 / 4
    assert overall(metrics).unresolved_items == 3


# -- the five of spec 3 ----------------------------------------------------------------------------------------


def test_success_rate_is_confidence_of_07_and_more_of_executions(metrics: Metrics, stream: Stream) -> None:
    stream.work("a", confidence=0.7)
    stream.work("b", confidence=0.69)
    stream.work("c", Status.PARTIAL, confidence=0.9)
    stream.work("d", Status.FAILED_EXECUTION, confidence=0.99)  # sure of having failed
    stream.work("e", Status.REJECTED_CONTEXT)  # nothing was begun: no execution

    assert overall(metrics).executions == 4
    assert overall(metrics).success_rate == 2 / 4


@pytest.mark.parametrize("status", TERMINAL)
def test_an_outcome_without_confidence_counts_as_the_view_of_spec_3_says(
    metrics: Metrics, stream: Stream, status: Status
) -> None:
    stream.work("a", status)
    view = AgentResponse.from_response(Response(request_id=str(1), status=status))

    assert overall(metrics).success_rate == (None if status.is_rejection else float(view.confidence >= 0.7))


def test_average_confidence_is_of_those_that_told_one(metrics: Metrics, stream: Stream) -> None:
    stream.work("a", confidence=0.5)
    stream.work("b", Status.FAILED_EXECUTION, confidence=0.25)
    stream.work("c")

    assert overall(metrics).average_confidence == 0.375


def test_timeout_rate_is_of_executions(metrics: Metrics, stream: Stream) -> None:
    stream.delegation("a")
    stream.ruling("a", Status.TIMEOUT)
    stream.work("b")
    stream.work("c", Status.REJECTED_OVERLOAD)

    assert overall(metrics).timeout_rate == 1 / 2


def test_retries_are_the_redeliveries_and_those_that_the_specialist_tells(metrics: Metrics, stream: Stream) -> None:
    stream.work("a", attempt=3)
    stream.work("b", metadata={"retries": 2})
    stream.work("c", metadata={"retries": "many"})
    stream.work("d", metadata={"retries": True})
    stream.work("e", metadata={"retries": -4})

    assert overall(metrics).retries == 4
    assert overall(metrics).retry_rate == 4 / 5


def test_average_duration_is_the_handlers_own_time(metrics: Metrics, stream: Stream) -> None:
    stream.work("a", takes=9.0, elapsed=1.0)
    stream.work("b", Status.FAILED_EXECUTION, takes=9.0, elapsed=2.0)
    stream.delegation("c")
    stream.response("c")
    for told in (
        float("inf"),
        1.7e308,
        1.7e308,
        4e7,
    ):  # it may say so; a mean has no use for what no delegation can take
        stream.work(f"d-{told}", takes=9.0, elapsed=told)

    assert overall(metrics).average_duration_sec == 1.5


# -- no data, and all data -------------------------------------------------------------------------------------


def test_without_data_every_metric_is_none_and_every_count_0(metrics: Metrics) -> None:
    snapshot = metrics.snapshot()

    assert {definition.name: snapshot.value(definition.name) for definition in DEFINITIONS} == {
        definition.name: None for definition in DEFINITIONS
    }
    assert set(snapshot.windows["60"].overall.by_status.values()) == {0}
    assert snapshot.windows["60"].overall.turnaround.p99 is None
    assert (snapshot.seen, snapshot.time, snapshot.windows["all"].covered) == (0, 0.0, 0.0)


def test_rejections_alone_tell_nothing_of_executions(metrics: Metrics, stream: Stream) -> None:
    stream.work("a", Status.REJECTED_CAPABILITY)
    figures = overall(metrics)

    assert figures.delegation_success_rate == 0.0
    assert [figures.success_rate, figures.timeout_rate, figures.retry_rate, figures.unresolved_carryover] == [None] * 4


def test_every_terminal_status_is_counted_by_its_name(metrics: Metrics, stream: Stream) -> None:
    for number, status in enumerate(TERMINAL):
        for again in range(number + 1):
            stream.work(f"{number} {again}", status)

    assert overall(metrics).by_status == {status.name: number + 1 for number, status in enumerate(TERMINAL)}


def test_signs_of_life_are_no_outcomes(metrics: Metrics, stream: Stream) -> None:
    stream.delegation("a")
    stream.response("a", Status.ACCEPTED)
    stream.response("a", Status.PROGRESS, progress=0.5)
    stream.response("a", Status.PROGRESS, progress=0.9)
    assert overall(metrics).ended == 0
    assert overall(metrics).progress_per_delegation is None

    stream.response("a")

    assert overall(metrics).ended == 1
    assert overall(metrics).progress_per_delegation == 2.0
    assert metrics.snapshot().messages == {"DELEGATION": 1, "ACCEPTED": 1, "PROGRESS": 2, "OUTCOME": 1}


def test_each_status_that_spec_2_does_not_know_has_a_metric_of_its_own(metrics: Metrics, stream: Stream) -> None:
    known = {"ACCEPTED", "COMPLETED", "REJECTED_CAPABILITY", "REJECTED_CONTEXT", "TIMEOUT", "FAILED_EXECUTION"}
    assert {status.name for status in EXTENSION_METRICS} == {status.name for status in Status} - known

    for status, name in EXTENSION_METRICS.items():
        stream.delegation(name)
        stream.response(name, status)
        if not status.is_terminal:
            stream.response(name)
    found = {name: metrics.snapshot().value(name) for name in EXTENSION_METRICS.values()}
    assert found.pop("clarification_rework_ratio") == 1 / (len(EXTENSION_METRICS) - 1)
    assert set(found.values()) == {1 / len(EXTENSION_METRICS)}


def test_every_definition_is_a_figure_with_a_docstring_of_its_own() -> None:
    names = {field.name for field in fields(Figures)} | {"gap_suggestion_frequency"}

    assert {definition.name for definition in DEFINITIONS} <= names
    assert [definition.source for definition in DEFINITIONS[:10]] == ["spec 2 §12"] * 5 + ["spec 3 Metrics"] * 5


# -- scopes ----------------------------------------------------------------------------------------------------


def test_agents_and_capabilities_have_figures_of_their_own(metrics: Metrics, stream: Stream) -> None:
    stream.work("a", by="ann", capability="x.do", takes=1.0)
    stream.work("b", by="ann", capability="x.undo", takes=3.0)
    stream.work("c", Status.FAILED_EXECUTION, by="bob", capability="x.do")
    window = metrics.snapshot().windows["all"]

    assert {name: figures.ended for name, figures in window.by_agent.items()} == {"ann": 2, "bob": 1}
    assert window.by_agent["ann"].avg_round_trip_sec == 2.0
    assert window.by_agent["bob"].delegation_success_rate == 0.0
    assert window.by_capability["x.do"].delegation_success_rate == 0.5
    assert window.by_capability["x.undo"].delegation_success_rate == 1.0


def test_rejections_are_counted_by_capability(metrics: Metrics, stream: Stream) -> None:
    for number in range(3):
        stream.delegation(f"a{number}", "clarify.intent", to=None)
        stream.ruling(f"a{number}", Status.REJECTED_CAPABILITY, "clarify.intent")
    stream.work("b", Status.REJECTED_CONTEXT)
    stream.work("c")
    window = metrics.snapshot().windows["60"]

    assert window.rejections == {"clarify.intent": 3, "x.do": 1}
    assert window.by_agent[NOBODY].rejection_rate == 1.0
    assert window.by_capability["x.do"].rejection_rate == 0.5


def test_a_ruling_counts_for_the_agent_that_work_was_reassigned_to(metrics: Metrics, stream: Stream) -> None:
    stream.delegation("moved", to="ann")
    stream.delegation("stays", to="ann")
    stream.event("reassigned", request_id=request_id("moved"), agent="bob", capability="x.do", attempt=2, returns=0)
    stream.event("reassigned", request_id=request_id("unseen"), agent="bob", capability="x.do", attempt=2, returns=0)
    stream.ruling("moved", Status.TIMEOUT)
    stream.ruling("stays", Status.TIMEOUT)

    by_agent = metrics.snapshot().windows["all"].by_agent
    assert {name: figures.timeout_rate for name, figures in by_agent.items()} == {"ann": 1.0, "bob": 1.0}
    assert metrics.snapshot().open == 0


def test_a_ruling_counts_for_the_agent_that_was_given_the_delegation(metrics: Metrics, stream: Stream) -> None:
    stream.delegation("a", to="ann")
    stream.ruling("a", Status.TIMEOUT)

    assert metrics.snapshot().windows["all"].by_agent["ann"].timeout_rate == 1.0


def test_a_redelivered_delegation_counts_for_the_agent_that_answered(metrics: Metrics, stream: Stream) -> None:
    stream.delegation("a", to="ann")
    stream.response("a", by="bob", attempt=2)

    assert list(metrics.snapshot().windows["all"].by_agent) == ["bob"]


def test_a_capability_is_the_delegations_whatever_the_answer_says(metrics: Metrics, stream: Stream) -> None:
    stream.delegation("a", "x.do")
    stream.response("a", capability="ether.agents")

    assert list(metrics.snapshot().windows["all"].by_capability) == ["x.do"]


def test_what_is_asked_of_the_bus_itself_is_not_counted(metrics: Metrics, stream: Stream) -> None:
    stream.delegation("a", "ether.statistics", to=None)
    stream.ruling("a", Status.COMPLETED, "ether.statistics")
    snapshot = metrics.snapshot()

    assert (snapshot.seen, snapshot.open, snapshot.windows["all"].overall.ended) == (2, 0, 0)


def test_names_that_are_made_up_do_not_push_out_those_of_real_agents(clock: ManualClock) -> None:
    metrics = Metrics(limit=2, clock=clock)
    stream = Stream(metrics)
    for number in range(9):
        stream.delegation(f"a{number}", f"made.up-{number}", to=None)
        stream.ruling(f"a{number}", Status.REJECTED_CAPABILITY)
    for agent in ("ann", "bob", "cid"):
        stream.work(agent, by=agent)
    window = metrics.snapshot().windows["all"]

    assert window.by_capability.keys() == {"made.up-0", "made.up-1", "x.do", OTHER}
    assert window.by_agent.keys() == {"ann", "bob", NOBODY, OTHER}
    assert window.by_agent[OTHER].ended == 8
    assert window.overall.ended == 12


# -- windows ---------------------------------------------------------------------------------------------------


def test_a_window_forgets_and_the_whole_does_not(metrics: Metrics, stream: Stream) -> None:
    stream.work("old", Status.TIMEOUT)
    stream.passes(120.0)
    stream.work("new")

    assert overall(metrics, "60").timeout_rate == 0.0
    assert overall(metrics, "300").timeout_rate == 0.5
    assert overall(metrics).timeout_rate == 0.5
    stream.passes(300.0)
    stream.event("agent_up")
    assert overall(metrics, "300").ended == 0
    assert overall(metrics, "300").delegation_success_rate is None
    assert overall(metrics).ended == 2


def test_a_window_moves_in_twelfths_of_the_shortest(metrics: Metrics, stream: Stream) -> None:
    stream.work("a")  # at a whole multiple of 5 s

    stream.passes(59.9)
    stream.event("tick")
    assert overall(metrics, "60").ended == 1
    stream.passes(0.1)
    stream.event("tick")
    assert overall(metrics, "60").ended == 0


def test_a_delegation_counts_where_its_outcome_passed(metrics: Metrics, stream: Stream) -> None:
    stream.work("a", takes=200.0)

    assert overall(metrics, "60").avg_round_trip_sec == 200.0


def test_the_windows_of_a_silent_bus_run_empty_by_the_clock(
    metrics: Metrics, stream: Stream, clock: ManualClock
) -> None:
    stream.work("a")
    clock.advance(45.0)
    assert overall(metrics, "60").ended == 1
    clock.advance(45.0)

    assert overall(metrics, "60").ended == 0
    assert metrics.snapshot().time == START + 90.0


def test_a_window_says_how_much_of_it_was_seen(metrics: Metrics, stream: Stream) -> None:
    stream.event("agent_up")
    stream.passes(90.0)
    stream.event("agent_up")
    windows = metrics.snapshot().windows

    assert {name: window.covered for name, window in windows.items()} == {"60": 60.0, "300": 90.0, "all": 90.0}


def test_another_broker_with_an_earlier_clock_empties_the_windows(metrics: Metrics, stream: Stream) -> None:
    stream.work("a")
    stream.delegation("lost with the broker")
    stream.now = 5.0
    stream.work("b", Status.TIMEOUT)
    snapshot = metrics.snapshot()

    assert snapshot.windows["60"].overall.by_status["COMPLETED"] == 0
    assert snapshot.windows["60"].overall.timeout_rate == 1.0
    assert snapshot.windows["all"].overall.ended == 2
    assert (snapshot.open, snapshot.outcomes_missed) == (0, 1)


@pytest.mark.parametrize("windows", [(0.0,), (-1.0,), (float("inf"),), (60.0, 61.0), (1.0, 1_000.0)])
def test_a_window_that_cannot_be_is_refused(windows: tuple[float, ...]) -> None:
    with pytest.raises(InvalidSpec, match=r"A window of .* cannot be: give a"):
        Metrics(windows)


def test_without_windows_the_whole_is_there(clock: ManualClock) -> None:
    assert list(Metrics((), clock=clock).snapshot().windows) == ["all"]


def test_no_pair_at_all_is_refused() -> None:
    with pytest.raises(InvalidSpec, match="at least one pair"):
        Metrics(limit=0)


# -- what was missed -------------------------------------------------------------------------------------------


def test_after_a_gap_the_metrics_say_how_much_they_missed(metrics: Metrics, stream: Stream) -> None:
    stream.work("a")
    stream.loses(7)
    stream.work("b")
    snapshot = metrics.snapshot()

    assert (snapshot.missed, snapshot.seen, metrics.missed) == (7, 4, 7)
    assert {name: window.missed for name, window in snapshot.windows.items()} == {"60": 7, "300": 7, "all": 7}


def test_a_window_after_the_gap_is_whole_again(metrics: Metrics, stream: Stream) -> None:
    stream.work("a")
    stream.loses(7)
    stream.work("b")
    stream.passes(100.0)
    stream.work("c")
    windows = metrics.snapshot().windows

    assert {name: window.missed for name, window in windows.items()} == {"60": 0, "300": 7, "all": 7}


def test_a_gap_is_told_before_the_next_message_comes(metrics: Metrics, stream: Stream) -> None:
    stream.work("a")
    metrics.on_gap(3, 5)

    assert metrics.snapshot().missed == metrics.snapshot().windows["60"].missed == 3


def test_a_delegation_whose_outcome_was_missed_is_given_up_after_its_deadline(
    metrics: Metrics, stream: Stream, clock: ManualClock
) -> None:
    stream.delegation("a", timeout=10.0)
    stream.loses(1)
    clock.advance(14.0)
    assert metrics.snapshot().open == 1
    clock.advance(2.0)

    assert metrics.snapshot().open == 0
    assert metrics.snapshot().outcomes_missed == 1
    assert overall(metrics).ended == 0


def test_an_outcome_whose_delegation_was_missed_counts_without_a_turnaround(metrics: Metrics, stream: Stream) -> None:
    stream.response("a", elapsed=0.5)
    snapshot = metrics.snapshot()

    assert snapshot.delegations_missed == 1
    assert snapshot.windows["all"].overall.delegation_success_rate == 1.0
    assert snapshot.windows["all"].overall.average_duration_sec == 0.5
    assert snapshot.windows["all"].overall.turnaround.count == 0


def test_the_table_of_open_delegations_is_bounded(stream: Stream, metrics: Metrics) -> None:
    for number in range(3_000):
        stream.delegation(str(number), timeout=0.01)
        stream.passes(0.1)

    assert len(metrics._open) < 1_100
    assert len(metrics._open) + metrics._open.dropped == 3_000


def test_an_outcome_with_an_unreadable_body_counts_by_its_status(metrics: Metrics, stream: Stream) -> None:
    stream.delegation("a")
    stream.give(pack_envelope(
        Kind.RESPONSE, status=Status.COMPLETED, request_id=foreign_id("a"), source=b"ann", capability=b"x.do",
        body=b"\xc1",
    ))  # fmt: skip
    snapshot = metrics.snapshot()

    assert snapshot.windows["all"].overall.by_status["COMPLETED"] == 1
    assert snapshot.unreadable == 1
    assert snapshot.windows["all"].overall.success_rate == 0.0
    assert metrics.failures == 0


# -- events ----------------------------------------------------------------------------------------------------


def test_events_and_dead_letters_are_counted_by_name_and_reason(metrics: Metrics, stream: Stream) -> None:
    stream.event("agent_restarting", agent="ann")
    stream.event("agent_restarting", agent="ann")
    stream.event("dead_letter", reason="late", number=1)
    snapshot = metrics.snapshot()

    assert snapshot.events == {"agent_restarting": 2, "dead_letter": 1}
    assert snapshot.dead_letters == {"late": 1}


def test_names_of_events_are_bounded(metrics: Metrics, stream: Stream) -> None:
    for number in range(200):
        stream.event(f"event-{number}")

    assert len(metrics.snapshot().events) == 51
    assert metrics.snapshot().events[OTHER] == 150


# -- targets and snapshots -------------------------------------------------------------------------------------


def test_verdicts_say_which_targets_are_met(metrics: Metrics, stream: Stream) -> None:
    for number in range(9):
        stream.work(str(number), takes=1.0)
    stream.work("x", Status.TIMEOUT)
    verdicts = metrics.snapshot().verdicts()

    assert {name: (verdict.target, verdict.met) for name, verdict in verdicts.items()} == {
        "delegation_success_rate": ("> 0.85", True),
        "avg_round_trip_sec": ("< 600", True),
        "gap_suggestion_frequency": ("context-dependent", None),
        "clarification_rework_ratio": ("downward trend", None),
        "unresolved_carryover": ("< 0.1", True),
        "timeout_rate": ("< 0.05", False),
    }


def test_a_target_without_data_is_neither_met_nor_missed(metrics: Metrics) -> None:
    assert {verdict.met for verdict in metrics.snapshot().verdicts("60").values()} == {None}


def test_a_trend_is_judged_by_the_window_against_the_whole(metrics: Metrics, stream: Stream) -> None:
    stream.work("a", Status.NEEDS_INPUT)
    stream.passes(100.0)
    stream.work("b", Status.NEEDS_INPUT)
    stream.work("c")
    assert metrics.snapshot().verdicts("60")["clarification_rework_ratio"].met is True

    stream.passes(100.0)
    for name in "def":
        stream.work(name, Status.NEEDS_INPUT)
    stream.work("g")
    assert metrics.snapshot().verdicts("60")["clarification_rework_ratio"].met is False


def test_a_trend_at_0_has_nothing_left_to_fall() -> None:
    assert Target(falling=True).is_met(0.0, 0.0) is True
    assert Target(falling=True).is_met(0.5, None) is None


def test_a_snapshot_stays_as_it_was(metrics: Metrics, stream: Stream) -> None:
    stream.work("a")
    before = metrics.snapshot()
    copy = replace(before)
    stream.work("b")

    assert before == copy
    assert before.windows["all"].overall.ended == 1
    with pytest.raises(FrozenInstanceError):
        before.missed = 3  # type: ignore[misc]
    assert isinstance(before, MetricsStatistics)
