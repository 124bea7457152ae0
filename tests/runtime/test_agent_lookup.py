"""Spec 3's look-up of agents, from a subgoal to the agent that works on it."""

from __future__ import annotations

import asyncio

from ether import Agent, Status, capability
from ether.observers import Probe
from ether.testing import TestRuntime
from ether.views import AgentResponse, SubgoalRequest
from ether_broker.wire.frame import Kind


class Analyzer(Agent):
    @capability("code_analysis")
    def analyse(self) -> dict[str, str]:
        return {"by": self.agent_name}


class Executor(Agent):
    @capability("*")
    def run(self) -> dict[str, str]:
        return {"by": self.agent_name}


def ask(bus: TestRuntime, number: int, **fields: str) -> str:
    request = SubgoalRequest(subgoal={"id": f"sg{number}"}, query_id="q", **fields)
    response = bus.send(request.to_delegation()).result()
    assert AgentResponse.from_response(response).subgoal_id == f"sg{number}"
    return response.data["by"] if response.ok else response.error.code


def test_a_subgoal_goes_to_the_agent_then_to_the_capability_then_to_the_fallback():
    wanted = {"agent_id": "code-analyzer", "capability": "code_analysis"}
    with TestRuntime(name="desk") as bus:
        probe = bus.observe(Probe())
        nobody = ask(bus, 0, **wanted)
        bus.start(Executor, name="llm-executor")
        fallback = ask(bus, 1, **wanted)
        bus.start(Analyzer, name="other")
        holder = ask(bus, 2, **wanted)
        bus.start(Analyzer, name="code-analyzer")
        named = ask(bus, 3, **wanted)
        alone = ask(bus, 4, agent_id="code-analyzer")
        anybody = ask(bus, 5)
        bus.settle(probe)
        events = [seen.event for seen in probe.observations if seen.kind is Kind.EVENT]

    assert (nobody, fallback, holder, named) == ("unknown_agent", "llm-executor", "other", "code-analyzer")
    assert (alone, anybody) == ("code-analyzer", "llm-executor")
    assert [(event["agent"], event["found"]) for event in events if event["event"] == "fell_through"] == [
        ("llm-executor", "fallback"),
        ("other", "capability"),
        ("llm-executor", "fallback"),
    ]


def test_a_delegation_may_ask_for_it_and_else_its_name_stays_exact():
    with TestRuntime(name="desk") as bus:
        bus.start(Analyzer, name="other")
        exact = bus.delegate("code_analysis", to="code-analyzer").result()
        falls = bus.delegate("code_analysis", to="code-analyzer", fallback=True).result()

    assert (exact.status, exact.alternative_agent) == (Status.REJECTED_CAPABILITY, "other")
    assert falls.data == {"by": "other"}


class Patient(Agent):
    @capability("code_analysis")
    async def analyse(self, is_long: bool = False) -> str:
        if is_long:
            await asyncio.Event().wait()
        return self.agent_name


def test_what_falls_through_goes_on_when_its_agent_leaves_and_without_that_its_delegator_hears_who_is_left():
    with TestRuntime(name="desk", drain=0.1) as bus:
        bus.start(Patient, name="named")
        bus.delegate("code_analysis", {"is_long": True}, to="named")
        falls = bus.delegate("code_analysis", to="named", fallback=True)
        stays = bus.delegate("code_analysis", to="named")
        bus.start(Patient, name="other")
        bus.stop("named")
        gone = stays.result()

        assert falls.result().data == "other"
    assert (gone.error.code, gone.error.retryable, gone.alternative_agent) == ("agent_gone", True, "other")
