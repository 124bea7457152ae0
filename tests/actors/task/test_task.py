"""A task as a handler sees it, on a bus that moves when it is told to."""

from __future__ import annotations

import asyncio
import logging
import uuid

import pytest

from ether.node.responder import Responder
from ether.testing import Probe, TestRuntime
from ether_actors.agent.agent import Agent
from ether_actors.agent.declarations.capability import capability
from ether_actors.task.task import MAX_PROGRESS_DATA, Task
from ether_broker.envelope.artifact import Artifact
from ether_broker.envelope.delegation import Budget, Delegation
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import Status
from ether_broker.errors import Closed, InvalidEnvelope, UsageError


class Specialist(Agent):
    """Does as the test says: each capability calls what the test put under its name."""

    max_concurrency = 8

    def __init__(self, **calls) -> None:
        super().__init__()
        self.calls = calls
        self.seen: list[object] = []

    @capability("do.plain")
    def plain(self, task: Task):
        return self.calls["plain"](task)

    @capability("do.awaited")
    async def awaited(self, task: Task):
        return await self.calls["awaited"](task)

    @capability("do.echo")
    def echo(self, task: Task, **params):
        return {"params": params, "remaining": task.remaining, "budget": _plain(task.delegation.budget)}

    @capability("do.nap")
    async def nap(self, seconds: float):
        await asyncio.sleep(seconds)
        return "rested"


def _plain(budget: Budget | None) -> dict | None:
    return None if budget is None else budget.model_dump(exclude_none=True)


def run(call, *, timeout: float = 60.0, advance: float = 0.0, **options) -> Response:
    """Delegate to a plain handler that is `call`, and return the outcome."""
    with TestRuntime() as bus:
        bus.start(Specialist, plain=call)
        handle = bus.delegate("do.plain", timeout=timeout, **options)
        bus.run()
        bus.advance(advance)
        return handle.result()


# -- what it says ------------------------------------------------------------------------------------------------


def test_it_says_who_is_asked_for_what_and_how_long_there_is():
    def look(task: Task):
        return [task.agent, task.attempt, task.remaining, task.elapsed, task.cancelled, task.delegation.objective]

    response = run(look, timeout=30.0, objective="the aim")

    assert response.data == ["specialist", 1, 30.0, 0.0, False, "the aim"]


@pytest.mark.parametrize("objective", [0, [], 7])
def test_the_objective_of_a_sub_delegation_is_text(objective: object):
    def work(task: Task):
        with pytest.raises(InvalidEnvelope, match="objective"):
            task.delegate("do.plain", objective=objective)

    assert run(work).ok


def test_its_log_carries_the_request_id_and_the_agents_name(caplog):
    def write(task: Task):
        task.log.warning("careful with %s", "that")
        return task.request_id

    with caplog.at_level(logging.WARNING, "ether.agent"):
        response = run(write)

    (record,) = [record for record in caplog.records if record.name == "ether.agent.specialist"]
    assert record.getMessage() == f"[{response.data[:8]}] careful with that"


# -- progress ----------------------------------------------------------------------------------------------------


def test_progress_reaches_the_delegator_in_order():
    def work(task: Task):
        for part in (0.0, 0.5, 1.0):
            task.progress(part, f"at {part}", data={"part": part})
        return "done"

    with TestRuntime() as bus:
        bus.start(Specialist, plain=work)
        updates = list(bus.delegate("do.plain").stream())

    assert [update.status for update in updates] == [Status.PROGRESS] * 3 + [Status.COMPLETED]
    assert [update.progress for update in updates[:3]] == [0.0, 0.5, 1.0]
    assert updates[1].data == {"part": 0.5}
    assert updates[1].summary == "at 0.5"


def test_a_flood_of_progress_without_data_is_thinned_and_its_end_is_told():
    def work(task: Task):
        for step in range(10_001):
            task.progress(step / 10_000)

    with TestRuntime() as bus:
        bus.start(Specialist, plain=work)
        *updates, outcome = bus.delegate("do.plain").stream()

    assert outcome.status is Status.COMPLETED
    assert [update.progress for update in updates] == [0.0, 1.0]


def progress_seen(work) -> list[float | None]:
    """What is seen of the progress of an `async def` in half a second."""
    with TestRuntime() as bus:
        bus.start(Specialist, awaited=work)
        probe = bus.observe(Probe())
        bus.delegate("do.awaited")
        bus.advance(0.5)
        bus.settle(probe)
        return [seen.response.progress for seen in probe.responses if seen.response.status is Status.PROGRESS]


def test_of_progress_without_data_that_comes_too_fast_the_newest_is_told_though_nothing_comes_after_it():
    async def work(task: Task):
        for step in range(1, 10):
            task.progress(step / 10)
        await asyncio.sleep(0.9)

    assert progress_seen(work) == [0.1, 0.9]


def test_progress_that_waits_is_not_told_after_what_is_newer():
    async def work(task: Task):
        for part, data in ((0.1, None), (0.2, None), (0.3, "newer")):
            task.progress(part, data=data)
        await asyncio.sleep(0.9)

    assert progress_seen(work) == [0.1, 0.3]


def test_progress_that_waits_is_not_sent_after_the_outcome(monkeypatch: pytest.MonkeyPatch):
    sent: list[float | None] = []
    send = Responder.progress
    monkeypatch.setattr(
        Responder, "progress", lambda self, task, response: (sent.append(response.progress), send(self, task, response))
    )

    async def work(task: Task):
        for part in (0.1, 0.2):
            task.progress(part)

    assert progress_seen(work) == [0.1]
    assert sent == [0.1]


def test_a_flood_of_progress_with_data_is_an_error_of_the_handler():
    def work(task: Task):
        for _ in range(MAX_PROGRESS_DATA + 1):
            task.progress(0.5, data=1)

    response = run(work)

    assert (response.status, response.error.code) == (Status.FAILED_EXECUTION, "usage")
    assert "More than 10,000" in response.error.message


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan"), "half", None])
def test_a_part_that_is_none_is_an_error_of_the_handler(fraction: float):
    response = run(lambda task: task.progress(fraction))

    assert (response.status, response.error.code) == (Status.FAILED_EXECUTION, "usage")
    assert response.error.message == f"UsageError: progress({fraction!r}): the part done is a number from 0 to 1."


# -- sub-delegations ---------------------------------------------------------------------------------------------


def test_a_sub_delegation_is_a_child_of_the_task_and_its_data_comes_back():
    with TestRuntime() as bus:
        probe = bus.observe(Probe())
        bus.start(Specialist, plain=lambda task: task.delegate("do.echo", {"a": 1}).result().data["params"])
        handle = bus.delegate("do.plain", workflow="w", permissions={"write": False}, traceparent="00-1-2-03")
        assert handle.result().data == {"a": 1}

        (child,) = [seen.delegation for seen in probe.delegations if seen.capability == "do.echo"]

    assert (child.parent, child.from_agent, child.workflow) == (handle.id, "specialist", "w")
    assert (child.permissions, child.traceparent) == ({"write": False}, "00-1-2-03")


def test_a_sub_delegation_has_no_other_parent():
    response = run(lambda task: task.delegate("do.echo", parent=str(uuid.uuid4())))

    assert response.error is not None
    assert "leave it out" in response.error.message


@pytest.mark.parametrize(("wanted", "given"), [(None, 60.0), (10.0, 10.0), (999.0, 60.0)])
def test_a_childs_deadline_is_never_later_than_the_tasks(wanted: float | None, given: float):
    response = run(lambda task: task.delegate("do.echo", timeout=wanted).result().data["remaining"])

    assert response.data == given


def test_a_childs_budget_is_never_more_than_is_left():
    def work(task: Task):
        task.budget.spend(tokens=40)
        first = task.delegate("do.echo", budget=Budget(max_tokens=50, max_cost=0.75))
        second = task.delegate("do.echo", budget=Budget(max_tokens=50))
        return [first.result().data["budget"], second.result().data["budget"]]

    response = run(work, budget=Budget(max_tokens=100, max_cost=1.0))

    assert response.data == [{"max_tokens": 50, "max_cost": 0.75}, {"max_tokens": 10, "max_cost": 0.25}]


def test_what_a_child_did_not_use_comes_back():
    def work(task: Task):
        task.delegate("do.echo").result()
        return _plain(task.budget.remaining)

    assert run(work, budget=Budget(max_tokens=100)).data == {"max_tokens": 100}


def test_a_child_that_could_not_be_sent_takes_nothing_of_the_budget():
    def work(task: Task):
        for wrong in ({"capability": "no name!"}, {"capability": "do.echo", "unheard_of": 1}):
            with pytest.raises(InvalidEnvelope):
                task.delegate(**wrong)
        return _plain(task.budget.remaining)

    assert run(work, budget=Budget(max_tokens=100)).data == {"max_tokens": 100}


def test_children_that_nobody_waited_for_end_with_the_task():
    children = []

    def work(task: Task):
        children.append(task.delegate("do.nap", {"seconds": 30.0}))
        return "done"

    with TestRuntime() as bus:
        bus.start(Specialist, plain=work)
        assert bus.delegate("do.plain").result().data == "done"
        bus.run()
        outcome = children[0].result()

    assert (outcome.status, outcome.error.code) == (Status.CANCELLED, "parent_ended")


def test_an_async_handler_awaits_several_children_at_once():
    async def work(task: Task):
        handles = [task.delegate("do.nap", {"seconds": seconds}) for seconds in (3.0, 1.0, 2.0)]
        return [response.data for response in await asyncio.gather(*handles)]

    with TestRuntime() as bus:
        bus.start(Specialist, awaited=work)
        handle = bus.delegate("do.awaited")
        bus.advance(2.9)
        assert not handle.done
        bus.advance(0.2)

        assert handle.result().data == ["rested"] * 3


# -- the end -----------------------------------------------------------------------------------------------------


def test_cancelling_reaches_a_plain_handler_that_looks():
    seen = []

    def work(task: Task):
        child = task.delegate("do.nap", {"seconds": 30.0}).result()
        seen.append((task.cancelled, child.status))
        return "too late"

    with TestRuntime() as bus:
        bus.start(Specialist, plain=work)
        handle = bus.delegate("do.plain")
        bus.run()
        handle.cancel()

        assert handle.result().status is Status.CANCELLED
        bus.run()
        assert seen == [(True, Status.CANCELLED)]
        assert bus.statistics()["dead_letters"] == {"late": 1}
        (agent,) = bus.agents()
        assert agent["in_flight"] == 0


def test_cancelling_ends_an_async_handler_at_its_next_await():
    steps = []

    async def work(task: Task):
        try:
            await asyncio.sleep(30.0)
        finally:
            steps.append(task.cancelled)

    with TestRuntime() as bus:
        bus.start(Specialist, awaited=work)
        handle = bus.delegate("do.awaited")
        bus.run()
        handle.cancel()

        assert handle.result().status is Status.CANCELLED
        bus.run()
        assert steps == [True]
        assert bus.agents()[0]["in_flight"] == 0


def test_a_deadline_reaches_the_handler_as_a_cancellation():
    steps = []

    async def work(task: Task):
        try:
            await asyncio.sleep(30.0)
        finally:
            steps.append((task.cancelled, task.remaining))

    with TestRuntime() as bus:
        bus.start(Specialist, awaited=work)
        handle = bus.delegate("do.awaited", timeout=5.0)
        bus.advance(5.25)

        assert handle.result().status is Status.TIMEOUT
        assert steps == [(True, 0.0)]


def test_after_its_handler_has_returned_a_task_takes_nothing_more():
    kept = []

    response = run(kept.append)

    assert response.ok
    with pytest.raises(Closed, match="delegate came too late"):
        kept[0].delegate("do.echo")
    with pytest.raises(Closed, match="progress came too late"):
        kept[0].progress(0.5)


def test_a_handler_answers_more_than_data():
    def work(task: Task):
        return task.respond(Status.NEEDS_INPUT, questions=("which?",), confidence=0.5, summary="unclear")

    response = run(work)

    assert (response.status, response.questions, response.confidence) == (Status.NEEDS_INPUT, ("which?",), 0.5)
    assert (response.from_agent, response.summary) == ("specialist", "unclear")


@pytest.mark.parametrize("status", [Status.ACCEPTED, Status.PROGRESS, Status.TIMEOUT, Status.CANCELLED])
def test_a_handler_cannot_answer_what_only_the_bus_does(status: Status):
    asked = run(lambda task: task.respond(status))
    made = run(lambda task: Response(request_id=task.request_id, status=status))

    assert (asked.status, asked.error.code) == (Status.FAILED_EXECUTION, "usage")
    assert (made.status, made.error.code) == (Status.FAILED_EXECUTION, "wrong_result")


def test_data_in_the_place_of_the_status_is_told_with_the_way_to_say_it():
    response = run(lambda task: task.respond("done"))

    assert response.error is not None
    assert "respond('done'): the first is a Status" in response.error.message
    assert "data='done'" in response.error.message


def test_one_artifact_without_a_list_is_told_with_the_list():
    response = run(lambda task: task.respond(artifacts=Artifact(path="a.md")))

    assert response.error is not None
    assert (response.status, response.error.code) == (Status.FAILED_EXECUTION, "usage")
    assert response.error.message == (
        "UsageError: respond: artifacts is one artifact: give a list, as in artifacts=[task.artifact(path)]."
    )


@pytest.mark.parametrize("field", ["retryable", "code", "message"])
def test_a_field_of_the_error_is_told_with_the_error(field: str):
    response = run(lambda task: task.respond(Status.FAILED_EXECUTION, **{field: True}))

    assert (response.status, response.error.code) == (Status.FAILED_EXECUTION, "usage")
    assert f"{field} is of the error: error={{'code': 'busy'," in response.error.message


def test_an_answer_with_a_field_that_is_none_is_an_error_of_the_handler():
    response = run(lambda task: task.respond(sumary="typo"))

    assert (response.status, response.error.code) == (Status.FAILED_EXECUTION, "invalid_envelope")
    assert "summary" in response.error.message


def test_off_the_bus_there_is_nobody_to_delegate_to():
    task = Task(Delegation(request_id="x", capability="do.echo"), "a", None, None)

    with pytest.raises(UsageError, match="start the agent in a Runtime"):
        task.delegate("x")
    task.progress(0.5)
    assert (task.remaining, task.cancelled) == (float("inf"), False)


def test_an_artifact_is_sealed_when_the_handler_answers(tmp_path):
    file = tmp_path / "report.md"
    file.write_bytes(b"abc")

    def work(task: Task) -> Response:
        return task.respond(artifacts=[{"path": str(file)}, {"path": "https://example.org/a.md"}])

    sealed, elsewhere = run(work).unwrap().artifacts

    assert sealed.read() == b"abc"
    assert (sealed.size, elsewhere.sha256) == (3, None)
