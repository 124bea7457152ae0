"""`Runtime.ask`: the calling thread does the work where it can, and everything else is as of `delegate(…).result()`."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import decimal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from ether import Agent, Closed, InvalidEnvelope, Limits, Runtime, Status, Task, ThreadedAgent, UsageError, capability
from ether.node.delegations import outgoing as outgoing_module
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


class Descent:
    """Recursion through a callable object, which takes a level of C for each of Python."""

    def __call__(self, depth: int, then: Callable[[], object]) -> object:
        return self(depth - 1, then) if depth else then()


def _descend(depth: int, then: Callable[[], object]) -> object:
    return _descend(depth - 1, then) if depth else then()


_remembered = lru_cache(maxsize=None)(lambda depth, then: _remembered(depth - 1, then) if depth else then())


@pytest.mark.parametrize("descend", [_descend, Descent(), _remembered], ids=["functions", "objects", "lru_cache"])
@pytest.mark.parametrize("asked", ["where.plain", "where.fails"])
def test_deep_in_a_recursion_it_works_or_raises_and_no_agent_is_harmed(apart: Any, descend: Any, asked: str):
    class Patient(Where):
        hang_limit = None

    params = {} if asked == "where.plain" else {"how": "value"}
    with Runtime(drain=0.0, limits=Limits(window=4)) as bus:  # four that are never answered would be its end
        bus.start(Patient)
        apart(lambda: bus.ask(asked, params))
        limit = sys.getrecursionlimit()
        for depth in [*range(limit // 3, limit // 2, 6), *range(limit - 250, limit, 7)]:
            with contextlib.suppress(RecursionError):
                apart(lambda depth=depth: descend(depth, lambda: bus.ask(asked, params, timeout=PATIENCE)))
        end = bus.delegate(asked, params).result(PATIENCE)

        assert end.status is (Status.COMPLETED if asked == "where.plain" else Status.FAILED_EXECUTION)
        wait_until(lambda: bus.statistics()["open"] == 0, PATIENCE)


class Evil(Exception):
    def __init__(self, raised: BaseException) -> None:
        self.raised = raised

    def __str__(self) -> str:
        raise self.raised


@pytest.mark.parametrize("raised", [AttributeError("cod"), KeyboardInterrupt(), RecursionError()], ids=repr)
@pytest.mark.parametrize("way", ["ask", "delegate"])
def test_an_exception_whose_text_cannot_be_had_is_an_outcome(bus: Runtime, apart: Any, raised: Any, way: str):
    class Slips(Agent):
        hang_limit = None

        @capability("slips.fail")
        def fail(self) -> None:
            raise Evil(raised)

    bus.start(Slips)
    for _ in range(3):
        if way == "ask":
            found = apart(lambda: bus.ask("slips.fail", timeout=PATIENCE))
        else:
            found = bus.delegate("slips.fail", timeout=PATIENCE).result()
        assert found.status is Status.FAILED_EXECUTION
        assert found.error.message == f"Evil: (its text cannot be had: {type(raised).__name__})"


def test_what_the_agents_validators_set_stays_theirs(bus: Runtime, apart: Any):
    seen = []
    variable = contextvars.ContextVar("variable", default="unset")

    class Checked(BaseModel):
        x: int

        @field_validator("x")
        @classmethod
        def check(cls, x: int) -> int:
            seen.append(variable.get())
            variable.set("set by a validator")
            decimal.getcontext().prec = 5
            return x

    class Checks(Agent):
        @capability("checks.it")
        def check(self, params: Checked) -> Checked:
            return params

    bus.start(Checks)

    def ask() -> tuple[str, int]:
        bus.ask("checks.it", {"x": 1}).unwrap()
        variable.set("the caller's")
        precision = decimal.getcontext().prec
        bus.ask("checks.it", {"x": 1}).unwrap()
        return variable.get(), precision - decimal.getcontext().prec

    assert apart(ask) == ("the caller's", 0)
    assert "the caller's" not in seen


@pytest.mark.parametrize("way", ["ask", "delegate", "delegate with an objective"])
@pytest.mark.parametrize("moment", ["before its handle is noted", "before it is sent"])
def test_what_is_begun_as_the_runtime_is_closed_ends(way: str, moment: str, monkeypatch: Any):
    bus = Runtime(drain=0.0).open()
    bus.start(Where)
    bus.delegate("where.plain").result()
    stopped, goes_on, found = threading.Event(), threading.Event(), []
    outgoing, resources = bus.node.outgoing, bus.node.resources

    def pause() -> None:
        if threading.current_thread().name == "asker" and not stopped.is_set():
            stopped.set()
            goes_on.wait(PATIENCE)

    make_id, pack = resources.make_id, outgoing_module.pack_delegation
    if way == "delegate with an objective":
        monkeypatch.setattr(
            outgoing_module, "pack_delegation", lambda *args, **named: (pause(), pack(*args, **named))[1]
        )
    else:
        monkeypatch.setattr(resources, "make_id", lambda: (pause(), make_id())[1])

    if moment == "before it is sent":  # BYE has been said then, and what is open is not ended yet
        close = outgoing.close

        def late() -> None:
            goes_on.set()
            asker.join(0.2)
            close()

        monkeypatch.setattr(outgoing, "close", late)

    def ask() -> None:
        if way == "ask":
            found.append(bus.ask("where.plain", timeout=PATIENCE))
        else:
            options = {"objective": "x"} if way != "delegate" else {}
            found.append(bus.delegate("where.plain", timeout=PATIENCE, **options).result())

    asker = threading.Thread(target=ask, name="asker")
    asker.start()
    assert stopped.wait(PATIENCE)
    bus.close()
    goes_on.set()
    asker.join(PATIENCE / 2)

    assert [(one.status, one.error.code) for one in found] == [(Status.CANCELLED, "closed")]


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


def test_a_handler_may_run_an_event_loop_of_its_own(bus: Runtime, apart: Any):
    class Loops(Agent):
        @capability("loops.run")
        def run(self) -> int:
            return asyncio.run(asyncio.sleep(0, 5))

    bus.start(Loops)
    for _ in range(2):
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
