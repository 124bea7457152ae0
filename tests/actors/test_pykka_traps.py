"""What pykka does not do for us: each trap that was measured on pykka 4.5 has a test that holds it shut."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pykka
import pytest

from ether import Agent, AgentCrash, Closed, Runtime, Status, Task, UsageError, capability
from ether_actors.inbox import Inbox
from ether_broker.errors import MailboxFull
from tests.support import wait_until


class Echo(Agent):
    """Answers, and fails in every way that is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Any] = []

    def on_receive(self, message: Any) -> Any:
        if isinstance(message, BaseException):
            raise message
        self.told.append(message)
        return message

    @capability("echo.say")
    def say(self, text: str) -> str:
        return text

    @capability("echo.fail")
    def fail(self, kind: str) -> None:
        raise {"value": ValueError, "exit": SystemExit, "interrupt": KeyboardInterrupt, "quit": GeneratorExit}[kind]

    @capability("echo.cancel")
    async def cancel(self) -> None:
        raise asyncio.CancelledError


@pytest.fixture(name="bus")
def _bus() -> Iterator[Runtime]:
    with Runtime(drain=0.5) as bus:
        bus.start(Echo)
        yield bus


def ref_of(bus: Runtime, name: str = "echo") -> pykka.ActorRef[Any]:
    agent = bus.node._cells[name.encode()].agent
    assert agent is not None
    return agent.actor_ref


def says(bus: Runtime, text: str) -> bool:
    return bool(bus.delegate("echo.say", {"text": text}, timeout=10).result(10).data == text)


def test_trap_1_an_exception_in_a_told_message_does_not_stop_the_agent(bus: Runtime) -> None:
    ref = ref_of(bus)

    ref.tell(ValueError("told"))
    with pytest.raises(ValueError, match="asked"):
        ref.ask(ValueError("asked"), timeout=5)

    assert ref.ask("still here", timeout=5) == "still here"
    assert says(bus, "alive")


@pytest.mark.parametrize("kind", ["exit", "interrupt", "quit"])
def test_trap_2_a_base_exception_in_a_handler_stops_no_other_actor(bus: Runtime, kind: str) -> None:
    class Bystander(pykka.ThreadingActor):
        def on_receive(self, message: Any) -> Any:
            return message

    bystander = Bystander.start()
    other = bus.start(Echo, name="other")
    try:
        outcome = bus.delegate("echo.fail", {"kind": kind}, to="echo", timeout=10).result(10)

        assert outcome.status is Status.FAILED_EXECUTION
        assert bystander.ask("alive", timeout=5) == "alive"
        assert other.delegate("echo.say", {"text": "x"}).result(10).data == "x"
        assert says(bus, "restarted")
    finally:
        bystander.stop()


def test_trap_2_a_cancelled_error_in_a_handler_is_a_failure_and_no_more(bus: Runtime) -> None:
    assert bus.delegate("echo.cancel", timeout=10).result(10).status is Status.FAILED_EXECUTION
    assert says(bus, "alive")


def test_trap_2_pykkas_stop_all_does_not_reach_the_bus(bus: Runtime) -> None:
    pykka.ActorRegistry.stop_all(timeout=5)

    assert says(bus, "alive")


def test_trap_3_nothing_enters_an_inbox_after_its_actors_last_look() -> None:
    inbox = Inbox()
    inbox.start(lambda: None)
    inbox.put("before")

    assert inbox.close() == ["before"]
    with pytest.raises(Closed):
        inbox.put("after")
    inbox.put_system("after")
    assert len(inbox) == 0


def test_trap_3_an_ask_that_a_stop_overtakes_is_answered(bus: Runtime) -> None:
    ref = ref_of(bus)
    futures = []

    def ask() -> None:
        for number in range(200):
            try:
                futures.append(ref.ask(number, block=False))
            except Closed:
                return

    asking = threading.Thread(target=ask)
    asking.start()
    bus.stop("echo")
    asking.join(10)

    for future in futures:
        try:
            future.get(timeout=5)
        except pykka.ActorDeadError:
            continue


def test_trap_4_a_handler_past_its_deadline_does_not_hold_up_the_next_message_for_ever() -> None:
    released = threading.Event()

    class Sleeper(Agent):
        hang_limit = 0.1

        @capability("sleep")
        def sleep(self, task: Task) -> None:
            released.wait(30)

        @capability("wake")
        def wake(self) -> str:
            return "awake"

    with Runtime(drain=0.2) as bus:
        bus.start(Sleeper)
        asleep = bus.delegate("sleep", timeout=0.1)
        after = bus.delegate("wake", timeout=20)

        assert asleep.result(10).status is Status.TIMEOUT
        assert after.result(20).data == "awake"
        released.set()


def test_trap_5_a_failing_on_start_fails_the_start() -> None:
    class Broken(Agent):
        def on_start(self) -> None:
            raise SystemExit(4)

    with Runtime() as bus:
        with pytest.raises(SystemExit):
            bus.start(Broken)
        assert bus.agents() == []


def test_trap_6_a_crashed_agent_is_restarted_and_its_monitors_are_told(bus: Runtime) -> None:
    monitor = bus.monitor("echo")
    before = ref_of(bus)

    bus.delegate("echo.fail", {"kind": "exit"}, timeout=10).result(10)

    assert monitor.wait(10)
    assert says(bus, "restarted")
    assert not before.is_alive()
    assert ref_of(bus).is_alive()


def test_trap_7_an_inbox_is_bounded_and_refuses_rather_than_blocks() -> None:
    inbox = Inbox(limit=2)
    inbox.put(1)
    inbox.put(2)

    with pytest.raises(MailboxFull):
        inbox.put(3)


def test_trap_8_what_travels_cannot_be_changed_by_either_end(bus: Runtime) -> None:
    params = {"text": "as sent"}
    handle = bus.delegate("echo.say", params)
    params["text"] = "changed"

    response = handle.result(10)
    assert response.data == "as sent"
    with pytest.raises(TypeError):
        handle.delegation.params["text"] = "changed"


def test_trap_9_waiting_in_the_event_loop_is_refused_and_awaiting_does_not_stop_it() -> None:
    class Waiter(Agent):
        max_concurrency = 2

        @capability("wait.wrongly")
        async def wrongly(self, task: Task) -> None:
            task.delegate("echo.say", {"text": "x"}).result()

        @capability("wait.rightly")
        async def rightly(self, task: Task) -> int:
            ticks = 0

            async def tick() -> None:
                nonlocal ticks
                while True:
                    ticks += 1
                    await asyncio.sleep(0)

            ticking = asyncio.create_task(tick())
            await task.delegate("echo.say", {"text": "x"})
            ticking.cancel()
            return ticks

    with Runtime(drain=0.5) as bus:
        bus.start(Echo)
        bus.start(Waiter)
        wrong = bus.delegate("wait.wrongly", timeout=10).result(10)
        assert wrong.error is not None
        assert wrong.error.code == UsageError.code
        assert bus.delegate("wait.rightly", timeout=10).result(10).data > 0


# -- waiting for each other --------------------------------------------------------------------------------------


class Link(Agent):
    """Waits for the next of a chain of agents."""

    @capability("chain.pull")
    def pull(self, left: int, task: Task) -> int:
        if left == 0:
            return 0
        response = task.delegate("chain.pull", {"left": left - 1}, to=f"link-{left - 1}").result()
        return int(response.unwrap().data) + 1


def test_a_hundred_nested_waits_on_a_pool_of_four_finish() -> None:
    with Runtime(threads=4, drain=0.5) as bus:
        for number in range(101):
            bus.start(Link, name=f"link-{number}")

        assert bus.delegate("chain.pull", {"left": 100}, to="link-100", timeout=60).result(60).unwrap().data == 100
        wait_until(lambda: bus.node.pool.threads <= 5, 10, "the spare threads have gone")


def test_a_call_cycle_is_answered_at_once_by_its_name() -> None:
    class Ann(Agent):
        @capability("ann.ask")
        def ask(self, task: Task) -> Any:
            return task.respond(data=task.delegate("bob.ask").result().data)

    class Bob(Agent):
        @capability("bob.ask")
        def ask(self, task: Task) -> Any:
            return task.respond(data=task.delegate("ann.ask").result().explain())

    with Runtime(drain=0.5) as bus:
        bus.start(Ann)
        bus.start(Bob)
        handle = bus.delegate("ann.ask", timeout=60)

        told = handle.result(10).data

        assert "call_cycle" in told
        assert f"{bus.name} → ann → bob → ann is a cycle" in told


def test_an_agent_with_room_for_it_may_call_itself() -> None:
    class Counter(Agent):
        max_concurrency = 3

        @capability("count.down")
        async def down(self, left: int, task: Task) -> str:
            if left == 0:
                return "done"
            response = await task.delegate("count.down", {"left": left - 1})
            return str(response.data) if response.ok else response.explain()

    with Runtime(drain=0.5) as bus:
        bus.start(Counter)
        assert bus.delegate("count.down", {"left": 2}, timeout=10).result(10).data == "done"
        assert "call_cycle" in bus.delegate("count.down", {"left": 3}, timeout=10).result(10).data


def test_a_crash_keeps_what_waits_in_the_mailbox() -> None:
    entered, go_on = threading.Event(), threading.Event()

    class Fragile(Agent):
        @capability("fragile.crash")
        def crash(self) -> None:
            entered.set()
            go_on.wait(10)
            msg = "broken"
            raise AgentCrash(msg)

        @capability("fragile.work")
        def work(self, number: int) -> int:
            return number

    with Runtime(drain=0.5) as bus:
        bus.start(Fragile)
        crashing = bus.delegate("fragile.crash", timeout=20)
        assert entered.wait(10)
        waiting = [bus.delegate("fragile.work", {"number": number}, timeout=20) for number in range(10)]
        go_on.set()

        assert crashing.result(10).error.code == "agent_crash"  # type: ignore[union-attr]
        assert [handle.result(10).data for handle in waiting] == list(range(10))


def test_a_context_that_is_not_the_one_that_was_sealed_is_refused(bus: Runtime) -> None:
    good = bus.delegate("echo.say", {"text": "x"}, context={"a": 1, "b": [2]})
    wrong = bus.delegate("echo.say", {"text": "x"}, context={"a": 1}, context_sha256=good.delegation.context_sha256)

    assert good.result(10).status is Status.COMPLETED
    assert wrong.result(10).status is Status.REJECTED_CONTEXT
    assert wrong.result(10).required_fields == ("context_slice",)
