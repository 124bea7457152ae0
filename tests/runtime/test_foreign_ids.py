"""Ids of other vocabularies come back as they were, whoever answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ether import Agent, AgentCrash, Runtime, Status, Task, capability
from ether.observers import Probe
from ether.testing import TestRuntime
from ether.views import AgentInput, AgentOutput, AgentResponse, RequestEnvelope, ResponseEnvelope, SubgoalRequest
from ether_broker.wire.frame import Kind
from tests.broker.envelope.views.spec_examples import REQUEST_ENVELOPE

UUID = "550e8400-e29b-41d4-a716-446655440000"


class Worker(Agent):
    """Ends in every way."""

    @capability("a.do")
    def do(self, params: dict, task: Task):
        how = (params or {}).get("how")
        task.progress(0.5, data={"half": True})
        match how:
            case "respond":
                return task.respond(data={"x": 1})
            case "refuse":
                return task.respond(Status.REJECTED_CONTEXT, summary="no")
            case "raise":
                raise ValueError("as asked")
            case "crash":
                raise AgentCrash("as asked")
            case _:
                return {"x": 1}

    @capability("a.sleep")
    async def sleep(self, seconds: float) -> None:
        import asyncio

        await asyncio.sleep(seconds)


class Researcher(Agent):
    @capability("research.context.deepen")
    def deepen(self) -> dict[str, int]:
        return {"sources": 7}


@pytest.fixture
def bus():
    with TestRuntime(name="desk") as bus:
        bus.start(Worker, name="a")
        bus.start(Researcher, name="research-agent")
        yield bus


@pytest.mark.parametrize("how", ["return", "respond", "refuse", "raise", "crash"])
@pytest.mark.parametrize("task_id", ["task-7", UUID, UUID.upper()])
def test_a_task_id_comes_back_however_the_work_ends(bus: TestRuntime, task_id: str, how: str):
    delegation = AgentInput(task_id=task_id, agent="a", action="do", params={"how": how}).to_delegation()

    updates = list(bus.send(delegation).stream())

    assert [AgentOutput.from_response(update).task_id for update in updates] == [task_id] * len(updates)


@pytest.mark.parametrize(
    ("action", "params", "status"),
    [
        ("nothing", {}, Status.REJECTED_CAPABILITY),
        ("sleep", {"secnods": 1}, Status.REJECTED_CONTEXT),
        ("sleep", {"seconds": 50}, Status.TIMEOUT),
    ],
)
def test_a_task_id_comes_back_from_those_who_do_not_read_it(
    bus: TestRuntime, action: str, params: dict, status: Status
):
    delegation = AgentInput(task_id="task-7", agent="a", action=action, params=params).to_delegation()

    handle = bus.send(delegation.model_copy(update={"timeout": 5.0}))
    bus.advance(6.0)
    response = handle.result()

    assert (response.status, AgentOutput.from_response(response).task_id) == (status, "task-7")


def test_the_request_id_of_spec_2s_example_comes_back(bus: TestRuntime):
    envelope = RequestEnvelope.parse(json.loads(REQUEST_ENVELOPE))

    response = bus.send(envelope.to_delegation()).result()

    assert response.ok or response.status is Status.PARTIAL
    assert ResponseEnvelope.from_response(response).request_id == "dlg-2025-10-06-001"


def test_the_subgoal_of_a_query_comes_back(bus: TestRuntime):
    asked = SubgoalRequest(subgoal={"id": "sg1"}, query_id="q", agent_id="a", capability="a.do")

    response = bus.send(asked.to_delegation()).result()

    assert AgentResponse.from_response(response).subgoal_id == "sg1"


@pytest.mark.parametrize("how", ["return", "respond", "refuse", "raise", "crash"])
def test_observers_see_the_foreign_id_in_all_that_the_specialist_says(bus: TestRuntime, how: str):
    probe = bus.observe(Probe())
    bus.send(AgentInput(task_id="task-7", agent="a", action="do", params={"how": how}).to_delegation()).result()
    bus.settle(probe)

    told = [seen.response for seen in probe.observations if seen.kind is Kind.RESPONSE and seen.capability == "a.do"]
    assert [AgentOutput.from_response(response).task_id for response in told] == ["task-7"] * 2


def test_a_task_id_comes_back_with_a_ruling_that_is_collected_in_another_life(tmp_path: Path):
    asked = {
        "task-7": AgentInput(task_id="task-7", agent="a", action="do", params={}),
        "task-8": AgentInput(task_id="task-8", agent="nobody", action="do", params={"long": "x" * 70_000}),
        "task-9": AgentInput(
            task_id="task-9", agent="a", action="sleep", params={"seconds": 60}, context={"budget": {"max_time_sec": 0.2}}
        ),
    }  # fmt: skip
    with Runtime(name="desk", journal=tmp_path / "j.db", drain=0.0) as bus:
        bus.start(Worker, name="a")
        handles = [bus.send(one.to_delegation()) for one in asked.values()]
        first = [handle.result().status for handle in handles]
    with Runtime(name="desk", journal=tmp_path / "j.db", drain=0.0) as bus:
        again = [handle.result() for handle in bus.collect([handle.request_id for handle in handles])]

    assert first == [Status.COMPLETED, Status.REJECTED_CAPABILITY, Status.TIMEOUT]
    assert {AgentOutput.from_response(one).task_id: one.status for one in again} == dict(zip(asked, first, strict=True))
