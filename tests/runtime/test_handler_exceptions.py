"""What becomes of a delegation, and of its agent, with what its handler raises: also in a group, or without a text."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import pytest

from ether import (
    Agent,
    AgentCrash,
    Backoff,
    Budget,
    BudgetExceeded,
    Failed,
    Response,
    Retry,
    Runtime,
    Status,
    Task,
    Unserialisable,
    capability,
)  # fmt: skip
from ether.testing import TestRuntime
from ether_broker.errors import LeaseHeld, WaitTimeout

PATIENCE = 20.0


class Busy(Exception):
    retryable = True

    def __init__(self, after: float | None = None) -> None:
        super().__init__("429")
        self.retry_after = after


class Thrower(Agent):
    """Raises what it is told to, as it is, or in a group."""

    raised: ClassVar[list[BaseException]] = []
    incarnations = 0

    def on_start(self) -> None:
        Thrower.incarnations += 1

    @capability("throw.plain")
    def plain(self) -> None:
        raise self.raised[0]

    @capability("throw.grouped")
    def grouped(self) -> None:
        raise BaseExceptionGroup("several", self.raised)

    @capability("throw.nested")
    async def nested(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._fail())

    async def _fail(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._raise())

    async def _raise(self) -> None:
        raise self.raised[0]


@pytest.fixture
def bus() -> Iterator[Runtime]:
    Thrower.incarnations = 0
    with Runtime() as bus:
        bus.start(Thrower)
        yield bus


def told(response: Response) -> tuple[Any, ...]:
    error = response.error
    assert error is not None
    return response.status, error.code, error.message, error.retryable, response.retry_after, response.unresolved


MAKES: list[Callable[[], BaseException]] = [
    lambda: ValueError("no"),
    lambda: AgentCrash("broken"),
    lambda: Busy(1.5),
    lambda: BudgetExceeded("max_cost 1 is used up"),
    lambda: Failed(Response(request_id="r", status=Status.FAILED_EXECUTION, from_agent="x")),
]


@pytest.mark.parametrize(
    ("make", "way"),
    [
        *((make, way) for make in MAKES for way in ("throw.grouped", "throw.nested")),
        (lambda: SystemExit(3), "throw.grouped"),  # asyncio raises it outside of the group
    ],
)
def test_one_in_a_group_is_answered_as_it_is_alone(bus: Runtime, make: Callable[[], BaseException], way: str) -> None:
    Thrower.raised = [make()]
    alone = told(bus.delegate("throw.plain", timeout=PATIENCE).result())
    before = Thrower.incarnations
    grouped = bus.delegate(way, timeout=PATIENCE).result()

    assert told(grouped) == alone
    again = bus.delegate("throw.plain", timeout=PATIENCE, retry=Retry(attempts=9)).result()
    assert told(again)[:2] == alone[:2]
    is_crash = isinstance(make(), AgentCrash | SystemExit)
    assert (Thrower.incarnations > before) is is_crash or before > 1
    if grouped.status is Status.FAILED_EXECUTION:
        assert grouped.error is not None
        assert grouped.error.traceback is not None
        assert "ExceptionGroup" in grouped.error.traceback


@pytest.mark.parametrize(
    ("raised", "code", "message", "retryable", "after"),
    [
        ([ValueError("a"), KeyError("b")], "exception", "ValueError: a; KeyError: 'b'", False, None),
        ([Busy(1.0), Busy(2.0), Busy()], "exception", "Busy: 429; Busy: 429; Busy: 429", True, 2.0),
        ([Busy(1.0), ValueError("a")], "exception", "Busy: 429; ValueError: a", False, None),
        ([WaitTimeout("a"), Busy(1.0)], "exception", "WaitTimeout: a; Busy: 429", False, None),
        ([LeaseHeld("a"), LeaseHeld("b")], "lease_held", "LeaseHeld: a; LeaseHeld: b", True, None),
        ([ValueError("a"), AgentCrash("b")], "agent_crash", "ValueError: a; AgentCrash: b", True, None),
        ([BudgetExceeded("a"), ValueError("b")], "exception", "BudgetExceeded: a; ValueError: b", False, None),
        ([ValueError(str(n)) for n in range(7)], "exception", "ValueError: 3 (and 3 more)", False, None),
    ],
)
def test_several_in_a_group_are_all_told(
    bus: Runtime, raised: list[BaseException], code: str, message: str, *, retryable: bool, after: float | None
) -> None:
    Thrower.raised = raised
    response = bus.delegate("throw.grouped", timeout=PATIENCE).result()

    assert response.error is not None
    assert (response.status, response.error.code) == (Status.FAILED_EXECUTION, code)
    assert response.error.message.endswith(message)
    assert (response.error.retryable, response.retry_after) == (retryable, after)


def test_a_group_of_groups_without_end_is_answered(bus: Runtime) -> None:
    error: BaseException = AgentCrash("deep")
    for _ in range(5_000):
        error = BaseExceptionGroup("one", [error])
    Thrower.raised = [error]

    response = bus.delegate("throw.plain", timeout=PATIENCE).result()
    assert response.error is not None
    assert response.status is Status.FAILED_EXECUTION
    Thrower.raised = [ValueError("next")]
    assert bus.delegate("throw.plain", timeout=PATIENCE, retry=Retry()).result().error is not None
    assert Thrower.incarnations == 2


class Wordless(AgentCrash):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_an_agent_that_crashes_without_a_text_is_restarted(bus: Runtime) -> None:
    Thrower.raised = [Wordless("x")]
    response = bus.delegate("throw.plain", timeout=PATIENCE).result()
    assert response.error is not None
    assert response.error.code == "agent_crash"
    Thrower.raised = [ValueError("next")]

    again = bus.delegate("throw.plain", timeout=PATIENCE, retry=Retry()).result()
    assert again.error is not None
    assert again.error.code == "exception"
    assert Thrower.incarnations == 2


class Hesitant(Agent):
    """Its second start fails, without a text."""

    starts = 0

    def on_start(self) -> None:
        Hesitant.starts += 1
        if Hesitant.starts == 2:
            raise Wordless

    @capability("hesitant.crash")
    def crash(self) -> None:
        raise AgentCrash("now")

    @capability("hesitant.ask")
    def ask(self) -> int:
        return Hesitant.starts


def test_an_agent_whose_start_fails_without_a_text_is_tried_again() -> None:
    Hesitant.starts = 0
    with Runtime() as bus:
        bus.start(Hesitant)
        assert bus.delegate("hesitant.crash", timeout=PATIENCE).result().status is Status.FAILED_EXECUTION
        assert bus.delegate("hesitant.ask", timeout=PATIENCE, retry=Retry()).result().data == 3


class Worker(Agent):
    max_concurrency = 8
    failed: ClassVar[list[str]] = []

    @capability("work.once")
    def once(self, task: Task) -> int:
        Worker.failed.append(task.request_id)
        if len(Worker.failed) == 1:
            raise Busy
        return len(Worker.failed)

    @capability("work.hold")
    async def hold(self) -> None:
        await asyncio.sleep(5.0)


class Boss(Agent):
    @capability("boss.retry")
    async def retry(self, task: Task) -> Any:
        part = task.budget.part(2)
        backoff = Backoff(initial=0.5, maximum=0.5)
        first = task.delegate("work.once", budget=part, retry=Retry(attempts=2, backoff=backoff))
        while not Worker.failed:
            await asyncio.sleep(0.01)
        held = [task.delegate("work.hold", budget=part), task.delegate("work.hold", budget=part)]
        response = await first
        return [response.data, [one.done for one in held]]

    @capability("boss.leave")
    def leave(self, task: Task) -> Any:
        for response in task.map("work.once", [{}] * 20):
            return response.data
        return None


def test_a_further_attempt_waits_for_what_others_have_of_the_budget() -> None:
    Worker.failed.clear()
    with TestRuntime() as bus:
        bus.start(Worker)
        bus.start(Boss)
        handle = bus.delegate("boss.retry", budget=Budget(max_cost=1.0), timeout=30.0)
        bus.advance(10.0)
        response = handle.result()

        assert response.unwrap().data[0] == 2
        assert any(response.data[1])
        assert response.unresolved == ()


def test_who_leaves_a_map_that_waits_for_its_budget_has_done_all_that_it_wanted() -> None:
    Worker.failed[:] = ["before"]
    with Runtime() as bus:
        bus.start(Worker)
        bus.start(Boss)
        response = bus.delegate("boss.leave", budget=Budget(max_cost=1.0), timeout=PATIENCE).result()

        assert (response.status, response.data, response.unresolved) == (Status.COMPLETED, 2, ())


class Greedy(Agent):
    """Holds its whole budget, and then wants more."""

    @capability("greedy.do")
    async def do(self, task: Task, way: str) -> Any:
        held = task.delegate("work.hold")
        try:
            if way == "map":
                async for _ in task.map("work.once", [{}, {}]):
                    pass
            else:
                task.delegate("work.once")
        except BudgetExceeded:
            pass
        held.cancel()
        await held
        if way == "later":
            await task.delegate("work.once")
        return way


@pytest.mark.parametrize(("way", "is_told"), [("map", True), ("once", True), ("later", False)])
def test_what_a_budget_has_kept_from_being_done_is_told(way: str, *, is_told: bool) -> None:
    Worker.failed[:] = ["before"]
    with TestRuntime() as bus:
        bus.start(Worker)
        bus.start(Greedy)
        response = bus.delegate("greedy.do", {"way": way}, budget=Budget(max_cost=1.0), timeout=PATIENCE).result()

        assert response.data == way
        assert response.status is (Status.PARTIAL if is_told else Status.COMPLETED)
        assert any("is set aside for work.hold" in line for line in response.unresolved) is is_told


class Misleading(ExceptionGroup[Exception]):
    @property
    def exceptions(self) -> Any:
        raise RuntimeError("no")


def test_a_group_that_does_not_say_what_is_in_it_is_answered_as_what_is_in_it(bus: Runtime) -> None:
    Thrower.raised = [Misleading("odd", [ValueError("a")])]
    response = bus.delegate("throw.plain", timeout=PATIENCE).result()
    assert response.error is not None
    assert response.error.code == "exception"
    Thrower.raised = [ValueError("next")]
    assert bus.delegate("throw.plain", timeout=PATIENCE).result().error is not None


class Unreadable(Mapping[str, int]):
    def __getitem__(self, name: str) -> int:
        raise OSError("the disk")

    def __iter__(self) -> Iterator[str]:
        raise OSError("the disk")

    def __len__(self) -> int:
        return 1


class Careless(Agent):
    @capability("careless.do")
    def do(self, task: Task) -> Any:
        for what in ("permissions", "params"):
            with contextlib.suppress(OSError, Unserialisable):
                task.delegate("work.once", **{what: Unreadable()})  # type: ignore[arg-type]  # what a user may give
        return task.delegate("work.once").result().data


def test_what_cannot_be_read_leaves_nothing_set_aside() -> None:
    Worker.failed[:] = ["before"]
    with Runtime() as bus:
        bus.start(Worker)
        bus.start(Careless)
        response = bus.delegate("careless.do", budget=Budget(max_cost=1.0), timeout=PATIENCE).result()
        assert (response.status, response.unresolved) == (Status.COMPLETED, ())
