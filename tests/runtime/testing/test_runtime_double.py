"""The double of the runtime: what it promises beyond what `Runtime` does."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import ether
from ether.testing import ManualClock, Probe, Stalled, TestRuntime
from ether_actors.agent.agent import Agent
from ether_actors.agent.declarations.capability import capability
from ether_actors.backoff import Backoff
from ether_actors.delegator.completions import as_completed
from ether_actors.delegator.retry import Retry
from ether_actors.observers.observer import Observation, Observer
from ether_actors.restarts.supervisor_spec import ChildSpec, Strategy, SupervisorSpec
from ether_actors.task.task import Task
from ether_broker.envelope.status import Status
from ether_broker.errors import AgentCrash, Closed, NodeRefused, UsageError, WaitTimeout
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.wire.frame import Kind


class Sleeper(Agent):
    """Sleeps, waits for another that sleeps, or crashes."""

    max_concurrency = 200

    @capability("nap", idempotent=True)
    async def nap(self, seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    @capability("wait")
    def wait(self, seconds: float, task: Task) -> float:
        return task.delegate("nap", {"seconds": seconds}).result().unwrap().data

    @capability("nest")
    def nest(self, depth: int, task: Task) -> int:
        return 0 if depth == 0 else 1 + task.delegate("nest", {"depth": depth - 1}).result().unwrap().data

    @capability("crash")
    def crash(self) -> None:
        raise AgentCrash("broken")

    @capability("where")
    def where(self, task: Task) -> str:
        return task.agent


# -- moving ------------------------------------------------------------------------------------------------------


def test_nothing_happens_before_it_is_told_to():
    ran: list[str] = []

    class Note(Agent):
        @capability("note")
        def note(self) -> None:
            ran.append("now")

    with TestRuntime() as bus:
        bus.start(Note)
        handle = bus.delegate("note")
        assert (ran, handle.done) == ([], False)

        bus.run()

        assert (ran, handle.done) == (["now"], True)


def test_waiting_runs_the_bus():
    with TestRuntime() as bus:
        bus.start(Sleeper)

        assert bus.delegate("nap", {"seconds": 0.0}).result().data == 0.0


def test_time_moves_only_when_it_is_told_to():
    with TestRuntime() as bus:
        bus.start(Sleeper)
        handle = bus.delegate("nap", {"seconds": 3600.0}, timeout=7200)
        began = bus.clock.monotonic()

        bus.advance(3599.0)
        assert not handle.done
        bus.advance(1.0)

        assert handle.result().data == 3600.0
        assert bus.clock.monotonic() == began + 3600.0


def test_waiting_for_what_cannot_come_says_what_is_under_way_instead_of_hanging():
    with TestRuntime() as bus:
        bus.start(Sleeper)
        handle = bus.delegate("nap", {"seconds": 5.0}, timeout=9.0)

        with pytest.raises(
            Stalled, match=r"bus\.advance\(seconds\); docs/test(.|\n)*nap at sleeper: SENT, deadline in 9 s"
        ):
            handle.result()
        with pytest.raises(WaitTimeout):
            handle.result(timeout=30.0)
        bus.advance(5.0)

        assert handle.result().ok


def test_what_waits_for_its_next_attempt_is_named():
    with TestRuntime() as bus:
        bus.start(Sleeper)
        retry = Retry(on={"agent_crash"}, backoff=Backoff(initial=5.0, jitter=0.0))
        handle = bus.delegate("crash", retry=retry, timeout=60.0)

        with pytest.raises(Stalled, match=rf"Under way:\n  crash \({handle.id}\), which waits for "
                           r"attempt 2 of 3, due in 5 s$"):  # fmt: skip
            handle.result()
        bus.advance(5.5)
        with pytest.raises(Stalled, match=r"attempt 3 of 3, due in 9\.\d* s$"):
            handle.result()
        handle.cancel()
        with pytest.raises(Stalled, match=r"Under way:\n  nap at sleeper: SENT, deadline in 60 s$"):
            bus.delegate("nap", {"seconds": 40.0}).result()


@pytest.mark.parametrize("wait", [lambda handle: list(handle.stream()), lambda handle: list(as_completed([handle]))])
def test_every_way_to_wait_raises_instead_of_hanging(wait: Any):
    with TestRuntime() as bus:
        bus.start(Sleeper)

        with pytest.raises(Stalled):
            wait(bus.delegate("nap", {"seconds": 5.0}))


def test_a_monitor_and_an_observer_that_wait_do_not_hang():
    with TestRuntime() as bus:
        bus.start(Sleeper)
        watch = bus.monitor("sleeper")
        assert not watch.wait(1.0)
        with pytest.raises(Stalled):
            watch.wait()
        bus.delegate("crash").result()

        assert watch.wait()
        assert "AgentCrash" in watch.reason


def test_a_monitor_that_is_cancelled_does_not_fire_and_the_bus_forgets_it():
    with TestRuntime() as bus:
        bus.start(Sleeper)
        kept, cancelled = bus.monitor("sleeper"), bus.monitor("sleeper")
        cancelled.cancel()
        cancelled.cancel()
        bus.delegate("crash").result()

        assert kept.wait()
        assert not cancelled.wait(1.0)


def test_deadlines_fall_due_in_order():
    with TestRuntime() as bus:
        bus.start(Sleeper)
        handles = [bus.delegate("nap", {"seconds": 99.0}, timeout=timeout) for timeout in (3.0, 1.0, 2.0)]

        ended = []
        for _ in range(32):
            bus.advance(0.1)
            ended += [index for index, handle in enumerate(handles) if handle.done and index not in ended]

    assert ended == [1, 2, 0]


def test_two_runs_are_the_same_to_the_last_message():
    def story() -> list[str]:
        with TestRuntime() as bus:
            probe = bus.observe(Probe())
            bus.start_many(Sleeper, 3)
            for seconds in (3.0, 1.0, 2.0):
                bus.delegate("wait", {"seconds": seconds})
            bus.delegate("crash")
            bus.advance(10.0)
            lines = probe.sequence(where=lambda seen: True)
            return [
                f"{seen.time} {seen.request_id if seen.kind.name != 'EVENT' else ''}" for seen in probe.observations
            ] + lines

    assert story() == story()


def test_clocks_do_not_go_back_and_only_the_test_moves_the_bus():
    class Meddler(Agent):
        bus: TestRuntime

        @capability("meddle")
        def meddle(self) -> None:
            self.bus.advance(1.0)

    with TestRuntime() as bus:
        Meddler.bus = bus
        bus.start(Meddler)
        with pytest.raises(ValueError, match="does not go back"):
            bus.advance(-1.0)

        response = bus.delegate("meddle").result()

    assert response.error.code == UsageError.code
    assert "only the test moves it" in response.error.message


def test_a_bus_that_never_comes_to_rest_is_told_so(monkeypatch):
    monkeypatch.setattr("ether.testing.simulator.MOST_STEPS", 1_000)

    class Restless(Agent):
        bus: TestRuntime

        @capability("again")
        def again(self) -> None:
            self.bus.delegate("again")

    with TestRuntime() as bus:
        Restless.bus = bus
        bus.start(Restless)
        bus.delegate("again")

        with pytest.raises(Stalled, match="not at rest after"):
            bus.run()
        bus.kill()


# -- plain handlers that wait ------------------------------------------------------------------------------------


def test_a_plain_handler_that_waits_lets_the_others_go_on():
    with TestRuntime() as bus:
        bus.start(Sleeper)
        waiting = [bus.delegate("wait", {"seconds": seconds}) for seconds in (3.0, 1.0, 2.0)]
        bus.advance(1.5)

        assert [handle.done for handle in waiting] == [False, True, False]
        assert bus.delegate("where").result().data == "sleeper"
        bus.advance(2.0)
        assert [handle.result().data for handle in waiting] == [3.0, 1.0, 2.0]


def test_a_hundred_nested_waits_end():
    with TestRuntime() as bus:
        bus.start(Sleeper)

        assert bus.delegate("nest", {"depth": 100}).result().data == 100


def test_never_two_handlers_run_at_once():
    running = threading.Lock()

    class Alone(Agent):
        max_concurrency = 10

        @capability("alone")
        def alone(self, task: Task) -> None:
            assert running.acquire(blocking=False)
            try:
                sum(range(1000))
            finally:
                running.release()
            task.delegate("nap", {"seconds": 1.0}).result()

    with TestRuntime() as bus:
        bus.start(Alone)
        bus.start(Sleeper)
        handles = [bus.delegate("alone") for _ in range(10)]
        bus.advance(1.0)

        assert all(handle.result().ok for handle in handles)


def test_the_patience_of_a_handler_is_counted_by_the_buss_clock():
    class Impatient(Agent):
        @capability("impatient")
        def impatient(self, task: Task) -> str:
            try:
                task.delegate("nap", {"seconds": 30.0}).result(timeout=2.0)
            except WaitTimeout:
                return f"gave up after {task.elapsed:g} s"
            return "got it"

    with TestRuntime() as bus:
        bus.start(Impatient)
        bus.start(Sleeper)
        handle = bus.delegate("impatient")
        bus.advance(1.9)
        assert not handle.done
        bus.advance(0.2)

        assert handle.result().data == "gave up after 2 s"


def test_handlers_that_still_wait_when_the_bus_is_closed_end_with_it():
    ended: list[str] = []

    class Waiter(Agent):
        @capability("waiter")
        def waiter(self, task: Task) -> None:
            ended.append(task.delegate("nap", {"seconds": 30.0}).result().status.name)

    before = set(threading.enumerate())
    with TestRuntime() as bus:
        bus.start(Waiter)
        bus.start(Sleeper)
        handle = bus.delegate("waiter")
        bus.run()

    assert len(ended) == 1
    assert handle.result().status in (Status.CANCELLED, Status.FAILED_EXECUTION)
    assert set(threading.enumerate()) == before


# -- event loops -------------------------------------------------------------------------------------------------


def test_a_test_that_is_a_coroutine_may_await_gather_and_follow():
    async def main() -> tuple[Any, ...]:
        with TestRuntime() as bus:
            bus.start(Sleeper)
            one, two = await asyncio.gather(bus.delegate("where"), bus.delegate("nap", {"seconds": 0.0}))
            seen = [response.status async for response in bus.delegate("where").stream()]
            slow = bus.delegate("wait", {"seconds": 2.0})
            bus.advance(2.0)
            return one.data, two.data, seen, (await slow).data

    assert asyncio.run(main()) == ("sleeper", 0.0, [Status.COMPLETED], 2.0)


def test_awaiting_what_cannot_come_raises():
    async def main() -> None:
        with TestRuntime() as bus:
            bus.start(Sleeper)
            await bus.delegate("nap", {"seconds": 5.0})

    with pytest.raises(Stalled):
        asyncio.run(main())


def test_an_async_handler_follows_a_sub_delegation():
    class Follower(Agent):
        @capability("follow")
        async def follow(self, task: Task) -> list[str]:
            return [response.status.name async for response in task.delegate("nap", {"seconds": 1.2}).stream()]

    with TestRuntime() as bus:
        bus.start(Follower)
        bus.start(Sleeper)
        handle = bus.delegate("follow")
        bus.advance(2.5)

        assert handle.result().data == ["ACCEPTED", "COMPLETED"]


def test_calls_into_an_executor_run_at_once():
    class Worker(Agent):
        @capability("work")
        async def work(self) -> int:
            with pytest.raises(ZeroDivisionError):
                await asyncio.to_thread(lambda: 1 // 0)
            return await asyncio.to_thread(sum, [1, 2, 3])

    with TestRuntime() as bus:
        bus.start(Worker)

        assert bus.delegate("work").result().data == 6


def test_what_runs_in_an_executor_is_in_no_event_loop_and_may_wait_for_the_bus(tmp_path: Path):
    class Worker(Agent):
        @capability("in-thread")
        async def in_thread(self, file: ether.Artifact, task: Task) -> list[Any]:
            with pytest.raises(RuntimeError, match="no running event loop"):
                await asyncio.to_thread(asyncio.get_running_loop)
            opened = await asyncio.to_thread(file.open)
            with opened:
                text = opened.read().decode()
            slept = await asyncio.to_thread(lambda: task.delegate("nap", {"seconds": 2.0}).result().data)
            return [text, slept, await asyncio.to_thread(lambda: asyncio.run(asyncio.sleep(0, "apart")))]

    (tmp_path / "a.txt").write_text("content")
    with TestRuntime() as bus:
        bus.start(Worker)
        bus.start(Sleeper)
        handle = bus.delegate("in-thread", {"file": bus.artifact(tmp_path / "a.txt")})
        bus.advance(1.9)
        assert not handle.done
        bus.advance(0.1)

        assert handle.result().unwrap().data == ["content", 2.0, "apart"]


def test_a_call_in_an_executor_that_waits_ends_with_the_bus():
    ended: list[str] = []

    class Worker(Agent):
        @capability("work")
        async def work(self, task: Task) -> Any:
            def wait() -> None:
                try:
                    task.delegate("nap", {"seconds": 600.0}).result()
                finally:
                    ended.append("wait")

            return await asyncio.to_thread(wait)

    with TestRuntime() as bus:
        bus.start(Worker)
        bus.start(Sleeper)
        handle = bus.delegate("work", timeout=1.0)
        bus.advance(1.5)
        assert handle.result().status is Status.TIMEOUT

    assert ended == ["wait"]


def test_timeouts_of_asyncio_count_by_the_buss_clock():
    class Worker(Agent):
        @capability("work")
        async def work(self) -> str:
            try:
                async with asyncio.timeout(2.0):
                    await asyncio.Event().wait()
            except TimeoutError:
                return "timed out"
            return "woken"

    with TestRuntime() as bus:
        bus.start(Worker)
        handle = bus.delegate("work")
        bus.advance(1.9)
        assert not handle.done
        bus.advance(0.1)

        assert handle.result().data == "timed out"


# -- watching ----------------------------------------------------------------------------------------------------


def test_a_probe_sees_all_that_has_happened_when_it_is_asked():
    with TestRuntime() as bus:
        probe = bus.observe(Probe())
        bus.start(Sleeper)
        bus.delegate("where")

        assert probe.sequence() == ["test → sleeper: where", "sleeper → test: where COMPLETED"]
        came = probe.expect(where=lambda seen: seen.kind is Kind.EVENT and seen.event.get("agent") == "sleeper")
        assert came.event["event"] == "agent_up"
        probe.expect(status=Status.COMPLETED)
        with pytest.raises(AssertionError):
            probe.expect(status=Status.TIMEOUT)
    assert len(probe.responses) == 1


def test_an_observer_is_started_settled_and_stopped():
    class Watcher(Observer):
        def __init__(self) -> None:
            self.steps: list[str] = []

        def on_start(self) -> None:
            self.steps.append("start")

        def on_delegation(self, observation: Observation) -> None:
            self.steps.append(observation.capability)

        def on_stop(self) -> None:
            self.steps.append("stop")

    with TestRuntime() as bus:
        watcher = bus.observe(Watcher())
        bus.start(Sleeper)
        bus.delegate("where").result()
        assert bus.settle(watcher)
        assert "where" in watcher.steps
        bus.unobserve(watcher)
        bus.delegate("nap", {"seconds": 0.0}).result()

    assert watcher.steps[0] == "start"
    assert watcher.steps[-1] == "stop"
    assert "nap" not in watcher.steps


# -- several nodes -----------------------------------------------------------------------------------------------


def test_another_node_of_the_bus_takes_part():
    with TestRuntime() as bus, bus.join("other") as other:
        other.start(Sleeper)

        assert bus.delegate("where").result().data == "sleeper"
        assert [node["node"] for node in bus.nodes()] == ["other", "test"]
        with pytest.raises(NodeRefused):
            bus.join("other")


def test_work_of_a_killed_node_is_given_to_another_and_its_other_work_has_failed():
    with TestRuntime() as bus:
        other = bus.join("other")
        other.observe(Probe())
        other.start(Sleeper)
        twice = bus.delegate("nap", {"seconds": 3.0})
        once = bus.delegate("wait", {"seconds": 3.0})
        bus.run()
        bus.start(Sleeper, name="second")

        other.kill()
        bus.advance(1.1)

        assert once.result().error.code == "node_lost"
        bus.advance(3.0)
        assert (twice.result().status, twice.result().attempt, twice.result().from_agent) == (
            Status.COMPLETED,
            2,
            "second",
        )
        with pytest.raises(Closed):
            other.delegate("where")


def test_a_cut_wire_is_noticed_as_silence_and_mended():
    with TestRuntime() as bus, bus.join("other") as other:
        other.start(Sleeper)
        other.link.cut()
        handle = bus.delegate("where", timeout=60)
        bus.advance(4.0)
        assert handle.result().error.code == "node_lost"

        other.link.mend()
        bus.advance(4.0)

        assert bus.delegate("where").result().data == "sleeper"


def test_supervision_trees_restart_with_a_backoff_on_the_buss_clock():
    spec = SupervisorSpec(
        "tree",
        Strategy.ONE_FOR_ALL,
        intensity=5,
        backoff=Backoff(),
        children=(ChildSpec("one", Sleeper), ChildSpec("two", Sleeper)),
    )
    with TestRuntime() as bus:
        bus.supervise(spec)
        for _ in range(3):
            assert bus.delegate("crash", to="one").result().status is Status.FAILED_EXECUTION
            bus.advance(30.0)

        assert [bus.delegate("where", to=name).result().data for name in ("one", "two")] == ["one", "two"]


# -- the rest ----------------------------------------------------------------------------------------------------


def test_it_has_all_that_a_runtime_has():
    assert issubclass(TestRuntime, ether.Runtime)
    with pytest.raises(UsageError, match=r"bus\.join"):
        TestRuntime.connect("tcp://127.0.0.1:1")


def test_it_may_be_opened_again_and_not_twice():
    bus = TestRuntime(limits=Limits(mailbox_count=1, window=1))
    for _ in range(2):
        with bus:
            bus.start(Sleeper)
            assert bus.delegate("where").result().ok
            with pytest.raises(UsageError, match="open already"):
                bus.open()
    bus.close()
    with pytest.raises(Closed):
        bus.run()


def test_limits_hold():
    with TestRuntime(limits=Limits(mailbox_count=1, window=1)) as bus:
        bus.start(Sleeper)
        handles = [bus.delegate("nap", {"seconds": 1.0}) for _ in range(3)]
        bus.advance(3.0)

    assert [handle.result().status for handle in handles] == [
        Status.COMPLETED,
        Status.COMPLETED,
        Status.REJECTED_OVERLOAD,
    ]


def test_a_clock_may_be_shared():
    clock = ManualClock(5.0)
    with TestRuntime(clock=clock) as bus:
        bus.advance(1.0)

    assert clock.monotonic() == 6.0


def test_statistics_and_the_rest_of_what_the_bus_tells_of_itself_run_no_handler():
    with TestRuntime() as bus:
        bus.start(Sleeper)
        handle = bus.delegate("where")

        assert bus.statistics()["accepted"] == 1
        assert [agent["agent"] for agent in bus.agents()] == ["sleeper"]
        assert not handle.done


def test_patience_without_time_and_a_deadline_that_has_come_are_told_as_such():
    with TestRuntime() as bus:
        bus.start(Sleeper)
        handle = bus.delegate("nap", {"seconds": 100})
        with pytest.raises(WaitTimeout, match=r"the clock stands: bus\.advance\(seconds\) moves it"):
            handle.result(timeout=4)
        bus.advance(60)
        with pytest.raises(Stalled, match=r"its TIMEOUT comes within 0\.25 s, bus\.advance\(0\.25\)"):
            handle.result()
        bus.advance(0.25)
        assert handle.result().status is Status.TIMEOUT


@pytest.mark.parametrize("clock", [1e9, "now", time.monotonic])
def test_what_is_no_manual_clock_is_refused(clock: Any):
    with pytest.raises(UsageError, match=r"has to be a ManualClock: ManualClock\(seconds since 1970\)"):
        TestRuntime(clock=clock)


@pytest.mark.parametrize("seconds", [float("inf"), float("nan"), True, "1"])
def test_time_passes_by_a_number_of_seconds(seconds: Any) -> None:
    with TestRuntime() as bus, pytest.raises(UsageError, match=r"advance\(.*\): seconds, as in bus\.advance\(2\.5\)"):
        bus.advance(seconds)
