"""`Runtime.ask`: the calling thread does the work where it can, and everything else is as of `delegate(…).result()`."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ether import Agent, Closed, InvalidEnvelope, Runtime, Status, Task, ThreadedAgent, UsageError, capability
from ether.testing import TestRuntime
from tests.support import wait_until

PATIENCE = 20.0


class Where(Agent):
    """Says in which thread it works."""

    may_end = threading.Event()
    started = threading.Semaphore(0)

    @capability("where.plain")
    def plain(self) -> str:
        return threading.current_thread().name

    @capability("where.async")
    async def later(self) -> str:
        return threading.current_thread().name

    @capability("where.waits")
    def waits(self) -> str:
        self.started.release()
        self.may_end.wait(PATIENCE)
        return threading.current_thread().name

    @capability("where.below")
    def below(self, task: Task) -> list[str]:
        return [threading.current_thread().name, task.delegate("other.plain").result(PATIENCE).unwrap().data]

    @capability("where.fails")
    def fails(self, how: str) -> None:
        raise {"value": ValueError, "exit": SystemExit, "interrupt": KeyboardInterrupt}[how](how)

    @capability("where.slow")
    def slow(self, seconds: float) -> str:
        time.sleep(seconds)
        return "late"


class Other(Agent):
    @capability("other.plain")
    def plain(self) -> str:
        return threading.current_thread().name


class Own(ThreadedAgent):
    @capability("own.plain")
    def plain(self) -> str:
        return threading.current_thread().name


class Nested(Agent):
    bus: Runtime

    @capability("nested.ask")
    def ask(self) -> list[str]:
        return [threading.current_thread().name, self.bus.ask("other.plain").data]

    @capability("nested.async")
    async def ask_in_the_loop(self) -> str:
        try:
            return str(self.bus.ask("other.plain").data)
        except UsageError as error:
            return str(error)


@pytest.fixture
def bus() -> Iterator[Runtime]:
    Where.may_end.clear()
    with Runtime() as opened:
        for agent in (Where, Other, Own, Nested):
            opened.start(agent)
        Nested.bus = opened
        yield opened
        Where.may_end.set()


@pytest.fixture
def apart() -> Iterator[Callable[[Callable[[], Any]], Any]]:
    """Calls something in a thread that is not the main one, named `caller_0`."""
    with ThreadPoolExecutor(1, "caller") as pool:
        yield lambda call: pool.submit(call).result(PATIENCE)


def test_the_calling_thread_does_plain_work_of_an_idle_agent(bus: Runtime, apart: Any):
    def ask(to: str | None) -> str:
        return str(bus.ask("where.plain", to=to).unwrap().data)

    found = [apart(lambda to=to: ask(to)) for to in (None, "where", None, "where")]

    assert found[2:] == ["caller_0", "caller_0"]  # the first of each kind is checked whole, and so goes the other way
    assert bus.agents()[-1]["outcomes"]["COMPLETED"] == 4


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ("where.async", Status.COMPLETED),
        ("own.plain", Status.COMPLETED),
        ("unheard.of", Status.REJECTED_CAPABILITY),
        ("ether.statistics", Status.COMPLETED),
    ],
)
def test_other_work_is_done_where_it_always_is(bus: Runtime, apart: Any, asked: str, status: Status):
    response = apart(lambda: bus.ask(asked))

    assert response.data != "caller_0"
    assert response.status is status


def test_in_the_main_thread_the_work_is_done_elsewhere(bus: Runtime):
    assert bus.ask("where.plain").unwrap().data.startswith("ether-pool")


def test_on_a_bus_that_others_reach_the_work_is_done_elsewhere(apart: Any, tmp_path: Any):
    with Runtime(bind=f"ipc://{tmp_path}/bus") as bus:
        bus.start(Other)
        assert apart(lambda: bus.ask("other.plain")).unwrap().data.startswith("ether-pool")
        with Runtime.connect(bus.url) as other:
            assert apart(lambda: other.ask("other.plain")).unwrap().data.startswith("ether-pool")


def test_with_a_journal_the_work_is_done_elsewhere(apart: Any, tmp_path: Any):
    with Runtime(journal=tmp_path / "bus.db") as bus:
        bus.start(Other)
        apart(lambda: bus.ask("other.plain"))
        assert apart(lambda: bus.ask("other.plain")).unwrap().data.startswith("ether-pool")


def test_what_comes_for_the_agent_meanwhile_is_not_the_callers(bus: Runtime, apart: Any):
    apart(lambda: bus.ask("where.plain"))
    asking = threading.Thread(target=lambda: apart(lambda: bus.ask("where.waits")))
    asking.start()
    assert Where.started.acquire(timeout=PATIENCE)
    others = [bus.delegate("where.plain", to="where") for _ in range(5)]
    Where.may_end.set()

    assert {handle.result(PATIENCE).data[:10] for handle in others} == {"ether-pool"}
    asking.join()


def test_many_threads_that_ask_many_agents_wedge_none(bus: Runtime):
    class Small(Agent):
        max_concurrency = 2

        @capability("small.back")
        def back(self, number: int) -> int:
            return number

    names = [ref.name for ref in bus.start_many(Small, 40, name="small")]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(bus.ask, "small.back", {"number": 1}, to=name) for name in names * 50]
            assert {one.result(PATIENCE).status for one in asked} == {Status.COMPLETED}
    finally:
        sys.setswitchinterval(interval)
    assert all(bus.delegate("small.back", {"number": 1}, to=name).result(PATIENCE).ok for name in names)


def test_a_message_of_pykkas_is_not_the_callers(bus: Runtime, apart: Any):
    told: list[str] = []

    class Told(Agent):
        max_concurrency = 2

        @capability("told.plain")
        def plain(self) -> str:
            return threading.current_thread().name

        def on_receive(self, message: Any) -> None:
            told.append(threading.current_thread().name)

    ref = bus.start(Told)
    agent = bus.node.agent_host.cell(ref.name).agent
    assert agent is not None
    for _ in range(20):
        agent.actor_ref.tell("hello")
        assert apart(lambda: bus.ask("told.plain")).status is Status.COMPLETED
    wait_until(lambda: len(told) == 20)
    assert {name[:10] for name in told} == {"ether-pool"}


def test_an_ask_that_may_not_wait_has_nothing_done(bus: Runtime):
    done: list[int] = []

    class Counts(Agent):
        @capability("counts.up")
        def up(self) -> None:
            done.append(1)

        @capability("counts.refused")
        async def refused(self) -> str:
            with pytest.raises(UsageError):
                bus.ask("counts.up")
            return "refused"

    bus.start(Counts)
    assert bus.delegate("counts.refused").result(PATIENCE).unwrap().data == "refused"
    assert bus.delegate("counts.up").result(PATIENCE).ok
    assert len(done) == 1


@pytest.mark.parametrize("timeout", [10**400, 1e308, float("inf"), True, float("nan"), 0, -1])
def test_odd_timeouts_are_as_those_of_delegate(bus: Runtime, apart: Any, timeout: Any):
    def outcome(call: Callable[[], Any]) -> object:
        try:
            return call().status
        except Exception as error:
            return type(error)

    for _ in range(2):
        asked = outcome(lambda: apart(lambda: bus.ask("where.plain", timeout=timeout)))
        assert asked == outcome(lambda: bus.delegate("where.plain", timeout=timeout).result(PATIENCE))


def test_a_reference_asks_its_own_agent(bus: Runtime, apart: Any):
    ref = bus.start(Other, name="another")

    for _ in range(2):
        response = apart(lambda: ref.ask("other.plain"))
    assert response.from_agent == "another"
    assert response.data == "caller_0"
    with pytest.raises(UsageError, match="leave `to` out"):
        ref.ask("other.plain", to="where")


def test_work_of_an_agent_that_is_busy_waits_for_it(bus: Runtime, apart: Any):
    first = bus.delegate("where.waits")
    assert Where.started.acquire(timeout=PATIENCE)
    timer = threading.Timer(0.05, Where.may_end.set)
    timer.start()

    response = apart(lambda: bus.ask("where.plain"))

    assert response.data.startswith("ether-pool")
    assert first.result(PATIENCE).status is Status.COMPLETED
    timer.join()


def test_sub_delegations_work_and_an_ask_within_it_is_done_elsewhere(bus: Runtime, apart: Any):
    for _ in range(3):
        found = apart(lambda: bus.ask("where.below")).unwrap().data
        nested = apart(lambda: bus.ask("nested.ask")).unwrap().data

    assert found[0] == "caller_0"
    assert found[1].startswith("ether-pool")
    assert nested[0] == "caller_0"
    assert nested[1].startswith("ether-pool")


def test_a_long_chain_of_asks_ends_and_leaves_every_agent_working(apart: Any):
    length = 120

    class Link(Agent):
        @capability("link.next")
        def next(self, left: int) -> int:
            return bus.ask("link.next", {"left": left - 1}, to=f"link-{left - 1}").unwrap().data + 1 if left else 0

    with Runtime() as bus:
        for number in range(length + 1):
            bus.start(Link, name=f"link-{number}")
        for _ in range(2):
            assert apart(lambda: bus.ask("link.next", {"left": length}, to=f"link-{length}")).unwrap().data == length
        for number in range(length + 1):
            assert bus.delegate("link.next", {"left": 0}, to=f"link-{number}").result(PATIENCE).ok


def test_deep_in_a_recursion_it_works_or_raises_and_no_agent_is_harmed(bus: Runtime, apart: Any):
    def descend(depth: int) -> object:
        return descend(depth - 1) if depth else bus.ask("where.plain", timeout=PATIENCE).status

    apart(lambda: bus.ask("where.plain"))
    for depth in range(sys.getrecursionlimit() - 250, sys.getrecursionlimit(), 3):
        try:
            assert apart(lambda depth=depth: descend(depth)) is Status.COMPLETED
        except RecursionError:
            continue
    assert bus.delegate("where.plain").result(PATIENCE).status is Status.COMPLETED


def test_parameters_that_delegate_as_they_are_packed_wait_for_nothing(bus: Runtime, apart: Any):
    class Lazy(Mapping[str, float]):
        def __len__(self) -> int:
            return 1

        def __iter__(self) -> Iterator[str]:
            return iter(["seconds"])

        def __getitem__(self, key: str) -> float:
            assert bus.delegate("other.plain", timeout=PATIENCE).result().status is Status.COMPLETED
            return 0.0

    for _ in range(3):
        assert apart(lambda: bus.ask("where.slow", Lazy())).unwrap().data == "late"


def test_a_handler_may_run_an_event_loop_of_its_own_wherever_it_was_asked(bus: Runtime, apart: Any):
    class Loops(Agent):
        @capability("loops.run")
        def run(self) -> int:
            return asyncio.run(asyncio.sleep(0, 5))

    async def main() -> object:
        return bus.ask("loops.run").unwrap().data

    bus.start(Loops)
    for _ in range(2):
        assert apart(lambda: asyncio.run(main())) == 5
        assert apart(lambda: bus.ask("loops.run")).unwrap().data == 5


def test_in_an_event_loop_it_is_refused(bus: Runtime, apart: Any):
    assert "await" in apart(lambda: bus.ask("nested.async")).unwrap().data


@pytest.mark.parametrize("how", ["value", "exit", "interrupt"])
def test_whatever_the_handler_raises_is_an_outcome_and_nothing_reaches_the_caller(bus: Runtime, apart: Any, how: str):
    for _ in range(2):
        response = apart(lambda: bus.ask("where.fails", {"how": how}))
        assert response.status is Status.FAILED_EXECUTION
    assert apart(lambda: bus.ask("where.plain")).status is Status.COMPLETED


def test_a_handler_that_takes_too_long_ends_in_time_for_all_but_its_caller(bus: Runtime, apart: Any):
    apart(lambda: bus.ask("where.plain"))
    response = apart(lambda: bus.ask("where.slow", {"seconds": 0.5}, timeout=0.1))

    assert response.status is Status.TIMEOUT
    assert response.from_agent == "ether"
    assert apart(lambda: bus.ask("where.plain")).status is Status.COMPLETED


def test_what_cannot_be_sent_is_raised(bus: Runtime, apart: Any):
    with pytest.raises(InvalidEnvelope, match="timeuot"):
        apart(lambda: bus.ask("where.plain", timeuot=3))
    assert apart(lambda: bus.ask("where.plain")).status is Status.COMPLETED


def test_threads_that_ask_at_once_get_each_their_own(bus: Runtime):
    class Echo(Agent):
        @capability("echo.back")
        def back(self, number: int) -> int:
            return number

    bus.start_many(Echo, 3)

    def ask(first: int) -> list[int]:
        return [bus.ask("echo.back", {"number": number}).unwrap().data for number in range(first, first + 100)]

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(ask, range(0, 600, 100)))

    assert [number for numbers in found for number in numbers] == list(range(600))


def test_the_double_asks_too():
    with TestRuntime() as bus:
        bus.start(Other)
        assert bus.ask("other.plain").status is Status.COMPLETED


def test_a_closed_runtime_says_so():
    with Runtime() as bus:
        pass
    with pytest.raises(Closed, match="not open"):
        bus.ask("other.plain")
