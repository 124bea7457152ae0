"""`bus.map` and `bus.broadcast`: many delegations at a time, their outcomes in order and errors in their place."""

from __future__ import annotations

import asyncio
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ether import (
    Agent,
    Budget,
    Closed,
    Handle,
    InvalidEnvelope,
    Mapped,
    Retry,
    Runtime,
    Status,
    Task,
    UsageError,
    capability,
)
from ether.testing import TestRuntime
from tests.support import wait_until

PATIENCE = 20.0


class Worker(Agent):
    """Notes how many work at a time, and ends in the order that the items say."""

    max_concurrency = 200
    lock = threading.Lock()
    running = most = named = 0

    @capability("work.do")
    async def do(self, n: int, seconds: float = 0.0) -> int:
        with Worker.lock:
            Worker.running += 1
            Worker.most = max(Worker.most, Worker.running)
        try:
            await asyncio.sleep(seconds)
        finally:
            with Worker.lock:
                Worker.running -= 1
        if n < 0:
            raise ValueError("negative")
        return n

    @capability("work.spend")
    def spend(self, n: int, task: Task) -> int:
        task.budget.spend(cost=0.5)
        return n

    @capability("work.name")
    def name(self, task: Task) -> str:
        with Worker.lock:
            Worker.named += 1
        return task.agent


class Chief(Agent):
    @capability("chief.map")
    def map(self, count: int, task: Task) -> list[int]:
        part = task.budget.part(4)
        mapped = task.map("work.do", ({"n": n} for n in range(count)), window=4, budget=part)
        return [response.unwrap().data for response in mapped]

    @capability("chief.beside")
    def beside(self, task: Task) -> list[str]:
        holds = task.delegate("work.do", {"n": 1, "seconds": 0.2})  # all of the budget
        mapped = task.map("work.do", ({"n": n} for n in range(6)))
        try:
            return [response.status.value for response in mapped]
        finally:
            holds.result()

    @capability("chief.spend")
    def spend(self, count: int, parts: int, task: Task) -> list[int]:
        budget = task.budget.part(parts) if parts else None
        mapped = task.map("work.spend", ({"n": n} for n in range(count)), window=4, budget=budget)
        return [response.unwrap().data for response in mapped]


@pytest.fixture(params=["embedded", "journal", "joined"])
def bus(request: Any, tmp_path: Any) -> Iterator[Runtime]:
    Worker.running = Worker.most = 0
    options: dict[str, Any] = {"journal": tmp_path / "journal.db"} if request.param == "journal" else {}
    if request.param == "joined":
        options["bind"] = f"ipc://{tmp_path}/bus"
    with Runtime(drain=0.0, **options) as own:
        own.start_many(Worker, 3)
        own.start(Chief)
        if request.param != "joined":
            yield own
        else:
            with Runtime.connect(own.url, drain=0.0) as other:
                yield other


def test_outcomes_come_in_the_order_of_the_items_and_errors_in_their_place(bus: Runtime) -> None:
    items: list[Any] = [{"n": n, "seconds": 0.03 if n % 7 == 0 else 0.0} for n in range(100)]
    items[3], items[50], items[70] = {"n": -1}, {"n": object()}, {"n": 1, "size": "x" * (2 << 20)}

    outcomes = bus.map("work.do", items, window=10)
    found = list(outcomes)

    assert [response.data for n, response in enumerate(found) if n not in {3, 50, 70}] == [
        n for n in range(100) if n not in {3, 50, 70}
    ]
    assert [(found[n].status, found[n].error.code) for n in (3, 50, 70)] == [
        (Status.FAILED_EXECUTION, "exception"), (Status.REJECTED_CONTEXT, "unserialisable"),
        (Status.REJECTED_CONTEXT, "payload_too_large"),
    ]  # fmt: skip
    assert (outcomes.done, outcomes.failed, outcomes.total) == (100, 3, 100)
    assert 2 <= Worker.most <= 10
    assert list(outcomes) == []


def test_items_are_taken_as_they_are_needed_and_what_is_left_is_cancelled(bus: Runtime) -> None:
    taken: list[int] = []

    def items() -> Iterator[dict[str, Any]]:
        n = 0
        while True:
            taken.append(n)
            yield {"n": n, "seconds": 0.0 if n < 20 else 30.0}
            n += 1

    outcomes = bus.map("work.do", items(), window=5)
    for response in outcomes:
        if response.data == 9:
            break
    assert len(taken) <= 10 + 16 * 5
    outcomes.close()

    assert outcomes.total is None
    assert wait_until(lambda: Worker.running == 0, PATIENCE)
    assert next(outcomes, None) is None


def test_one_that_takes_long_holds_up_nobody_until_too_much_is_kept(bus: Runtime) -> None:
    go = threading.Event()
    taken: list[int] = []

    def items() -> Iterator[dict[str, Any]]:
        for n in range(400):
            taken.append(n)
            yield {"n": n, "seconds": 30.0 if n == 0 else 0.0}

    outcomes = bus.map("work.do", items(), window=2, timeout=1.5)
    reader = threading.Thread(target=lambda: (next(outcomes), go.set()))
    reader.start()
    assert wait_until(lambda: len(taken) == 32, PATIENCE)  # 16 windows
    assert not go.is_set()
    reader.join(PATIENCE)

    rest = list(outcomes)
    assert [response.data for response in rest] == list(range(1, 400))
    assert (outcomes.done, outcomes.failed) == (400, 1)


@pytest.mark.parametrize("is_awaited", [False, True])
def test_what_the_iterable_raises_comes_after_the_outcomes_of_the_items_before_it(
    bus: Runtime, is_awaited: bool
) -> None:
    def items() -> Iterator[dict[str, Any]]:
        for n in range(9):
            yield {"n": n}
        raise KeyError("item 9")

    found: list[Any] = []

    async def awaited(outcomes: Mapped) -> None:
        async for response in outcomes:
            found.append(response.data)  # noqa: PERF401  what came before the error is what counts

    outcomes = bus.map("work.do", items(), window=64)
    with pytest.raises(KeyError, match="item 9"):
        if is_awaited:
            asyncio.run(awaited(outcomes))
        else:
            for response in outcomes:
                found.append(response.data)  # noqa: PERF401  as above

    assert found == list(range(9))
    assert (outcomes.done, outcomes.failed) == (9, 0)
    assert next(outcomes, None) is None


def test_it_is_awaited_in_a_loop(bus: Runtime) -> None:
    async def main() -> list[int]:
        found = [response.data async for response in bus.map("work.do", ({"n": n} for n in range(50)), window=7)]
        with pytest.raises(UsageError, match="`await` the handle"):
            next(bus.map("work.do", [{"n": 1}]))
        async with bus.map("work.do", ({"n": n, "seconds": 30.0} for n in range(50)), window=7) as leaving:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(leaving), 0.1)
            async with asyncio.timeout(10.0):
                while Worker.running < 7:
                    await asyncio.sleep(0.005)
            assert Worker.running == 7
        assert [response async for response in leaving] == []
        late = bus.map("work.do", ({"n": n, "seconds": 0.2} for n in range(3)), window=3)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(late), 0.05)
        assert [response.data async for response in late] == [0, 1, 2], "what was not taken in time is not lost"
        return found

    assert asyncio.run(main()) == list(range(50))
    assert wait_until(lambda: Worker.running == 0, PATIENCE)
    mixed = bus.map("work.do", ({"n": n, "seconds": 0.01} for n in range(9)), window=3)
    assert [next(mixed).data for _ in range(4)] == [0, 1, 2, 3]

    async def rest() -> list[int]:
        return [response.data async for response in mixed]

    assert asyncio.run(rest()) == [4, 5, 6, 7, 8]
    assert (mixed.done, mixed.failed) == (9, 0)


def test_a_handler_maps_within_its_budget(bus: Runtime) -> None:
    response = bus.delegate("chief.map", {"count": 30}, budget=Budget(max_cost=1.0)).result(PATIENCE)

    assert response.unwrap().data == list(range(30))


def test_a_budget_that_another_delegation_of_the_task_has_set_aside_ends_a_map_with_an_error(bus: Runtime) -> None:
    response = bus.delegate("chief.beside", budget=Budget(max_cost=1.0)).result(PATIENCE)

    assert response.status is not Status.COMPLETED
    assert "set aside for work.do" in f"{response.unresolved} {response.error}"


@pytest.mark.parametrize("parts", [0, 1, 4])
def test_an_item_waits_for_what_those_before_it_leave_of_the_budget(bus: Runtime, parts: int) -> None:
    enough = bus.delegate("chief.spend", {"count": 30, "parts": parts}, budget=Budget(max_cost=16.0)).result(PATIENCE)
    too_little = bus.delegate("chief.spend", {"count": 40, "parts": parts}, budget=Budget(max_cost=16.0)).result(
        PATIENCE
    )

    assert enough.unwrap().data == list(range(30))
    assert enough.metadata["cost"] == 15.0
    assert too_little.status is Status.PARTIAL
    assert too_little.metadata["cost"] == 16.0
    assert any("is used up" in line for line in too_little.unresolved)


@pytest.mark.parametrize(
    ("items", "window", "said"),
    [
        ("text", 4, "this is one str"),
        ({"n": 1}, 4, "this is one dict"),
        (b"x", 4, "this is one bytes"),
        ([], 0, "window=0: delegations that are open at a time, 1 or more"),
        ([], 1.5, "window=1.5"),
        ([], True, "window=True"),
    ],
)
def test_what_cannot_be_mapped_says_so(bus: Runtime, items: Any, window: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        bus.map("work.do", items, window=window)


def test_every_holder_is_asked_once_and_answers_by_the_deadline(bus: Runtime) -> None:
    answers = {name: handle.result(PATIENCE).data for name, handle in bus.broadcast("work.name", timeout=5.0).items()}
    below = bus.broadcast("work", {"n": 1}, timeout=5.0)

    assert answers == {"worker": "worker", "worker-2": "worker-2", "worker-3": "worker-3"}
    assert sorted(below) == sorted(answers)
    assert bus.broadcast("nobody.does", timeout=5.0) == {}
    assert {handle.delegation.fallback for handle in below.values()} == {False}, "what one does not take, no other does"
    asked = bus.broadcast("work.name", timeout=5.0, fallback=True)
    assert {handle.delegation.fallback for handle in asked.values()} == {True}

    began = time.monotonic()
    slow = bus.broadcast("work.do", {"n": 1, "seconds": 30.0}, timeout=0.2, retry=Retry())
    assert {handle.result(PATIENCE).status for handle in slow.values()} == {Status.TIMEOUT}
    assert time.monotonic() - began < 5.0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"budget": 3}, "budget"),
        ({"to": Worker}, "to_agent"),
        ({"timeout": -1.0}, "timeout"),
        ({"priority": "urgent"}, "priority"),
        ({"retry": 3}, "retry=3: a policy"),
    ],
)
def test_what_is_wrong_for_each_item_is_raised_once(bus: Runtime, options: dict[str, Any], said: str) -> None:
    with pytest.raises((InvalidEnvelope, UsageError), match=said):
        bus.map("work.do", [{"n": 1}], **options)
    with pytest.raises(InvalidEnvelope):
        bus.map("two words", [{"n": 1}])


def test_what_is_of_one_delegation_is_not_for_many(bus: Runtime) -> None:
    for name in ("request_id", "external_id"):
        with pytest.raises(UsageError, match=f"map makes many delegations, and {name} is of one"):
            bus.map("work.do", [{"n": 1}], **{name: "x"})
        with pytest.raises(UsageError, match=f"broadcast makes many delegations, and {name} is of one"):
            bus.broadcast("work.do", {"n": 1}, **{name: "x"})
    for wrong in ("", "two words"):
        with pytest.raises(InvalidEnvelope):
            bus.broadcast(wrong)


def test_what_ends_a_map_is_raised_when_what_was_begun_has_been_given(bus: Runtime) -> None:
    def delegate(params: Any) -> Handle:
        if params["n"] >= 10:
            raise Closed("The runtime has been closed.")
        return bus.delegate("work.do", params)

    items = ({"n": n, "seconds": 0.05} for n in range(40))
    outcomes = Mapped(delegate, items, 20, bus.node.outgoing.check_may_wait)
    found = []
    with pytest.raises(Closed):
        while True:
            found.append(next(outcomes).data)

    assert found == list(range(10))
    assert next(outcomes, None) is None


def test_a_refused_look_begins_nothing_and_loses_nothing(bus: Runtime) -> None:
    outcomes = bus.map("work.do", [{"n": n} for n in range(5)], window=1)

    async def look() -> None:
        with pytest.raises(UsageError, match="`await` the handle"):
            next(outcomes)

    asyncio.run(look())
    assert Worker.most == 0
    assert [response.data for response in outcomes] == list(range(5))


def test_a_map_goes_on_in_another_loop(bus: Runtime) -> None:
    outcomes = bus.map("work.do", ({"n": n} for n in range(9)), window=3)

    async def take(count: int) -> list[int]:
        return [(await anext(outcomes)).data for _ in range(count)]

    assert asyncio.run(take(4)) + asyncio.run(take(5)) == list(range(9))


@settings(max_examples=60, deadline=None)
@given(
    items=st.lists(st.integers(-2, 5), max_size=40), window=st.integers(1, 8), left=st.integers(0, 50),
    in_loop=st.booleans(),
)  # fmt: skip
def test_any_items_with_any_window_are_given_in_their_order(items: Any, window: int, left: int, in_loop: bool) -> None:
    async def take(mapped: Mapped) -> list[Any]:
        return [(await anext(mapped)).data for _ in range(min(left, len(items)))]

    Worker.running = Worker.most = 0
    with TestRuntime() as bus:
        bus.start(Worker)
        mapped = bus.map("work.do", [{"n": n} for n in items], window=window)

        found = asyncio.run(take(mapped)) if in_loop else [next(mapped).data for _ in range(min(left, len(items)))]

        assert found == [None if n < 0 else n for n in items][:left]
        assert mapped.done >= len(found)
        assert mapped.failed == sum(n < 0 for n in items[: mapped.done]) or left < len(items)
        mapped.close()
        bus.advance(0.0)
        assert Worker.most <= window
        assert not bus.node.outgoing.pending


def test_a_map_that_is_never_iterated_is_told(bus: Runtime) -> None:
    with pytest.warns(RuntimeWarning, match="never iterated over"):
        bus.map("item.double", [{}])


@pytest.mark.parametrize("how", ["for", "closed", "refused", "empty"])
def test_one_that_is_used_is_not_told(bus: Runtime, how: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if how == "for":
            assert not list(bus.map("item.double", []))
        elif how == "empty":
            bus.map("item.double", [])
        elif how == "closed":
            bus.map("item.double", [{}]).close()
        else:
            with pytest.raises(UsageError):
                bus.map("item.double", [{}], window=0)


def test_a_broadcast_to_more_holders_than_most_delegates_nothing(bus: Runtime):
    before = Worker.named
    with pytest.raises(UsageError, match=r"More than 2 agents hold work\.name, .* Nothing was delegated\."):
        bus.broadcast("work.name", most=2)
    for wrong in (0, -1, 1.5, "all", True):
        with pytest.raises(UsageError, match="most is a whole number above 0"):
            bus.broadcast("work.name", most=wrong)  # type: ignore[arg-type]

    assert [handle.result(PATIENCE).status for handle in bus.broadcast("work.name", most=3).values()] == [
        Status.COMPLETED
    ] * 3
    assert Worker.named == before + 3
    assert len(bus.broadcast("work.name", most=10**30, timeout=5.0)) == 3


def test_a_broadcast_goes_to_all_holders_and_is_told_so_where_one_is_named(bus: Runtime):
    with pytest.raises(UsageError, match=r"leave it out, or delegate\(\.\.\., to=\.\.\.\)"):
        bus.broadcast("words.where", to="words")


@pytest.mark.parametrize("window", [1, 4])
@pytest.mark.parametrize("way", ["sync", "async"])
def test_an_outcome_that_is_given_before_it_was_told_is_counted_once(
    bus: Runtime, monkeypatch: pytest.MonkeyPatch, window: int, way: str
) -> None:
    """Whoever brings it sets it first, and tells of it after that; in between it is seen."""

    def delegate(params: Any) -> Handle:
        handle = bus.delegate("work.do", params)
        wait_until(lambda: handle.done, PATIENCE)
        return handle

    late: list[Any] = []
    outcomes = Mapped(delegate, [{"n": n} for n in range(9)], window, bus.node.outgoing.check_may_wait)
    with monkeypatch.context() as patched:
        patched.setattr(Handle, "_when_done", lambda handle, callback: late.append((handle, callback)) or True)
        if way == "sync":
            found = [response.data for response in outcomes]
        else:

            async def collect() -> list[int]:
                return [response.data async for response in outcomes]

            found = asyncio.run(collect())
    for handle, callback in late:
        callback(handle)

    assert found == list(range(9))
    assert (outcomes.done, outcomes.failed) == (9, 0)
