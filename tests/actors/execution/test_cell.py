"""How a cell runs handlers, on a bus that moves when it is told to."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from typing import Any

import pytest

from ether.testing import TestRuntime
from ether_actors.agent.agent import Agent, AsyncAgent, ThreadedAgent
from ether_actors.agent.declarations.capability import capability
from ether_actors.agent.inbox import Inbox
from ether_actors.backoff import Backoff
from ether_actors.delegator.handle import Handle
from ether_actors.execution.cell import TURN, CellState
from ether_actors.restarts.supervisor_spec import ChildSpec, SupervisorSpec
from ether_actors.task.task import Task
from ether_actors.task.work_item import Work
from ether_broker.envelope.delegation import Delegation
from ether_broker.envelope.ids import to_text
from ether_broker.envelope.payload import MAX_PAYLOAD
from ether_broker.envelope.response import ErrorInfo, Response
from ether_broker.envelope.status import BY_CODE, INTERIM, Status
from ether_broker.errors import AgentCrash, Failed, UnknownAgent
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.wire.frame import Kind, pack_envelope, read_header
from tests.actors.worker import Worker, fail_with


def outcome_of(call: Any) -> Response:
    """What comes of a handler that is `call`."""
    with TestRuntime() as bus:
        bus.start(Worker, None, {"it": call})
        return bus.delegate("work.call", {"what": "it"}).result()


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


def test_another_outcome_that_a_handler_raises_is_told_by_its_own_words_alone():
    error = ErrorInfo(code="not_permitted", message="NotPermitted: can_modify_files is False")
    below = Response(request_id=to_text(bytes(16)), status=Status.FAILED_EXECUTION, from_agent="archive", error=error)

    response = outcome_of(fail_with(Failed(below)))

    assert (response.error.code, response.error.message) == ("failed", below.explain())


@pytest.mark.parametrize(
    ("value", "code", "hint"),
    [
        ({"a": [object()]}, "unserialisable", "the result['a'][0] is a object"),
        (bytes(MAX_PAYLOAD), "payload_too_large", "task.artifact(path)"),
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
    assert response.required_fields == ()
    assert set(response.unexpected_fields) == {"word", "volume"}
    assert log == ["made", "started", "stopped"]


def test_a_context_that_is_not_the_one_that_was_sealed_is_refused():
    with TestRuntime() as bus:
        bus.start(Worker)
        sealed = bus.delegate("work.say", context={"section": "3"}).result()
        forged = Delegation(
            request_id=bus.node.resources.new_id(),
            capability="work.say",
            context_slice={"section": "4"},
            context_sha256="sha256:00",
        )
        broken = bus.send(forged).result()

    assert sealed.ok
    assert (broken.status, broken.unexpected_fields) == (Status.REJECTED_CONTEXT, ("context_slice",))


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


def answers_of(bus: TestRuntime) -> list[tuple[str, Status]]:
    """What the node's agents answer from now on that is an outcome: (request id, status)."""
    sender, said = bus.node.agent_host._responder._sender, list[tuple[str, Status]]()
    send = sender.send

    def note(envelope: bytes, **options: Any) -> None:
        header = read_header(envelope)
        if header.kind == Kind.RESPONSE and header.status not in INTERIM:
            said.append((to_text(header.request_id), BY_CODE[header.status]))
        send(envelope, **options)

    sender.send = note
    return said


@pytest.mark.parametrize("priority", ["high", "normal", "low"])
@pytest.mark.parametrize("kind", [Agent, AsyncAgent, ThreadedAgent])
def test_what_ends_while_it_waits_at_the_node_is_answered_at_once_and_let_go(kind: type[Agent], priority: Any):
    class Slow(Worker, kind):  # type: ignore[misc, valid-type]
        pass

    gc.collect()
    before = sum(type(thing) is Work for thing in gc.get_objects())
    log: list[str] = []
    with TestRuntime() as bus:
        bus.start(Slow, log)
        running = bus.delegate("work.nap", {"seconds": 60.0, "word": "long"})
        bus.run()
        said = answers_of(bus)
        waiting = [bus.delegate("work.say", {"word": "late"}, timeout=2.0, priority=priority) for _ in range(10)]
        waiting += [bus.delegate("work.say", {"word": "late"}, priority=priority) for _ in range(10)]
        bus.run()
        cell = bus.node.agent_host.cell("slow")
        assert cell.load()["waiting"] == 20
        for handle in waiting[10:]:
            handle.cancel()
        bus.advance(2.25)

        statuses = [handle.result().status for handle in waiting]
        assert statuses == [Status.TIMEOUT] * 10 + [Status.CANCELLED] * 10
        once_each = sorted((handle.request_id, Status.CANCELLED) for handle in waiting)
        assert sorted(said) == once_each
        assert (bus.agents()[0]["in_flight"], len(cell.works), len(cell.inbox), cell.load()["waiting"]) == (1, 1, 0, 0)
        assert sum(type(thing) is Work for thing in gc.get_objects()) == before + 1

        new = bus.delegate("work.say", {"word": "new"}, priority=priority)
        bus.advance(60.0)
        assert (running.result().data, new.result().data) == ("long", "new")
        assert log[2:] == ["long begins", "long ends", "new"]
        assert sorted(said[:20]) == once_each
        assert {request_id for request_id, _ in said[20:]} <= {running.request_id, new.request_id}
        assert bus.statistics()["dead_letters"] == {}


def test_an_agent_gets_what_waits_at_the_broker_for_what_ended_at_its_node():
    log: list[str] = []
    with TestRuntime(limits=Limits(window=4)) as bus:
        bus.start(Worker, log)
        bus.delegate("work.nap", {"seconds": 5.0, "word": "long"})
        early = [bus.delegate("work.say", {"word": "early"}, timeout=2.0) for _ in range(3)]
        later = [bus.delegate("work.say", {"word": str(number)}) for number in range(3)]
        bus.run()
        assert [bus.agents()[0][what] for what in ("in_flight", "queued")] == [4, 3]
        bus.advance(2.25)

        assert [bus.agents()[0][what] for what in ("in_flight", "queued")] == [4, 0]
        assert [handle.result().status for handle in early] == [Status.TIMEOUT] * 3
        bus.advance(5.0)
        assert [handle.result().data for handle in later] == ["0", "1", "2"]
        assert log[2:] == ["long begins", "long ends", "0", "1", "2"]


def test_what_ends_while_its_agent_is_down_is_answered_before_that_is_back():
    log: list[str] = []
    child = ChildSpec("worker", Worker, (log, {"it": fail_with(AgentCrash())}))
    with TestRuntime() as bus:
        bus.supervise(SupervisorSpec("tree", backoff=Backoff(initial=5.0, jitter=0.0), children=(child,)))
        bus.delegate("work.call", {"what": "it"}).result()  # after which it comes back at once
        said = answers_of(bus)
        bus.delegate("work.call", {"what": "it"})
        late = bus.delegate("work.say", {"word": "late"}, timeout=2.0)
        kept = bus.delegate("work.say", {"word": "kept"})
        bus.advance(2.25)
        cell = bus.node.agent_host.cell("worker")
        assert (cell.state, late.result().status) == (CellState.DOWN, Status.TIMEOUT)

        assert said[1:] == [(late.request_id, Status.CANCELLED)]
        assert [work.header.request_id for work in cell.works.values()] == [kept.key]
        assert bus.agents()[0]["in_flight"] == 1
        bus.advance(5.0)

        assert kept.result().data == "kept"
        assert log[-2:] == ["started", "kept"]


def test_a_turn_that_has_just_taken_what_is_cancelled_answers_for_it_once(monkeypatch: pytest.MonkeyPatch):
    log: list[str] = []
    take = Inbox.take

    def cancel_what_is_taken(inbox: Inbox, *args: Any, **options: Any) -> Any:
        work = take(inbox, *args, **options)
        if isinstance(work, Work):
            assert cell.cancel(work.header.request_id, work.header.attempt), "the turn answers, not who cancels"
        return work

    with TestRuntime() as bus:
        bus.start(Worker, log)
        cell, said = bus.node.agent_host.cell("worker"), answers_of(bus)
        monkeypatch.setattr(Inbox, "take", cancel_what_is_taken)
        handle = bus.delegate("work.say", {"word": "never"})
        bus.run()

        assert said == [(handle.request_id, Status.CANCELLED)]
        assert "never" not in log
        assert (cell.works, cell.inbox.busy) == ({}, 0)


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


@pytest.mark.parametrize("offset", [0.0, 0.1, 0.25, 0.49, 0.5, 0.51, 0.75, 0.99])
def test_accepted_comes_within_a_second_of_the_start_and_then_each_second(offset: float):
    with TestRuntime() as bus:
        bus.start(Worker)
        bus.advance(offset)
        handle = bus.delegate("work.nap", {"seconds": 9.9})
        told: list[int] = []
        for _ in range(9):
            bus.advance(1.0)
            told.append(len(bus_updates(handle)))

    assert told == list(range(1, 10))


@pytest.mark.parametrize("offset", [0.0, 0.3, 0.7])
def test_short_work_says_nothing_before_its_outcome(offset: float):
    with TestRuntime() as bus:
        bus.start(Worker)
        bus.advance(offset)
        handle = bus.delegate("work.nap", {"seconds": 0.4})
        bus.advance(0.5)

        assert [response.status for response in handle.stream()] == [Status.COMPLETED]


def bus_updates(handle: Handle) -> list[object]:
    seen: list[object] = []
    handle.listen(seen.append)
    return seen


def test_an_async_handler_that_swallows_its_cancellation_is_given_up_and_what_it_says_is_late():
    class Stubborn(Agent):
        hang_limit = 3.0
        made = 0

        def on_start(self) -> None:
            type(self).made += 1

        @capability("stubborn.go")
        async def go(self, seconds: float) -> str:
            end = asyncio.get_running_loop().time() + seconds
            while (left := end - asyncio.get_running_loop().time()) > 0:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(left)
            return "at last"

    with TestRuntime() as bus:
        bus.start(Stubborn)
        first = bus.delegate("stubborn.go", {"seconds": 20.0}, timeout=1.0)
        second = bus.delegate("stubborn.go", {"seconds": 0.0}, timeout=30.0)
        bus.advance(3.5)
        assert first.result().status is Status.TIMEOUT
        assert not second.done

        bus.advance(2.0)

        assert second.result().data == "at last"
        assert Stubborn.made == 2
        bus.advance(20.0)
        assert [letter.reason for letter in bus.dead_letters()] == ["late"]
        assert bus.dead_letters()[0].request_id == first.id


def test_the_place_of_work_that_was_given_up_is_free_once_however_its_handler_ends():
    work = Work(read_header(pack_envelope(Kind.DELEGATION)), b"")

    assert [work.end() for _ in range(3)] == [True, False, False]
