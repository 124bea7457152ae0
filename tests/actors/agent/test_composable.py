"""Spec 1's contract of an agent, off the bus."""

from __future__ import annotations

import asyncio

import pytest

from ether_actors.agent.agent import Agent
from ether_actors.agent.composable import ComposableAgent, perform
from ether_actors.agent.declarations.capability import capability
from ether_actors.task.task import Task
from ether_broker.envelope.delegation import Delegation, OutputContract
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import AgentStatus, Status
from ether_broker.envelope.views.agent_io import AgentInput, AgentOutput
from ether_broker.errors import BudgetExceeded, UsageError


class Scout(Agent):
    """Looks around."""

    exclusions = ("scout.delete",)

    @capability("scout.count")
    def count(self, text: str) -> int:
        return len(text.split())

    @capability("scout.later")
    async def later(self, text: str) -> str:
        await asyncio.sleep(0)
        return text.upper()

    @capability("scout.fail")
    def fail(self):
        raise ValueError("no luck")

    @capability("scout.lie")
    def lie(self) -> int:
        return "many"  # type: ignore[return-value]

    @capability("scout.odd")
    def odd(self):
        return {"a": object()}

    @capability("scout.half")
    def half(self, task: Task) -> Response:
        return task.respond(Status.PARTIAL, data=[1], unresolved=("the rest",))

    @capability("scout.refuse")
    def refuse(self, task: Task) -> Response:
        return task.respond(Status.REJECTED_CONTEXT, summary="Which city?")

    @capability("scout.ask")
    def ask(self, task: Task):
        return task.delegate("anything").result()

    @capability("scout.spend")
    def spend(self):
        raise BudgetExceeded("max_cost 1 is used up")

    @capability("scout.look")
    def look(self, task: Task) -> list:
        task.progress(0.5, "nobody sees it")
        return [task.agent, task.deadline, task.cancelled, task.remaining]


def output(action: str, **params: object) -> AgentOutput:
    return Scout().execute(AgentInput(task_id="t1", agent="scout", action=action, params=params))


def test_it_supports_what_its_methods_declare_by_the_full_name_or_the_last_word_of_just_one():
    scout = Scout()

    assert sorted(scout.capabilities) == sorted(Scout.handlers())
    assert scout.can_handle("scout.count")
    assert scout.can_handle("count")
    assert not scout.can_handle("unheard_of")
    assert not scout.can_handle("scout.delete")


@pytest.mark.parametrize("action", ["scout.count", "count"])
def test_an_action_runs_here_and_now(action: str):
    out = output(action, text="a b c")

    assert (out.task_id, out.agent, out.status, out.data) == ("t1", "scout", AgentStatus.SUCCESS, {"value": 3})


def test_an_async_action_runs_to_its_end():
    assert output("later", text="a").data == {"value": "A"}


def test_an_async_action_cannot_run_where_a_loop_runs():
    async def inside() -> AgentOutput:
        return output("later", text="a")

    with pytest.raises(RuntimeError, match="call execute in a thread"):
        asyncio.run(inside())


def test_an_unsupported_action_is_an_output_and_no_exception():
    out = output("unheard_of")

    assert out.status is AgentStatus.ERROR
    assert "Unsupported action: unheard_of" in str(out.data)


def test_parameters_that_do_not_fit_are_an_output():
    assert output("count", words=3).status is AgentStatus.ERROR


@pytest.mark.parametrize(
    ("capability_", "params", "status", "code"),
    [
        ("scout.nothing", {}, Status.REJECTED_CAPABILITY, "not_declared"),
        ("scout.delete", {}, Status.REJECTED_CAPABILITY, "not_declared"),
        ("scout.count", {}, Status.REJECTED_CONTEXT, "misfit"),
        ("scout.fail", {}, Status.FAILED_EXECUTION, "exception"),
        ("scout.lie", {}, Status.FAILED_EXECUTION, "wrong_result"),
        ("scout.odd", {}, Status.FAILED_EXECUTION, "unserialisable"),
        ("scout.ask", {}, Status.FAILED_EXECUTION, "usage"),
        ("scout.spend", {}, Status.PARTIAL, "budget_exceeded"),
    ],
)
def test_each_way_to_fail_has_its_status_and_code(capability_: str, params: dict, status: Status, code: str):
    response = perform(Scout(), Delegation(request_id="x", capability=capability_, params=params))

    assert (response.status, response.error.code) == (status, code)


def test_a_context_slice_that_is_not_the_sealed_one_is_refused_off_the_bus_too():
    asked = Delegation(request_id="x", capability="scout.look", context_slice="draft 2", context_sha256="sha256:00")

    response = perform(Scout(), asked)

    assert (response.status, response.unexpected_fields) == (Status.REJECTED_CONTEXT, ("context_slice",))


def test_what_a_handler_raised_is_told_with_its_traceback():
    response = perform(Scout(), Delegation(request_id="x", capability="scout.fail"))

    assert response.error.message == "ValueError: no luck"
    assert 'raise ValueError("no luck")' in response.error.traceback


def test_missing_fields_and_superfluous_ones_are_named_apart():
    response = perform(Scout(), Delegation(request_id="x", capability="scout.count", params={"words": 1}))

    assert (response.required_fields, response.unexpected_fields) == (("text",), ("words",))


def test_a_response_of_the_handlers_own_is_the_outcome():
    out = output("half")

    assert (out.status, out.data) == (AgentStatus.PARTIAL, {"value": [1]})


@pytest.mark.parametrize("action", ["half", "refuse", "count"])
def test_every_output_tells_its_task_how_long_it_took_and_when_it_was(action: str):
    out = output(action, **({"text": "a"} if action == "count" else {}))

    assert out.task_id == "t1"
    assert set(out.metadata) >= {"duration_ms", "timestamp"}


def test_a_refusal_of_the_handlers_own_says_why_in_its_data():
    out = output("refuse")

    assert (out.status, out.data) == (AgentStatus.ERROR, {"error": "Which city?"})


def test_bounds_hold_off_the_bus_too():
    contract = OutputContract(expected_sections=("Sources",))
    asked = Delegation(request_id="x", capability="scout.count", params={"text": "a"}, output_contract=contract)

    response = perform(Scout(), asked)

    assert (response.status, response.data) == (Status.PARTIAL, 1)


def test_off_the_bus_a_task_has_no_deadline_and_nobody_to_delegate_to():
    assert output("look").data == {"value": ["scout", None, False, float("inf")]}
    assert output("ask").status is AgentStatus.ERROR
    response = perform(Scout(), Delegation(request_id="x", capability="scout.ask"))
    assert response.error.message.startswith(UsageError.__name__)


def test_the_contract_itself_says_nothing():
    with pytest.raises(NotImplementedError):
        ComposableAgent.manifest()
    with pytest.raises(NotImplementedError):
        ComposableAgent.handlers()
