"""How a cell runs handlers, and how it outlives its agent; on a bus that moves when it is told to."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pykka
import pytest

from ether.testing import TestRuntime
from ether_actors.agent import Agent, AsyncAgent, ThreadedAgent
from ether_actors.capability import capability
from ether_actors.cell import TURN
from ether_actors.task import Task
from ether_broker.delegation import Budget, Delegation
from ether_broker.errors import AgentCrash, DuplicateAgent, InvalidManifest, UnknownAgent
from ether_broker.ids import to_text
from ether_broker.payload import MAX_PAYLOAD
from ether_broker.response import Response
from ether_broker.status import Status


class Worker(Agent):
    """Does what the delegation says, and writes down what happens to it."""

    def __init__(self, log: list[str] | None = None, calls: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.log = [] if log is None else log
        self.calls = calls or {}
        self.log.append("made")

    def on_start(self) -> None:
        self.log.append("started")

    def on_stop(self) -> None:
        self.log.append("stopped")

    def on_failure(self, exception_type, exception_value, traceback) -> None:
        self.log.append(f"failed with {exception_type.__name__}")

    def on_receive(self, message: Any) -> Any:
        if isinstance(message, BaseException):
            raise message
        self.log.append(f"told {message}")
        return f"heard {message}"

    @capability("work.say")
    def say(self, word: str = "") -> str:
        self.log.append(word)
        return word

    @capability("work.call")
    def call(self, what: str, task: Task):
        return self.calls[what](task)

    @capability("work.count")
    def count(self) -> int:
        return "many"  # type: ignore[return-value]

    @capability("work.nap")
    async def nap(self, seconds: float, word: str = "") -> str:
        self.log.append(f"{word} begins")
        await asyncio.sleep(seconds)
        self.log.append(f"{word} ends")
        return word


def outcome_of(call: Any) -> Response:
    """What comes of a handler that is `call`."""
    with TestRuntime() as bus:
        bus.start(Worker, None, {"it": call})
        return bus.delegate("work.call", {"what": "it"}).result()


def fail_with(error: BaseException) -> Any:
    def call(task: Task) -> None:
        raise error

    return call


# -- outcomes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [None, 7, "text", b"bytes", [1, {"a": None}], {"k": 1.5}])
def test_what_a_handler_returns_is_the_data_of_completed(data: Any):
    response = outcome_of(lambda task: data)

    assert (response.status, response.data, response.from_agent, response.elapsed) == (
        Status.COMPLETED,
        data,
        "worker",
        0.0,
    )


@pytest.mark.parametrize(
    ("error", "code"),
    [(ValueError("no luck"), "exception"), (KeyError("k"), "exception"), (UnknownAgent("who?"), "unknown_agent")],
)
def test_what_a_handler_raises_is_failed_execution_with_its_traceback(error: Exception, code: str):
    response = outcome_of(fail_with(error))

    assert (response.status, response.error.code) == (Status.FAILED_EXECUTION, code)
    assert response.error.message == f"{type(error).__name__}: {error}"
    assert "raise error" in response.error.traceback


@pytest.mark.parametrize(
    ("value", "code", "hint"),
    [
        ({"a": [object()]}, "unserialisable", "the result['a'][0] is a object"),
        (bytes(MAX_PAYLOAD), "payload_too_large", "pass a path or an artifact"),
        ({1: object}, "unserialisable", "cannot travel"),
    ],
)
def test_a_result_that_cannot_travel_is_failed_execution(value: Any, code: str, hint: str):
    response = outcome_of(lambda task: value)

    assert (response.status, response.error.code) == (Status.FAILED_EXECUTION, code)
    assert hint in response.error.message


def test_a_result_of_another_type_than_declared_is_failed_execution():
    with TestRuntime() as bus:
        bus.start(Worker)
        response = bus.delegate("work.count").result()

    assert (response.status, response.error.code) == (Status.FAILED_EXECUTION, "wrong_result")


def test_a_response_speaks_for_its_own_task_whatever_it_says():
    response = outcome_of(
        lambda task: Response(request_id=to_text(bytes(16)), from_agent="somebody", status=Status.PARTIAL, data=1)
    )

    assert (response.status, response.from_agent, response.data) == (Status.PARTIAL, "worker", 1)


def test_parameters_that_do_not_fit_are_refused_before_any_handler_runs():
    log: list[str] = []
    with TestRuntime() as bus:
        bus.start(Worker, log)
        response = bus.delegate("work.say", {"word": 7, "volume": 1}).result()

    assert response.status is Status.REJECTED_CONTEXT
    assert set(response.required_fields) == {"word", "volume"}
    assert log == ["made", "started", "stopped"]


def test_a_context_that_is_not_the_one_that_was_sealed_is_refused():
    with TestRuntime() as bus:
        bus.start(Worker)
        sealed = bus.delegate("work.say", context={"section": "3"}).result()
        forged = Delegation(
            request_id=bus.node.new_id(),
            capability="work.say",
            context_slice={"section": "4"},
            context_sha256="sha256:00",
        )
        broken = bus.send(forged).result()

    assert sealed.ok
    assert (broken.status, broken.required_fields) == (Status.REJECTED_CONTEXT, ("context_slice",))


def test_a_fallback_agent_handles_what_nobody_declares_and_knows_what_it_is():
    class Anything(Agent):
        @capability("*")
        def handle(self, task: Task, **params: Any) -> list[Any]:
            return [task.delegation.capability, params]

    with TestRuntime() as bus:
        bus.start(Anything)
        response = bus.delegate("write.poem", {"about": "rain"}).result()

    assert response.unwrap().data == ["write.poem", {"about": "rain"}]


# -- turns -------------------------------------------------------------------------------------------------------


def test_one_at_a_time_in_the_order_in_which_they_were_asked():
    log: list[str] = []
    with TestRuntime() as bus:
        bus.start(Worker, log)
        handles = [bus.delegate("work.nap", {"seconds": 1.0, "word": word}) for word in "ab"]
        handles.append(bus.delegate("work.say", {"word": "c"}))
        bus.advance(3.0)

        assert [handle.result().data for handle in handles] == ["a", "b", "c"]
        assert log[2:] == ["a begins", "a ends", "b begins", "b ends", "c"]


def test_as_many_at_a_time_as_it_has_places():
    class Wide(Worker):
        max_concurrency = 2

    log: list[str] = []
    with TestRuntime() as bus:
        bus.start(Wide, log)
        for word, seconds in (("a", 1.0), ("b", 1.5), ("c", 1.0)):
            bus.delegate("work.nap", {"seconds": seconds, "word": word})
        bus.advance(0.5)
        assert log[2:] == ["a begins", "b begins"]
        bus.advance(2.0)

        assert log[2:] == ["a begins", "b begins", "a ends", "c begins", "b ends", "c ends"]


def test_an_agent_with_much_to_do_lets_others_have_their_turn():
    order: list[str] = []
    with TestRuntime() as bus:
        bus.start(Worker, order, name="busy")
        bus.start(Worker, order, name="other")
        for _ in range(3 * TURN):
            bus.delegate("work.say", {"word": "busy"}, to="busy")
        bus.delegate("work.say", {"word": "other"}, to="other")
        bus.run()

    assert order[4:].index("other") == TURN


def test_what_expires_while_it_waits_at_the_node_is_never_started():
    log: list[str] = []
    with TestRuntime() as bus:
        bus.start(Worker, log)
        bus.delegate("work.nap", {"seconds": 5.0, "word": "long"})
        late = bus.delegate("work.say", {"word": "late"}, timeout=2.0)
        bus.advance(2.25)
        assert late.result().status is Status.TIMEOUT
        bus.advance(10.0)

        assert bus.statistics()["dead_letters"] == {}

        assert "late" not in log
        assert bus.agents()[0]["in_flight"] == 0


def test_what_reaches_its_turn_just_after_its_deadline_times_out_and_is_not_cancelled():
    log: list[str] = []
    with TestRuntime() as bus:
        bus.start(Worker, log)
        bus.delegate("work.nap", {"seconds": 2.03, "word": "long"})
        late = bus.delegate("work.say", {"word": "late"}, timeout=2.01)
        bus.advance(2.05)  # its turn has come, and the supervisor's slot of time has not ended yet
        bus.advance(1.0)

        assert late.result().status is Status.TIMEOUT
        assert "late" not in log
        assert (bus.agents()[0]["in_flight"], bus.statistics()["dead_letters"]) == (0, {})


@pytest.mark.parametrize("kind", [ThreadedAgent, AsyncAgent, Agent])
def test_every_kind_of_agent_runs_plain_and_async_handlers(kind: type[Agent]):
    class Both(kind):  # type: ignore[misc, valid-type]
        @capability("plain")
        def plain(self) -> str:
            return "plain"

        @capability("async")
        async def awaited(self) -> str:
            await asyncio.sleep(0)
            return "async"

    with TestRuntime() as bus:
        bus.start(Both)

        assert [bus.delegate(name).result().data for name in ("plain", "async")] == ["plain", "async"]


def test_long_work_says_that_it_goes_on():
    with TestRuntime() as bus:
        bus.start(Worker)
        handle = bus.delegate("work.nap", {"seconds": 3.2})
        bus.advance(3.5)

        statuses = [response.status for response in handle.stream()]

    assert statuses == [Status.ACCEPTED] * 3 + [Status.COMPLETED]


# -- crashes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [AgentCrash("broken"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_an_agent_that_crashes_is_made_anew_and_its_mailbox_is_kept(error: BaseException):
    log: list[str] = []
    with TestRuntime() as bus:
        bus.start(Worker, log, {"it": fail_with(error)})
        crash = bus.delegate("work.call", {"what": "it"})
        after = bus.delegate("work.say", {"word": "after"})

        assert crash.result().status is Status.FAILED_EXECUTION
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

        assert (other.result().status, other.result().error.code) == (Status.FAILED_EXECUTION, "agent_crashed")
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
        assert bus.node.agent_names == set()


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
        with pytest.raises(DuplicateAgent, match="lives on node 'other'"):
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
    agent = bus.node._cells[name.encode()].agent
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
