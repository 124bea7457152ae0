"""Driving the tasks: one outcome each, whatever happens to the others."""

from __future__ import annotations

import asyncio
import threading

import pytest

from ether.review.driver import groups_of, reduce_outcomes, run_tasks
from ether.review.outcome import Outcome
from ether.review.plan import plan, targets
from ether.review.scout.findings.truncation import size_of
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import Status
from ether_broker.errors import BrokerUnavailable, Closed
from tests.runtime.review.doubles import FakeBus, RecordingProgress, failed
from tests.support import wait_until


@pytest.fixture
def tasks(sources):
    return plan(targets([sources / "alpha", sources / "beta"]))


def test_every_task_has_an_outcome_in_the_order_of_the_tasks(tasks):
    display = RecordingProgress()
    outcomes = run_tasks(FakeBus(), tasks, display, timeout=7, window=2)
    assert [outcome.task for outcome in outcomes] == tasks
    assert all(outcome.ok and outcome.has_result for outcome in outcomes)
    assert outcomes[0].seconds == 0.25
    assert outcomes[0].cost == 0.001


def test_each_task_is_shown_from_start_to_end_by_one_thread_at_a_time(tasks):
    display = RecordingProgress()
    run_tasks(FakeBus(), tasks, display, timeout=7, window=3)
    assert display.overlaps == 0
    for task in tasks:
        mine = [what for what, label in display.events if label == task.label]
        assert mine == ["started", "progressed", "finished"]


def test_no_more_tasks_are_under_way_than_the_window_allows(tasks):
    gate = threading.Event()
    bus = FakeBus(gate=gate)
    done: list[Outcome] = []
    runner = threading.Thread(
        target=lambda: done.extend(run_tasks(bus, tasks, RecordingProgress(), timeout=7, window=2)), daemon=True
    )
    runner.start()
    wait_until(lambda: len(bus.handles) == 2)
    assert len(bus.asked) == 2
    gate.set()
    runner.join(10)
    assert len(done) == len(tasks)
    assert {timeout for _, _, timeout in bus.asked} == {7}


def test_a_task_that_fails_or_is_refused_stops_no_other(tasks):
    bus = FakeBus({
        ("alpha", "bugs"): failed("r", Status.TIMEOUT, "deadline"),
        ("beta", "bugs"): BrokerUnavailable("Nobody answers."),
        ("beta", "structure"): ValueError,
    })  # fmt: skip
    outcomes = {
        outcome.task.label: outcome for outcome in run_tasks(bus, tasks, RecordingProgress(), timeout=7, window=2)
    }
    assert (outcomes["alpha · bugs"].status, outcomes["alpha · bugs"].code) == (Status.TIMEOUT, "deadline")
    assert (outcomes["beta · bugs"].status, outcomes["beta · bugs"].code) == (
        Status.FAILED_EXECUTION,
        "broker_unavailable",
    )
    assert outcomes["beta · structure"].code == "internal"
    assert sum(outcome.ok for outcome in outcomes.values()) == 3


def test_an_interruption_calls_off_what_is_under_way(tasks):
    class Impatient(RecordingProgress):
        def progressed(self, task, request_id, fraction, message):
            raise KeyboardInterrupt

    bus = FakeBus(gate=threading.Event())
    with pytest.raises(KeyboardInterrupt):
        run_tasks(bus, tasks, Impatient(), timeout=7, window=2)
    assert bus.handles
    assert all(handle.cancelled.is_set() for handle in bus.handles)


def test_a_partial_outcome_has_a_result_and_is_not_ok(tasks):
    def partial(request_id, result):
        return Response(request_id=request_id, status=Status.PARTIAL, data=result, unresolved=("Half of it.",))

    (outcome,) = run_tasks(FakeBus({("alpha", "bugs"): partial}), tasks[:1], RecordingProgress(), timeout=7, window=1)
    assert (outcome.ok, outcome.has_result, outcome.unresolved) == (False, True, ("Half of it.",))


def test_the_reduction_is_sent_all_findings_with_their_source(tasks):
    outcomes = run_tasks(FakeBus(), tasks, RecordingProgress(), timeout=7, window=2)
    summary, problem = reduce_outcomes(FakeBus(), outcomes)
    assert problem == ""
    assert summary["total_findings"] == sum(
        sum(outcome.data["passes"][outcome.task.pass_name]["counts"].values()) for outcome in outcomes
    )
    assert reduce_outcomes(FakeBus({"summary": Closed("gone")}), outcomes) == (
        summary,
        "The summary was made without an agent: gone",
    )


def test_findings_that_do_not_fit_into_an_envelope_stay_behind_with_their_counts(tasks):
    outcomes = run_tasks(FakeBus(), tasks, RecordingProgress(), timeout=7, window=2)
    whole = groups_of(outcomes)
    small = groups_of(outcomes, limit=size_of(whole) - 1)
    assert size_of(small) < size_of(whole)
    assert [group["counts"] for group in small] == [group["counts"] for group in whole]
    assert sum(len(group["findings"]) for group in groups_of(outcomes, limit=1)) == 0


def test_a_review_can_be_driven_from_a_thread_with_an_event_loop(tasks):
    async def notebook() -> list[Outcome]:
        return run_tasks(FakeBus(), tasks, RecordingProgress(), timeout=7, window=2)

    assert [outcome.task for outcome in asyncio.run(notebook())] == tasks
