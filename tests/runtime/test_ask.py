"""`Runtime.ask`: the calling thread does the work where it can, and everything else is as of `delegate(…).result()`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ether import Agent, Closed, InvalidEnvelope, Runtime, Status, Task, ThreadedAgent, UsageError, capability
from ether.testing import TestRuntime

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

    found = [apart(lambda: ask(None)), apart(lambda: ask("where")), apart(lambda: ask(None))]

    assert found[1:] == ["caller_0", "caller_0"]  # the first may find the bus at something else
    assert bus.agents()[-1]["outcomes"]["COMPLETED"] == 3


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


def test_sub_delegations_and_asks_within_it_work(bus: Runtime, apart: Any):
    for _ in range(3):
        found = apart(lambda: bus.ask("where.below")).unwrap().data
        nested = apart(lambda: bus.ask("nested.ask")).unwrap().data

    assert found[0] == "caller_0"
    assert found[1].startswith("ether-pool")
    assert list(nested) == ["caller_0", "caller_0"]


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
