"""How a cell outlives its agent, ends with it, and hears pykka's messages."""

from __future__ import annotations

import logging

import pykka
import pytest

from ether.testing import TestRuntime
from ether_actors.agent.agent import Agent
from ether_actors.agent.declarations.capability import capability
from ether_actors.execution import cell as cell_module
from ether_broker.envelope.delegation import Budget
from ether_broker.envelope.status import Status
from ether_broker.errors import AgentCrash, DuplicateAgent, InvalidManifest, UnknownAgent
from tests.actors.worker import Worker, fail_with

# -- crashes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [AgentCrash("broken"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_an_agent_that_crashes_is_made_anew_and_its_mailbox_is_kept(error: BaseException):
    log: list[str] = []
    with TestRuntime() as bus:
        bus.start(Worker, log, {"it": fail_with(error)})
        crash = bus.delegate("work.call", {"what": "it"})
        after = bus.delegate("work.say", {"word": "after"})

        assert (crash.result().status, crash.result().error.code) == (Status.FAILED_EXECUTION, "agent_crash")
        assert crash.result().error.retryable
        assert after.result().data == "after"
        assert log == ["made", "started", f"failed with {type(error).__name__}", "made", "started", "after"]


def test_an_ordinary_exception_leaves_the_agent_as_it_is():
    log: list[str] = []
    with TestRuntime() as bus:
        bus.start(Worker, log, {"it": fail_with(ValueError())})
        bus.delegate("work.call", {"what": "it"}).result()
        bus.delegate("work.say").result()

        assert log == ["made", "started", ""]


def test_an_agent_that_crashes_again_and_again_is_given_up_and_its_work_refused():
    with TestRuntime() as bus:
        bus.start(Worker, None, {"it": fail_with(AgentCrash())})
        for _ in range(6):
            bus.delegate("work.call", {"what": "it"})
            bus.advance(1.0)

        refused = bus.delegate("work.say").result()

    assert (refused.status, refused.error.code) == (Status.REJECTED_CAPABILITY, "no_holder")


def test_what_waits_for_an_agent_that_is_given_up_is_answered():
    with TestRuntime() as bus:
        bus.start(Worker, None, {"it": fail_with(AgentCrash())})
        handles = [bus.delegate("work.call", {"what": "it"}) for _ in range(20)]
        bus.advance(60.0)

        statuses = [handle.result().status for handle in handles]

    assert statuses[0] is Status.FAILED_EXECUTION
    assert statuses[-1] is Status.REJECTED_CAPABILITY
    assert set(statuses) == {Status.FAILED_EXECUTION, Status.REJECTED_CAPABILITY}


def test_a_crash_ends_what_the_agent_had_begun_with_it():
    class Wide(Worker):
        max_concurrency = 2

    with TestRuntime() as bus:
        bus.start(Wide, None, {"it": fail_with(AgentCrash())})
        other = bus.delegate("work.nap", {"seconds": 30.0})
        bus.run()
        bus.delegate("work.call", {"what": "it"}).result()

        assert (other.result().status, other.result().error.code) == (Status.FAILED_EXECUTION, "agent_restarted")
        assert other.result().error.retryable
        assert bus.delegate("work.say").result().ok


def test_a_hook_that_raises_after_a_crash_is_logged_and_the_agent_comes_back(caplog):
    class Clumsy(Worker):
        def on_failure(self, exception_type, exception_value, traceback) -> None:
            raise SystemExit("from the hook")

    with TestRuntime() as bus, caplog.at_level(logging.ERROR, "ether.agent"):
        bus.start(Clumsy, None, {"it": fail_with(AgentCrash())})
        bus.delegate("work.call", {"what": "it"}).result()

        assert bus.delegate("work.say").result().ok
    assert "on_failure raised" in caplog.text


def test_an_on_stop_that_raises_is_logged_and_the_agent_is_gone(caplog):
    class Clumsy(Worker):
        def on_stop(self) -> None:
            raise SystemExit("from the hook")

    with TestRuntime() as bus, caplog.at_level(logging.ERROR, "ether.agent"):
        bus.start(Clumsy).stop()

        assert bus.agents() == []
    assert "on_stop raised" in caplog.text


def test_a_hook_that_raises_is_a_warning_where_nobody_reads_the_log(monkeypatch):
    class Clumsy(Worker):
        def on_stop(self) -> None:
            raise ValueError("from the hook")

    found: list[str] = []
    monkeypatch.setattr(cell_module, "warn_unread", lambda _logger, message: found.append(message))
    with TestRuntime() as bus:
        bus.start(Clumsy).stop()

    assert found == ["clumsy: on_stop raised ValueError('from the hook')"]


# -- starting and stopping ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ValueError("no luck"), SystemExit(3)])
@pytest.mark.parametrize("where", ["__init__", "on_start"])
def test_an_agent_that_cannot_start_says_so_to_who_started_it_and_is_not_there(where: str, error: BaseException):
    def fail(self) -> None:
        if where == "__init__":
            Agent.__init__(self)
        raise error

    with TestRuntime() as bus:
        with pytest.raises(type(error)):
            bus.start(type("Broken", (Agent,), {where: fail}))

        assert bus.agents() == []
        assert bus.node.agent_host.agent_names == set()


def test_an_agent_whose_declarations_contradict_each_other_is_refused():
    class Twice(Agent):
        @capability("a")
        def one(self): ...

        @capability("a")
        def two(self): ...

    with TestRuntime() as bus, pytest.raises(InvalidManifest):
        bus.start(Twice)


@pytest.mark.parametrize("name", ["worker", "test"])
def test_a_name_that_is_taken_on_this_node_is_refused_and_hurts_nobody(name: str):
    with TestRuntime() as bus:
        bus.start(Worker)
        with pytest.raises(DuplicateAgent):
            bus.start(Worker, name=name)

        assert bus.delegate("work.say", {"word": "still here"}).result().data == "still here"


def test_a_name_that_is_taken_on_another_node_is_refused_and_hurts_nobody():
    with TestRuntime() as bus, bus.join("other") as other:
        other.start(Worker)
        with pytest.raises(
            DuplicateAgent, match=r"lives on node 'other'.* as in bus\.start\(Worker, name='worker-2'\)"
        ):
            bus.start(Worker)

        assert bus.delegate("work.say").result().ok


def test_an_agent_that_is_stopped_finishes_what_it_can_and_what_waited_goes_elsewhere():
    first: list[str] = []
    second: list[str] = []
    with TestRuntime() as bus:
        stopped = bus.start(Worker, first)
        handles = [bus.delegate("work.say", {"word": str(n)}) for n in range(3)]
        running = bus.delegate("work.nap", {"seconds": 9.0, "word": "nap"})
        waiting = [bus.delegate("work.say", {"word": str(n)}) for n in range(3, 5)]
        bus.run()
        bus.start(Worker, second)

        stopped.stop()
        bus.run()

        assert [handle.result().data for handle in (*handles, *waiting)] == list("01234")
        assert (first[2:5], sorted(second[2:])) == (list("012"), list("34"))
        assert first[-1] == "stopped"
        assert running.result().status is Status.FAILED_EXECUTION


def test_what_waited_for_an_agent_that_is_stopped_is_refused_where_nobody_else_can():
    with TestRuntime() as bus:
        only = bus.start(Worker)
        bus.delegate("work.nap", {"seconds": 9.0})
        waiting = bus.delegate("work.say")
        bus.run()

        only.stop()

        assert waiting.result().status is Status.REJECTED_CAPABILITY
        with pytest.raises(UnknownAgent):
            only.stop()


# -- pykka's messages --------------------------------------------------------------------------------------------


def ref_of(bus: TestRuntime, name: str = "worker") -> pykka.ActorRef[Worker]:
    agent = bus.node.agent_host.cell(name).agent
    assert agent is not None
    return agent.actor_ref


def test_a_pykka_ref_tells_and_asks():
    log: list[str] = []
    with TestRuntime() as bus:
        bus.start(Worker, log)
        ref = ref_of(bus)
        ref.tell("one")
        asked = ref.ask("two", block=False)
        bus.run()

        assert asked.get(timeout=0) == "heard two"
        assert log[2:] == ["told one", "told two"]
        assert ref.is_alive()


def test_messages_and_delegations_take_their_turns_in_one_order():
    log: list[str] = []
    with TestRuntime() as bus:
        bus.start(Worker, log)
        handle = bus.delegate("work.nap", {"seconds": 1.0, "word": "nap"})
        bus.run()
        ref_of(bus).tell("hello")
        bus.advance(1.0)

        assert handle.result().ok
        assert log[2:] == ["nap begins", "nap ends", "told hello"]


def test_a_pykka_proxy_is_served():
    with TestRuntime() as bus:
        bus.start(Worker, ["before"])
        proxy = ref_of(bus).proxy()
        bus.run()
        length = proxy.log
        bus.run()

        assert length.get(timeout=0) == ["before", "made", "started"]


def test_a_message_that_was_never_handled_is_answered_when_the_agent_stops():
    with TestRuntime() as bus:
        only = bus.start(Worker)
        bus.delegate("work.nap", {"seconds": 9.0})
        bus.run()
        asked = ref_of(bus).ask("hello", block=False)
        only.stop()

        with pytest.raises(pykka.ActorDeadError):
            asked.get(timeout=0)


def test_a_ref_that_is_told_to_stop_stops_the_agent():
    log: list[str] = []
    with TestRuntime() as bus:
        bus.start(Worker, log)
        ref = ref_of(bus)
        ref.stop(block=False)
        bus.run()

        assert log[-1] == "stopped"
        assert not ref.is_alive()
        assert bus.delegate("work.say").result().error.code == "no_holder"
        with pytest.raises(pykka.ActorDeadError):
            ref.tell("too late")


def test_budgets_and_other_fields_reach_the_handler():
    with TestRuntime() as bus:
        bus.start(Worker, None, {"it": lambda task: [task.delegation.budget.max_tokens, task.delegation.objective]})
        response = bus.delegate("work.call", {"what": "it"}, budget=Budget(max_tokens=3), objective="aim").result()

    assert response.data == [3, "aim"]
