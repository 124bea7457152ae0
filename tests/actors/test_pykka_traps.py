"""What pykka does not do for its users, and the bus does. Real threads, real sockets."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterator

import pykka
import pytest

from ether import Agent, AgentCrash, AsyncAgent, Limits, MailboxFull, Runtime, Status, Task, as_completed, capability
from tests.support import wait_until

PATIENCE = 20.0
"""Seconds after which a test has failed; none of them takes a tenth of it."""


@pytest.fixture
def bus() -> Iterator[Runtime]:
    with Runtime(threads=4, drain=1.0) as opened:
        yield opened


class Counter(Agent):
    """Counts, and does whatever else a test needs."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def on_receive(self, message):
        if isinstance(message, BaseException):
            raise message
        return message

    @capability("count.up")
    def up(self) -> int:
        self.count += 1
        return self.count

    @capability("count.fail")
    def fail(self, how: str) -> None:
        raise {
            "exception": ValueError("no luck"),
            "exit": SystemExit(3),
            "interrupt": KeyboardInterrupt(),
            "cancelled": asyncio.CancelledError(),
            "crash": AgentCrash("broken"),
        }[how]

    @capability("count.fail_async")
    async def fail_async(self, how: str) -> None:
        self.fail(how)


class Plain(pykka.ThreadingActor):
    """Somebody else's actor in the same process."""

    def on_receive(self, message):
        return message


def ref_of(bus: Runtime, name: str) -> pykka.ActorRef:
    agent = bus.node.agent_host.cell(name).agent
    assert agent is not None
    return agent.actor_ref


def test_an_exception_in_a_told_message_is_logged_and_the_agent_lives(bus: Runtime, caplog):
    name = bus.start(Counter).name
    ref = ref_of(bus, name)

    with caplog.at_level(logging.ERROR, "ether.agent"):
        ref.tell(ValueError("told"))
        with pytest.raises(ValueError, match="asked"):
            ref.ask(ValueError("asked"), timeout=PATIENCE)

    assert "ValueError: told" in caplog.text
    assert ref.is_alive()
    assert bus.delegate("count.up").result(PATIENCE).data == 1


@pytest.mark.parametrize("name", ["count.fail", "count.fail_async"])
@pytest.mark.parametrize("how", ["exit", "interrupt", "cancelled"])
def test_a_base_exception_in_a_handler_stops_no_other_actor_of_the_process(bus: Runtime, name: str, how: str):
    plain = Plain.start()
    try:
        bus.start(Counter, name="failing")
        bus.start(Counter, name="other")
        bus.delegate("count.up", to="other").result(PATIENCE)

        response = bus.delegate(name, {"how": how}, to="failing").result(PATIENCE)

        assert response.status is Status.FAILED_EXECUTION
        assert plain.ask("still here", timeout=PATIENCE) == "still here"
        assert bus.delegate("count.up", to="other").result(PATIENCE).data == 2
        assert bus.delegate("count.up", to="failing").result(PATIENCE).ok
    finally:
        plain.stop()


def test_a_base_exception_in_a_told_message_stops_no_other_actor_of_the_process(bus: Runtime):
    plain = Plain.start()
    try:
        bus.start(Counter, name="failing")
        ref_of(bus, "failing").tell(SystemExit(3))

        assert bus.delegate("count.up", to="failing").result(PATIENCE).ok
        assert plain.is_alive()
    finally:
        plain.stop()


def test_pykkas_stop_all_does_not_reach_the_bus(bus: Runtime):
    bus.start(Counter)

    pykka.ActorRegistry.stop_all(timeout=PATIENCE)

    assert bus.delegate("count.up").result(PATIENCE).ok


def test_no_ask_and_no_delegation_is_left_without_an_answer_when_its_actor_stops(bus: Runtime):
    for turn in range(20):
        agent = bus.start(Counter, name=f"short-lived-{turn}")
        ref = ref_of(bus, agent.name)
        answers: list[str] = []
        go = threading.Barrier(4)

        def ask(ref=ref, go=go, answers=answers) -> None:
            go.wait(PATIENCE)
            for _ in range(50):
                try:
                    ref.ask("hello", timeout=PATIENCE)
                    answers.append("answered")
                except pykka.ActorDeadError:
                    answers.append("dead")

        def delegate(agent=agent, go=go, answers=answers) -> None:
            go.wait(PATIENCE)
            for handle in [agent.delegate("count.up") for _ in range(50)]:
                answers.append(handle.result(PATIENCE).status.name)

        threads = [threading.Thread(target=target) for target in (ask, ask, delegate)]
        for thread in threads:
            thread.start()
        go.wait(PATIENCE)
        agent.stop()
        for thread in threads:
            thread.join(PATIENCE)

        assert len(answers) == 150
        assert set(answers) <= {"answered", "dead", "COMPLETED", "REJECTED_CAPABILITY", "FAILED_EXECUTION"}


def test_a_handler_is_told_that_its_delegation_timed_out_and_the_next_message_is_served(bus: Runtime):
    class Patient(Agent):
        @capability("wait.for_it")
        def wait(self, task: Task) -> None:
            while not task.cancelled:
                time.sleep(0.001)  # a handler at work, not a test that hopes

        @capability("wait.not")
        def serve(self) -> str:
            return "served"

    bus.start(Patient)
    late = bus.delegate("wait.for_it", timeout=0.2)
    after = bus.delegate("wait.not", timeout=PATIENCE)

    assert late.result(PATIENCE).status is Status.TIMEOUT
    assert after.result(PATIENCE).data == "served"


def test_a_handler_that_hangs_holds_up_neither_its_delegator_nor_other_agents(bus: Runtime):
    release = threading.Event()

    class Stuck(Agent):
        @capability("stuck")
        def hang(self) -> None:
            release.wait(PATIENCE)

    try:
        bus.start_many(Stuck, 8)
        bus.start(Counter)
        stuck = [bus.delegate("stuck", timeout=0.2) for _ in range(8)]

        assert {handle.result(PATIENCE).status for handle in stuck} == {Status.TIMEOUT}
        assert bus.delegate("count.up", timeout=PATIENCE).result(PATIENCE).ok
    finally:
        release.set()


def test_a_handler_that_hangs_is_given_up_and_its_agent_made_anew():
    release = threading.Event()

    class Stuck(Agent):
        hang_limit = 0.1

        @capability("stuck")
        def hang(self) -> None:
            release.wait(PATIENCE)

        @capability("serve")
        def serve(self) -> str:
            return "served"

    with Runtime(drain=0.2) as bus:
        bus.start(Stuck)
        stuck = bus.delegate("stuck", timeout=0.1)
        after = bus.delegate("serve", timeout=PATIENCE)

        assert stuck.result(PATIENCE).status is Status.TIMEOUT
        assert after.result(PATIENCE).data == "served"
        release.set()


@pytest.mark.parametrize("where", ["__init__", "on_start"])
@pytest.mark.parametrize("error", [ValueError("no luck"), SystemExit(3)])
def test_an_agent_that_cannot_start_raises_where_it_is_started_and_leaves_nothing(
    bus: Runtime, where: str, error: BaseException
):
    def fail(self) -> None:
        if where == "__init__":
            Agent.__init__(self)
        raise error

    with pytest.raises(type(error)):
        bus.start(type("Broken", (Agent,), {where: fail}), name="it")

    bus.start(Counter, name="it")
    assert bus.delegate("count.up", to="it").result(PATIENCE).ok


def test_agents_are_restarted_and_watched_and_are_not_in_pykkas_list(bus: Runtime):
    before = len(pykka.ActorRegistry.get_all())
    bus.start_many(Counter, 200)
    assert len(pykka.ActorRegistry.get_all()) == before

    watch = bus.monitor("counter")
    assert bus.delegate("count.up", to="counter").result(PATIENCE).data == 1
    crash = bus.delegate("count.fail", {"how": "crash"}, to="counter").result(PATIENCE)

    assert crash.status is Status.FAILED_EXECUTION
    assert watch.wait(PATIENCE)
    assert "AgentCrash" in watch.reason
    assert bus.delegate("count.up", to="counter").result(PATIENCE).data == 1  # a new one


def test_a_full_mailbox_refuses_and_says_when_to_try_again():
    release = threading.Event()

    class Slow(Agent):
        @capability("slow")
        def slow(self) -> None:
            release.wait(PATIENCE)

    with Runtime(limits=Limits(mailbox_count=5, window=2)) as bus:
        bus.start(Slow)
        handles = [bus.delegate("slow") for _ in range(20)]
        refused = [handle for handle in handles[7:] if handle.result(PATIENCE)]
        release.set()

        assert {handle.result().status for handle in refused} == {Status.REJECTED_OVERLOAD}
        assert all(handle.result().retry_after > 0 for handle in refused)
        assert [handle.result(PATIENCE).ok for handle in handles[:7]] == [True] * 7


def test_a_full_inbox_at_the_node_refuses_too(bus: Runtime):
    release = threading.Event()

    class Small(Agent):
        inbox_limit = 2

        @capability("small")
        def small(self) -> None:
            release.wait(PATIENCE)

    bus.start(Small)
    handles = [bus.delegate("small") for _ in range(10)]
    statuses: list[Status] = []
    for handle in as_completed(handles, timeout=PATIENCE):
        statuses.append(handle.result().status)
        if len(statuses) == 7:
            release.set()

    assert statuses.count(Status.REJECTED_OVERLOAD) >= 7
    assert Status.COMPLETED in statuses


def test_agents_that_flood_each_other_are_refused_and_never_wait_for_room(bus: Runtime):
    class Talker(Agent):
        inbox_limit = 3

        def on_receive(self, message):
            other, told = message
            try:
                while True:
                    other.tell("chatter")
            except MailboxFull:
                told.release()
                assert proceed.wait(PATIENCE)

    proceed = threading.Event()
    told = threading.Semaphore(0)
    for name in "ab":
        bus.start(Talker, name=name)
    ann, bob = ref_of(bus, "a"), ref_of(bus, "b")
    ann.tell((bob, told))
    bob.tell((ann, told))

    assert told.acquire(timeout=PATIENCE)
    assert told.acquire(timeout=PATIENCE)
    proceed.set()


def test_nobody_sees_what_another_does_to_a_message(bus: Runtime):
    class Vandal(Agent):
        @capability("vandalise")
        def vandalise(self, params: dict) -> dict:
            params["items"].append("handler was here")
            return params

    bus.start(Vandal)
    params = {"items": ["mine"]}
    handle = bus.delegate("vandalise", params)
    params["items"].append("delegator was here")
    response = handle.result(PATIENCE)

    assert response.data == {"items": ["mine", "handler was here"]}
    assert handle.delegation.params == {"items": ["mine"]}
    with pytest.raises(TypeError, match="does not change"):
        response.data["items"].append("again")
    with pytest.raises(TypeError, match="does not change"):
        handle.delegation.params["items"].append("again")


def test_awaiting_lets_the_event_loop_turn(bus: Runtime):
    release = threading.Event()

    class Slow(Agent):
        @capability("slow")
        def slow(self) -> str:
            assert release.wait(PATIENCE)
            return "done"

    bus.start(Slow)

    async def main() -> tuple[int, str]:
        handle = bus.delegate("slow")
        waiting = asyncio.ensure_future(_await(handle))
        ticks = 0
        while ticks < 100:
            await asyncio.sleep(0)
            ticks += 1
        release.set()
        return ticks, (await waiting).data

    assert asyncio.run(asyncio.wait_for(main(), PATIENCE)) == (100, "done")


async def _await(handle):
    return await handle


def test_waiting_in_the_nodes_event_loop_is_refused_instead_of_stopping_it(bus: Runtime):
    class Blocking(AsyncAgent):
        @capability("block.async")
        async def asynchronous(self, task: Task) -> None:
            task.delegate("count.up").result()

        @capability("block.plain")
        def plain(self, task: Task) -> None:
            task.delegate("count.up").result()

    bus.start(Blocking)
    bus.start(Counter)

    for name in ("block.async", "block.plain"):
        response = bus.delegate(name).result(PATIENCE)
        assert (response.status, response.error.code) == (Status.FAILED_EXECUTION, "usage")
        assert "`await` the handle" in response.error.message


def test_an_async_handler_is_cancelled_and_the_loop_serves_the_next(bus: Runtime):
    began = threading.Event()
    ended = threading.Event()

    class Sleeper(Agent):
        @capability("sleep")
        async def sleep(self) -> None:
            began.set()
            try:
                await asyncio.sleep(PATIENCE)
            finally:
                ended.set()

        @capability("wake")
        async def wake(self) -> str:
            return "awake"

    bus.start(Sleeper)
    handle = bus.delegate("sleep")
    assert began.wait(PATIENCE)
    handle.cancel()

    assert handle.result(PATIENCE).status is Status.CANCELLED
    assert ended.wait(PATIENCE)
    assert bus.delegate("wake").result(PATIENCE).data == "awake"


def test_cancelling_at_once_leaves_no_async_handler_behind(bus: Runtime):
    class Sleeper(Agent):
        @capability("sleep")
        async def sleep(self) -> None:
            await asyncio.sleep(PATIENCE)

        @capability("wake")
        async def wake(self) -> str:
            return "awake"

    bus.start(Sleeper)
    for _ in range(200):
        handle = bus.delegate("sleep")
        handle.cancel()
        assert handle.result(PATIENCE).status is Status.CANCELLED

    assert bus.delegate("wake", timeout=PATIENCE).result(PATIENCE).data == "awake"


# -- waiting for each other --------------------------------------------------------------------------------------


class Nest(Agent):
    """Waits for a nest within the nest, down to the ground."""

    max_concurrency = 200

    @capability("nest")
    def nest(self, depth: int, task: Task) -> int:
        if depth == 0:
            return 0
        return 1 + task.delegate("nest", {"depth": depth - 1}).result().unwrap().data


def test_a_hundred_nested_waits_end_on_a_pool_of_four(bus: Runtime):
    bus.start(Nest)

    assert bus.delegate("nest", {"depth": 100}, timeout=PATIENCE).result(PATIENCE).data == 100
    wait_until(
        lambda: bus.node.resources.pool.threads <= 5, what="the threads that stood in for those that waited have gone"
    )


def test_a_call_cycle_is_answered_at_once_and_named(bus: Runtime):
    class Ann(Agent):
        @capability("ann")
        def ask(self, task: Task):
            return task.delegate("bob", timeout=PATIENCE).result().unwrap().data

    class Bob(Agent):
        @capability("bob")
        def ask(self, task: Task):
            return task.delegate("ann", timeout=PATIENCE).result().explain()

    bus.start(Ann)
    bus.start(Bob)
    began = time.monotonic()

    response = bus.delegate("ann", timeout=PATIENCE).result(PATIENCE)

    assert "call_cycle" in response.data
    assert f"{bus.name} → ann → bob → ann is a cycle" in response.data
    assert time.monotonic() - began < PATIENCE / 2


def test_an_agent_with_room_for_it_may_call_itself(bus: Runtime):
    class Few(Agent):
        max_concurrency = 3

        @capability("down")
        async def down(self, left: int, task: Task) -> str:
            if left == 0:
                return "done"
            response = await task.delegate("down", {"left": left - 1})
            return response.data if response.ok else response.error.code

    bus.start(Few)

    assert bus.delegate("down", {"left": 2}).result(PATIENCE).data == "done"
    assert bus.delegate("down", {"left": 3}).result(PATIENCE).data == "call_cycle"


def test_an_agent_that_waits_for_itself_is_answered_at_once(bus: Runtime):
    class Alone(Agent):
        @capability("alone")
        def ask(self, task: Task):
            return task.delegate("alone", timeout=PATIENCE).result().error.code

    bus.start(Alone)

    assert bus.delegate("alone", timeout=PATIENCE).result(PATIENCE).data == "call_cycle"


def test_the_context_of_a_sub_delegation_is_sealed_too(bus: Runtime) -> None:
    class Teller(Agent):
        @capability("teller.digest")
        def digest(self, task: Task) -> str | None:
            return task.delegation.context_sha256

    class Asker(Agent):
        @capability("asker.ask")
        def ask(self, task: Task) -> str | None:
            return task.delegate("teller.digest", context={"a": 1}).result().unwrap().data

    bus.start(Teller)
    bus.start(Asker)

    assert bus.delegate("asker.ask", timeout=10).result(10).unwrap().data.startswith("sha256:")
