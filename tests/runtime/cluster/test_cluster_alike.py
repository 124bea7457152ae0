"""The same code of a user's in one process, on a cluster, and with a node that joined from elsewhere."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from ether import Budget, OutputContract, Runtime, Status, as_completed
from ether.cluster import Cluster
from ether.views import AgentInput, AgentOutput
from tests.runtime.agents import Caller, Worker
from tests.runtime.script import script

Place = Callable[[Path], AbstractContextManager[Runtime]]
NODE = """
import sys
from ether.cluster import AgentSpec
from ether.cluster.node_main import serve
agents = [AgentSpec("tests.runtime.agents:Worker"), AgentSpec("tests.runtime.agents:Caller")]
serve(sys.argv[1], agents, name=None, threads=4, drain=5.0, on_event=print)
"""


@contextmanager
def embedded(_folder: Path) -> Iterator[Runtime]:
    with Runtime() as bus:
        bus.start(Worker)
        bus.start(Caller)
        yield bus


@contextmanager
def clustered(_folder: Path) -> Iterator[Runtime]:
    with Cluster(nodes=1, agents=[Worker, Caller]) as cluster, Runtime.connect(cluster.url) as bus:
        yield bus


@contextmanager
def joined(folder: Path) -> Iterator[Runtime]:
    with Runtime(bind=f"ipc://{folder}/bus.sock") as bus, script(NODE, bus.url) as node:
        node.line(": worker, caller")
        yield bus
        node.signal(signal.SIGTERM)
        assert node.wait() == 0


@pytest.mark.parametrize("place", [embedded, clustered, joined])
def test_the_same_code_does_the_same_everywhere(place: Place, tmp_path: Path):
    with place(tmp_path) as bus:
        # A nested delegation, followed as it goes.
        stream = [response.status for response in bus.delegate("call.nested", {"text": "x"}).stream()]
        answer = bus.delegate("call.nested", {"text": "x"}).result(10.0)

        # What does not fit, or nobody does, is a value.
        misfit = bus.delegate("call.nested", {"txet": "x"}).result(10.0)
        nobody = bus.delegate("call.nobody").result(10.0)

        # Several at once, one of them cancelled.
        running = bus.delegate("work.once", {"folder": str(tmp_path)})
        next(tmp for tmp in iter(lambda: list(tmp_path.glob("*.1")), None) if tmp)
        others = [bus.delegate("call.nested", {"text": str(number)}, to="caller") for number in range(3)]
        running.cancel()
        texts = {handle.result(10.0).unwrap().data["text"] for handle in as_completed(others, 10.0)}

        async def awaited() -> object:
            return (await bus.delegate("call.nested", {"text": "y"})).data["text"]

        assert asyncio.run(awaited()) == "y"

    assert stream == [Status.PROGRESS, Status.COMPLETED]
    assert answer.unwrap().data == {"text": "x", "from": "worker"}
    assert misfit.status is Status.REJECTED_CONTEXT
    assert (misfit.required_fields, misfit.unexpected_fields) == (("text",), ("txet",))
    assert nobody.status is Status.REJECTED_CAPABILITY
    assert running.result(10.0).status is Status.CANCELLED
    assert texts == {"0", "1", "2"}


@pytest.mark.parametrize("place", [embedded, clustered, joined])
def test_the_contract_of_a_delegation_holds_everywhere(place: Place, tmp_path: Path):
    with place(tmp_path) as bus:
        asked = AgentInput(task_id="task-7", agent="worker", action="work.alone", params={}).to_delegation()
        first, second = bus.send(asked).result(10.0), bus.send(asked).result(10.0)
        falls = bus.delegate("work.alone", to="nobody", fallback=True).result(10.0)
        late = bus.delegate("work.once", {"folder": str(tmp_path)}, budget=Budget(max_time_sec=0.3)).result(10.0)
        contract = OutputContract(expected_sections=("agent", "Sources"))
        partial = bus.delegate("work.alone", output_contract=contract).result(10.0)

    assert [AgentOutput.from_response(response).task_id for response in (first, second)] == ["task-7"] * 2
    assert first == second
    assert falls.data["agent"] == "worker"
    assert late.status is Status.TIMEOUT
    assert (partial.status, len(partial.unresolved), partial.data["agent"]) == (Status.PARTIAL, 1, "worker")
