"""Agents with spec 1's contract alone, on a bus."""

from __future__ import annotations

import json
import re
import time
import traceback
import types
import uuid
from typing import Any

import pytest

from ether import ComposableAgent, InvalidManifest, Runtime, Status, UsageError
from ether.testing import TestRuntime
from ether.views import AgentInput, AgentOutput
from ether_broker.envelope.status import AgentStatus
from tests.broker.envelope.views.spec_examples import AGENT_INPUT, AGENT_OUTPUT
from tests.runtime.spec1_source import AGENT_IO, BASE, SCOUT


class Scout:
    """The model behind spec 1's agent."""

    model = "llama-3.3-70b-versatile"

    def __init__(self) -> None:
        self.bot = types.SimpleNamespace(total_cost=lambda: 0.0012)

    def chat(self, prompt: str) -> str:
        return f"asked: {prompt.splitlines()[0]}"


def namespace(*sources: str, **known: Any) -> dict[str, Any]:
    """What the spec's code defines, with the imports that it leaves out."""
    found = {
        "__name__": "spec1",
        "time": time,
        "uuid": uuid,
        "traceback": traceback,
        "json": json,
        "Scout": Scout,
        **known,
    }
    for source in sources:
        exec(compile(source, "spec1", "exec", dont_inherit=True), found)
    return found


def on_our_base() -> type:
    """§4.2's agent, derived from the base that Ether exports."""
    views = {"AgentInput": AgentInput, "AgentOutput": AgentOutput, "AgentStatus": AgentStatus}
    return namespace("from typing import List", SCOUT, ComposableAgent=ComposableAgent, **views)["ComposableScout"]


def on_its_own() -> type:
    """§4.2's agent on §4.1's base and §3.1's classes: not a word of Ether's."""
    return namespace(AGENT_IO, BASE, SCOUT)["ComposableScout"]


@pytest.fixture(params=[on_our_base, on_its_own])
def bus(request: pytest.FixtureRequest):
    with TestRuntime(name="desk") as bus:
        bus.start(request.param(), name="scout")
        yield bus


def execute(bus: TestRuntime, document: dict[str, Any]) -> AgentOutput:
    return AgentOutput.from_response(bus.send(AgentInput.parse(document).to_delegation()).result())


def test_the_example_of_the_specification_runs_word_for_word(bus: TestRuntime):
    output = execute(bus, json.loads(AGENT_INPUT))

    assert output.task_id == "550e8400-e29b-41d4-a716-446655440000"
    assert (output.status, output.agent) == (AgentStatus.SUCCESS, "scout")
    assert output.data["path"] == "/workspace/projects/reveal"
    assert output.data["analysis"].startswith("asked: Explore /workspace/projects/reveal to depth 2.")
    assert output.metadata["model"] == "llama-3.3-70b-versatile"
    assert output.metadata["cost"] == 0.0012
    assert {"duration_ms", "timestamp"} <= set(output.metadata)


def test_the_next_action_of_its_answer_runs_too(bus: TestRuntime):
    output = execute(bus, json.loads(AGENT_OUTPUT)["next_actions"][0])

    assert (output.task_id, output.status, output.data["file"]) == ("new-uuid", AgentStatus.SUCCESS, "src/main.py")


def test_its_capabilities_are_those_that_it_advertises(bus: TestRuntime):
    assert sorted(bus.capabilities()) == [
        "analyze_file", "explore_directory", "extract_structure", "search_content", "summarize_findings",
    ]  # fmt: skip


def test_its_budget_check_sees_the_budget(bus: TestRuntime):
    document = json.loads(AGENT_INPUT)
    document["context"]["budget"]["max_cost"] = 0.0001

    output = execute(bus, document)

    assert output.status is AgentStatus.ERROR
    assert output.data["error"] == "Insufficient budget for exploration"
    assert "ValueError" in output.data["traceback"]


@pytest.mark.parametrize(
    ("action", "status"), [("fly", Status.REJECTED_CAPABILITY), ("search_content", Status.FAILED_EXECUTION)]
)
def test_what_it_does_not_do_is_an_error(bus: TestRuntime, action: str, status: Status):
    delegation = AgentInput(task_id="t", agent="scout", action=action, params={}).to_delegation()

    response = bus.send(delegation).result()

    assert response.status is status
    assert AgentOutput.from_response(response).data["error"]


def test_it_runs_on_a_bus_with_threads():
    with Runtime(name="desk") as bus:
        bus.start(on_its_own(), name="scout")
        response = bus.send(AgentInput.parse(json.loads(AGENT_INPUT)).to_delegation()).result(10.0)

    assert response.ok


class Tells(ComposableAgent):
    """Answers what it was made with."""

    def __init__(self, told: object, *, handles: bool = True, names: tuple[str, ...] = ("tell",)) -> None:
        self.told, self.handles, self.names = told, handles, names

    @property
    def capabilities(self) -> list[str]:
        return list(self.names)

    def can_handle(self, action: str) -> bool:
        return self.handles and action in self.names

    def execute(self, input: AgentInput) -> Any:  # noqa: A002  the name is spec 1's
        return self.told


def tell(told: object, **options: Any):
    with TestRuntime() as bus:
        bus.start(Tells, told, **options)
        return bus.delegate("tell").result()


def test_an_answer_may_be_a_dict():
    told = {"task_id": "x", "status": "partial", "agent": "tells", "data": {"a": 1}, "metadata": {}}

    response = tell(told)

    assert (response.status, response.data, response.external_id) == (Status.PARTIAL, {"a": 1}, None)


def test_its_duration_and_its_time_are_those_that_the_node_measured():
    metadata = {"duration_ms": 3_500, "timestamp": "2025-10-06T15:40:00Z", "cost": 0.5}
    told = {"task_id": "x", "status": "success", "agent": "tells", "data": {}, "metadata": metadata}

    response = tell(told)

    assert (response.elapsed, dict(response.metadata)) == (0.0, {"cost": 0.5})
    assert AgentOutput.from_response(response).metadata["timestamp"] != metadata["timestamp"]


def test_next_actions_come_along():
    action = types.SimpleNamespace(
        task_id="n", agent="scout", action="analyze_file", params={"file": "a.py"}, context=None
    )
    told = types.SimpleNamespace(
        task_id="x", status=AgentStatus.SUCCESS, agent="tells", data={}, metadata={}, next_actions=[action]
    )

    (found,) = tell(told).next_actions
    assert (found.capability, found.external_id) == ("analyze_file", "n")


@pytest.mark.parametrize("told", [None, "done", {"status": "success"}, {"status": "great", "data": {}}])
def test_an_answer_that_is_no_output_is_a_wrong_result(told: object):
    response = tell(told)

    assert (response.status, response.error.code) == (Status.FAILED_EXECUTION, "wrong_result")


def test_it_may_say_that_it_cannot_handle_what_it_advertises():
    assert tell(None, handles=False).status is Status.REJECTED_CAPABILITY


@pytest.mark.parametrize("name", ["no name", "", "ü", 7, ["a"]])
def test_a_capability_with_an_impossible_name_is_told_at_the_start(name: Any):
    with (
        TestRuntime() as bus,
        pytest.raises(InvalidManifest, match=re.escape(f"Tells.capabilities: {name!r} does not fit:")),
    ):
        bus.start(Tells, None, names=(name,))


class TellsLater(Tells):
    """Has an `execute` that is awaited."""

    async def execute(self, input: AgentInput) -> Any:  # noqa: A002
        import asyncio

        await asyncio.sleep(0.001)
        if isinstance(self.told, Exception):
            raise self.told
        return {**self.told, "task_id": input.task_id}


@pytest.mark.parametrize(
    ("told", "status", "code"),
    [
        ({"status": "success", "agent": "x", "data": {"a": 1}, "metadata": {}}, Status.COMPLETED, None),
        ({"status": "great"}, Status.FAILED_EXECUTION, "wrong_result"),
        (ValueError("broken"), Status.FAILED_EXECUTION, "exception"),
    ],
)
def test_an_execute_that_is_async_is_awaited(told: Any, status: Status, code: str | None):
    with Runtime() as bus:
        bus.start(TellsLater, told)
        response = bus.delegate("tell").result(10.0)

    assert (response.status, response.error and response.error.code) == (status, code)


def test_an_agent_whose_execute_is_async_may_say_that_it_cannot_handle_it():
    with Runtime() as bus:
        bus.start(TellsLater, {}, handles=False)
        assert bus.delegate("tell").result(10.0).status is Status.REJECTED_CAPABILITY


def test_what_has_no_contract_is_no_agent():
    with TestRuntime() as bus:
        with pytest.raises(UsageError, match="is not an Agent"):
            bus.start(Scout)
        with pytest.raises(UsageError, match="execute, can_handle and capabilities"):
            bus.start(lambda model: Scout(), None)
