"""Several handles on one request, and handles whose broker says nothing."""

from __future__ import annotations

import threading

import pytest

from ether import Agent, Runtime, Status, Task, capability
from ether.testing import TestRuntime
from ether.views import AgentInput
from ether_broker.envelope.delegation import Delegation


class Worker(Agent):
    """Works until it is told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = 0

    @capability("work.wait")
    async def wait(self, task: Task, seconds: float = 1.0) -> dict[str, int]:
        import asyncio

        self.runs += 1
        task.progress(0.5, "half")
        await asyncio.sleep(seconds)
        return {"runs": self.runs}

    @capability("work.ask")
    def ask(self, task: Task, request_id: str) -> str:
        return task.delegate("work.wait", request_id=request_id).result().explain()


@pytest.fixture
def bus():
    with TestRuntime(name="desk") as bus:
        bus.start(Worker)
        yield bus


def request(task_id: str = "task-7", timeout: float = 30.0, **params: float) -> Delegation:
    made = AgentInput(task_id=task_id, agent="worker", action="work.wait", params=params).to_delegation()
    return made.model_copy(update={"timeout": timeout})


def test_the_same_request_gives_each_of_its_handles_the_one_outcome(bus: TestRuntime):
    handles = [bus.send(request()) for _ in range(3)]
    bus.advance(1.0)

    responses = [handle.result() for handle in handles]

    assert [response.status for response in responses] == [Status.COMPLETED] * 3
    assert {response.data["runs"] for response in responses} == {1}
    assert bus.dead_letters() == []


def test_each_handle_of_a_request_follows_it_from_its_beginning(bus: TestRuntime):
    first = bus.send(request())
    bus.run()
    second = bus.send(request())
    bus.advance(1.0)

    told = list(second.stream())
    assert [response.status for response in told] == [Status.PROGRESS, Status.ACCEPTED, Status.COMPLETED]
    assert told == list(first.stream())


def test_a_handle_that_comes_when_the_outcome_is_there_has_it_too(bus: TestRuntime):
    first = bus.send(request())
    outcomes: list[str] = []
    first.add_done_callback(lambda _handle: outcomes.append(bus.send(request()).result().explain()))
    bus.advance(1.0)

    assert outcomes == ["COMPLETED by worker"]


def test_calling_one_handle_off_calls_the_request_off(bus: TestRuntime):
    first, second = bus.send(request()), bus.send(request())
    second.cancel()

    assert (first.result().status, second.result().status) == (Status.CANCELLED, Status.CANCELLED)


def test_no_handle_outlives_its_own_timeout(bus: TestRuntime):
    patient, hasty = bus.send(request(timeout=30.0, seconds=20.0)), bus.send(request(timeout=3.0))
    bus.run()

    bus.advance(6.5)
    assert hasty.done
    assert not patient.done
    outcome = hasty.result()
    assert (outcome.status, outcome.error.code) == (Status.TIMEOUT, "deadline")
    bus.advance(14.0)
    assert patient.result().ok


def test_a_request_id_that_another_agent_has_under_way_here_is_refused_at_once(bus: TestRuntime):
    handle = bus.send(request())
    bus.run()
    other = bus.start(Worker, name="other").name
    told = bus.delegate("work.ask", {"request_id": handle.id}, to=other).result()

    assert "REJECTED_CONTEXT" in told.data
    assert "duplicate_request" in told.data
    bus.advance(1.0)
    assert handle.result().ok


def test_handles_of_one_request_made_by_many_threads_all_end():
    with Runtime(name="desk") as bus:
        bus.start(Worker)
        ends: list[Status] = []

        def ask() -> None:
            ends.extend(bus.send(request("t", seconds=0.2)).result(10.0).status for _ in range(1))

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(15.0)

    assert ends == [Status.COMPLETED] * 8
