"""Failures that no delegator learns of: of timers, of handlers of events, and of what `after` makes."""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, Final

import pytest

from ether import (
    Agent,
    ErrorInfo,
    Event,
    InvalidEnvelope,
    PayloadTooLarge,
    Response,
    Retry,
    Runtime,
    Status,
    Task,
    Unserialisable,
    UsageError,
    capability,
    every,
    on_event,
)
from ether.node.connection.session_state import SessionState
from ether.node.unwatched_failures import UnwatchedFailures
from ether.testing import TestRuntime


class Broken(Agent):
    """Raises in whatever runs by itself."""

    @every(1.0)
    @capability("broken.tick")
    def tick(self) -> None:
        raise ValueError("tick broke")

    @on_event("orders.*")
    def note(self, event: Event) -> None:
        raise KeyError(event.data)


class Patient(Agent):
    """Its runs end without a failure."""

    @every(1.0)
    @capability("patient.tick")
    def tick(self, task: Task) -> Any:
        return task.respond(status="PARTIAL", unresolved=("the rest",))

    @capability("patient.wait")
    async def wait(self) -> None:
        await asyncio.sleep(50.0)

    @capability("patient.note")
    def note(self, text: str) -> str:
        return text


@pytest.fixture
def bus(caplog: pytest.LogCaptureFixture) -> Iterator[TestRuntime]:
    with caplog.at_level(logging.WARNING, "ether"), TestRuntime() as bus:
        yield bus


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The first lines of what was logged."""
    return [record.getMessage().partition("\n")[0] for record in caplog.records if record.name == "ether.unwatched"]


def test_of_failures_under_many_topics_few_are_told_and_the_others_counted(
    bus: TestRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    bus.start(Broken, name="note-taker")
    before = len(told(caplog))
    for number in range(50):
        bus.publish(f"orders.n{number}", number)
    bus.run()

    assert len([line for line in told(caplog)[before:] if "the event" in line]) <= 10
    bus.advance(61.0)
    bus.publish("orders.last", 0)
    bus.run()
    assert any("other failures of note-taker were not told)" in line for line in told(caplog)[before:])


class Fickle(Agent):
    """Fails in another way each time."""

    @on_event("kinds.*")
    def note(self, event: Event) -> None:
        raise {0: ValueError, 1: KeyError, 2: ZeroDivisionError}[event.data % 3](f"kind {event.data}")


def test_another_exception_is_another_failure(bus: TestRuntime, caplog: pytest.LogCaptureFixture) -> None:
    bus.start(Fickle)
    for number in range(30):
        bus.publish("kinds.one", number)
    bus.run()

    kinds = [line.split("exception: ")[1].partition(":")[0] for line in told(caplog)]
    assert kinds == ["ValueError", "KeyError", "ZeroDivisionError"]


FAILED: Final = Response(
    request_id="r", status=Status.FAILED_EXECUTION, from_agent="a", error=ErrorInfo(code="exception", message="E: x")
)  # fmt: skip


def test_agents_that_come_and_go_and_topics_without_end_leave_little_to_be_remembered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 0.0
    unwatched = UnwatchedFailures(SessionState(), lambda: now)
    for number in range(3_000):
        now += 1.0
        unwatched.tell(f"job-{number}", "the event x", FAILED)
        unwatched.tell("job", f"the event x{number}", FAILED)
    assert 500 < len(unwatched._agents) <= 1_000
    assert 32 < len(unwatched._agents["job"].failures) <= 64


def test_each_failure_is_told_or_counted_though_agents_and_kinds_make_room(caplog: pytest.LogCaptureFixture) -> None:
    now, number = 0.0, 0
    unwatched = UnwatchedFailures(SessionState(), lambda: now)
    with caplog.at_level(logging.WARNING, "ether"):
        for round_ in range(3_000):
            now += 0.8
            for agent, what in (
                (f"job-{round_ % 1_500}", "x"),
                ("job", f"x{round_ % 100}"),
                ("job", f"x{round_ % 100}"),
            ):
                unwatched.tell(agent, f"the event {what}", FAILED)
                number += 1
    lines = told(caplog)
    counted = sum(int(count.replace(",", "")) for line in lines for count in re.findall(r"\(([\d,]+) ", line))
    left = unwatched._untold + sum(
        agent.untold + sum(failure.more for failure in agent.failures.values()) for agent in unwatched._agents.values()
    )
    assert len(lines) + counted + left == number


def test_of_more_agents_than_are_remembered_none_is_told_twice_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    unwatched = UnwatchedFailures(SessionState(), lambda: now)
    with caplog.at_level(logging.WARNING, "ether"):
        for _ in range(50):
            now += 1.0
            for number in range(1_500):
                unwatched.tell(f"job-{number}", "tick", FAILED)
        lines = told(caplog)
        assert len(lines) == len(set(lines)) == 100
        now += 61.0
        unwatched.tell("job-1400", "tick", FAILED)
    assert told(caplog)[100].endswith("E: x (70,000 failures on this node were not told)")


def test_failures_are_told_from_several_threads_at_once(caplog: pytest.LogCaptureFixture) -> None:
    unwatched = UnwatchedFailures(SessionState(), itertools.count().__next__)
    with ThreadPoolExecutor(4) as threads:
        for told_one in [threads.submit(unwatched.tell, f"job-{number}", "tick", FAILED) for number in range(5_000)]:
            told_one.result()


class Weary(Agent):
    max_concurrency = 2

    @every(0.2)
    @capability("weary.tick")
    def tick(self) -> None: ...

    @capability("weary.wait")
    async def wait(self) -> None:
        await asyncio.sleep(5.0)


@pytest.mark.parametrize("is_repeated", [True, False])
def test_a_run_for_which_there_was_no_room_is_told_unless_it_comes_again(
    caplog: pytest.LogCaptureFixture, *, is_repeated: bool
) -> None:  # fmt: skip
    unwatched = UnwatchedFailures(SessionState(), lambda: 0.0)

    def end(status: Status, code: str) -> None:
        response = FAILED.model_copy(update={"status": status, "error": ErrorInfo(code=code, message="so it was")})
        ended = SimpleNamespace(source="job", capability="job.tick", outcome=lambda: response)
        ended.add_done_callback = lambda look: look(ended)
        unwatched.watch(ended, "every 1 s", is_repeated=is_repeated)  # type: ignore[arg-type]  # as a handle that has ended

    with caplog.at_level(logging.WARNING, "ether"):
        end(Status.REJECTED_OVERLOAD, "mailbox_full")
        end(Status.REJECTED_CAPABILITY, "agent_draining")
        end(Status.FAILED_EXECUTION, "exception")
    assert len(told(caplog)) == (1 if is_repeated else 3)


def test_a_timer_of_an_agent_that_is_to_end_gives_it_nothing_and_is_no_failure(
    bus: TestRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    bus.start(Weary)
    waiting = bus.delegate("weary.wait")
    bus.advance(1.0)
    before = bus.statistics()["accepted"]
    host = bus.node.agent_host

    host.begin_draining([host.cell("weary")])
    bus.advance(1.0)

    assert told(caplog) == []
    assert bus.statistics()["accepted"] == before
    bus.advance(5.0)
    assert waiting.outcome().status is Status.COMPLETED


def test_a_timer_that_fails_is_told_once_a_minute_with_how_often(
    bus: TestRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    bus.start(Broken)
    bus.advance(50.0)

    failure = "broken: broken.tick (every 1 s) ended FAILED_EXECUTION exception: ValueError: tick broke"
    assert told(caplog) == [failure]
    assert 'raise ValueError("tick broke")' in caplog.text
    bus.advance(30.0)
    assert told(caplog)[1:] == [f"{failure} (59 more since it was last told)"]


def test_a_handler_of_an_event_that_fails_is_told_and_so_is_each_topic(
    bus: TestRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    bus.start(Broken)
    for topic in ("orders.new", "orders.new", "orders.late"):
        bus.publish(topic, "tea").result()
    bus.run()

    assert told(caplog) == [
        f"broken: the event {topic} ended FAILED_EXECUTION exception: KeyError: 'tea'"
        for topic in ("orders.new", "orders.late")
    ]


class Late(Agent):
    """Its handlers of events do not end in time."""

    max_concurrency = 2

    @on_event("late.asleep")
    async def sleep(self, event: Event) -> None:
        await asyncio.sleep(50.0)

    @on_event("late.asks")
    def ask(self, event: Event) -> None:
        self.bus.delegate("late.wait", timeout=10.0).result()  # of no task, so that it goes on

    @capability("late.wait")
    async def wait(self) -> None:
        await asyncio.sleep(50.0)


@pytest.mark.parametrize("topic", ["late.asleep", "late.asks"])
def test_a_handler_of_an_event_that_is_cut_off_at_its_timeout_is_told(
    bus: TestRuntime, caplog: pytest.LogCaptureFixture, topic: str
) -> None:
    bus.start(Late)
    bus.publish(topic, timeout=5.0).result()
    bus.advance(20.0)

    assert told(caplog) == [
        f"late: the event {topic} ended TIMEOUT deadline: its handler had not ended by the timeout."
    ]


def test_a_handler_of_an_event_that_ends_with_its_agent_is_no_failure(
    bus: TestRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    ref = bus.start(Late)
    bus.publish("late.asleep", timeout=50.0).result()
    bus.advance(1.0)
    ref.stop()
    bus.advance(5.0)

    assert told(caplog) == []


def test_what_is_delegated_later_and_fails_is_told(bus: TestRuntime, caplog: pytest.LogCaptureFixture) -> None:
    ref = bus.start(Patient)
    agent = bus.node.agent_host.cell(ref.name).agent
    assert agent is not None
    agent.bus.after(0.5, "patient.nite", {"text": "a"})
    agent.bus.after(0.5, "patient.note", {"txt": "a"})
    agent.bus.after(0.5, "patient.note", {"text": "a"})
    bus.advance(5.0)

    capability_, params = told(caplog)
    assert capability_.startswith("patient: patient.nite (after 0.5 s) ended REJECTED_CAPABILITY no_holder: ")
    assert params.startswith("patient: patient.note (after 0.5 s) ended REJECTED_CONTEXT misfit: ")


@pytest.mark.parametrize(
    ("arguments", "options", "kind", "said"),
    [
        ((Patient.note,), {}, UsageError, "after(0.1, …): the capability's name, as in 'report.note'; this is a function."),
        (("patient note",), {}, InvalidEnvelope, "capability: 'patient note' does not fit"),
        (("patient.note", {"text": object()}), {}, Unserialisable, "object"),
        (("patient.note", {"text": "a" * (1 << 20)}), {}, PayloadTooLarge, "1,048,576"),
        (("patient.note",), {"to": "a b"}, InvalidEnvelope, "to_agent: 'a b' does not fit"),
        (("patient.note",), {"timeout": -1}, InvalidEnvelope, "timeout"),
        (("patient.note",), {"retry": 3}, UsageError, "retry=3: a policy"),
    ],
)  # fmt: skip
def test_what_cannot_be_delegated_later_is_refused_at_once(
    bus: TestRuntime, arguments: Any, options: dict[str, Any], kind: type[Exception], said: str
) -> None:
    agent = bus.node.agent_host.cell(bus.start(Patient).name).agent
    assert agent is not None

    with pytest.raises(kind) as caught:
        agent.bus.after(0.1, *arguments, **options)
    assert said in str(caught.value)
    agent.bus.after(0.1, "patient.note", {"text": "a"}, retry=Retry(), timeout=5.0, context={"a": 1})  # which is well


def test_what_is_just_too_large_is_refused_at_once_and_nothing_else(
    bus: TestRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    (ref,) = bus.start_many(Patient, 1, name="n" * 60)
    agent = bus.node.agent_host.cell(ref.name).agent
    assert agent is not None
    refused = []
    for size in range((1 << 20) - 400, 1 << 20, 10):
        try:
            agent.bus.after(0.0, "nobody.does", {"text": "a" * size})
        except PayloadTooLarge:
            refused.append(size)
    bus.advance(1.0)

    assert 0 < len(refused) < 40
    assert not any("is not made" in record.getMessage() for record in caplog.records)


def test_what_is_cut_short_or_cancelled_is_no_failure(bus: TestRuntime, caplog: pytest.LogCaptureFixture) -> None:
    agent = bus.node.agent_host.cell(bus.start(Patient).name).agent
    assert agent is not None
    later = agent.bus.after(1.0, "patient.wait")
    bus.advance(3.0)
    assert later.handle is not None
    later.cancel()
    bus.advance(3.0)

    assert later.handle.outcome().status is Status.CANCELLED
    assert told(caplog) == []


class Asking(Agent):
    """Delegates to a `Patient`, and forgets it or not."""

    @capability("asking.forgets")
    def forgets(self, task: Task) -> str:
        task.delegate("patient.wait")
        return "done"

    @capability("asking.raises")
    def raises(self, task: Task) -> str:
        task.delegate("patient.wait")
        raise ValueError("no")

    @capability("asking.cancels")
    def cancels(self, task: Task) -> str:
        task.delegate("patient.wait").cancel()
        return "done"

    @capability("asking.looks")
    async def looks(self, task: Task) -> str:
        await task.delegate("patient.note", {"text": "x"})
        task.delegate("patient.wait").add_done_callback(print)
        return "done"


def test_a_sub_delegation_that_a_handler_forgets_to_await_is_told(
    bus: TestRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    bus.start(Patient)
    bus.start(Asking)
    caplog.clear()
    assert bus.delegate("asking.looks").result().ok
    assert bus.delegate("asking.raises").result().status is Status.FAILED_EXECUTION
    assert told(caplog) == []

    assert bus.delegate("asking.forgets").result().ok

    (message,) = told(caplog)
    assert message.startswith(
        "asking: the handler of asking.forgets returned before patient.wait had ended, which is cancelled"
    )


def test_of_a_failure_as_much_is_logged_as_somebody_can_read(caplog: pytest.LogCaptureFixture) -> None:
    unwatched = UnwatchedFailures(SessionState(), lambda: 0.0)
    error = ErrorInfo(code="x", message="m" * 100_000, traceback=f"first {'t' * 900_000} last")
    with caplog.at_level(logging.WARNING, "ether"):
        unwatched.tell("job", "job.tick", FAILED.model_copy(update={"error": error}))
    (record,) = caplog.records
    assert len(record.getMessage()) < 10_000
    assert record.getMessage().endswith(" last")


def test_a_sub_delegation_that_a_handler_cancels_is_not_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "ether"), Runtime() as bus:
        bus.start(Patient)
        bus.start(Asking)
        assert bus.delegate("asking.cancels").result(10).ok

    assert told(caplog) == []


def test_without_logging_it_is_a_warning_on_stderr() -> None:
    program = """
from ether import Agent, capability, every
from ether.testing import TestRuntime

class Broken(Agent):
    @every(1.0)
    @capability("broken.tick")
    def tick(self):
        raise ValueError("tick broke")

with TestRuntime() as bus:
    bus.start(Broken)
    bus.advance(10.0)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ran.stderr.count("RuntimeWarning: broken: broken.tick (every 1 s) ended FAILED_EXECUTION") == 1
    assert "in tick" in ran.stderr
