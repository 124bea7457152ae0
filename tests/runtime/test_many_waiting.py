"""Plain handlers that wait for each other on one node, more than it has threads for: all end, none by its deadline."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ether import Agent, Runtime, Status, Task, ThreadedAgent, as_completed, capability
from ether_actors.threads import pool as pools
from tests.support import wait_until

LEVELS, TWINS = 4, 3
PATIENCE = 20.0

Tree = tuple[int, tuple["Tree", ...]]
"""Which of the twins of its level gets it, and what that one delegates to the next level."""


def trees(depth: int) -> st.SearchStrategy[Tree]:
    below = trees(depth - 1) if depth > 1 else st.nothing()
    return st.tuples(st.integers(0, TWINS - 1), st.lists(below, max_size=3 if depth > 1 else 0).map(tuple))


def leaves(tree: Tree) -> int:
    return sum(map(leaves, tree[1])) or 1


class Relay(Agent):
    """Delegates each branch to the next level, and waits for all of them at once, or for one after the other."""

    @capability("relay.count")
    def count(self, level: int, branches: list[Any], task: Task) -> int:
        handles = (delegate(task, level + 1, branch) for branch in branches)
        counts = [handle.result().unwrap().data for handle in (as_completed(list(handles)) if level % 2 else handles)]
        return sum(counts) or 1


class AsyncRelay(Relay):
    @capability("relay.count")
    async def count(self, level: int, branches: list[Any], task: Task) -> int:
        return sum([(await delegate(task, level + 1, branch)).unwrap().data for branch in branches]) or 1


def delegate(by: Task | Runtime, level: int, tree: Any) -> Any:
    params = {"level": level, "branches": tree[1]}
    return by.delegate("relay.count", params, to=f"relay-{level}-{tree[0]}", timeout=PATIENCE)


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    """A node on which two handlers may wait while all is begun, and six at all."""
    monkeypatch.setattr(pools, "MANY_THREADS_WAITING", 2)
    monkeypatch.setattr(pools, "MOST_THREADS_WAITING", 6)
    with Runtime(threads=1) as bus:
        for level in range(LEVELS):
            for twin in range(TWINS):
                is_async = level == 2 and twin == 0
                bus.start(AsyncRelay if is_async else Relay, name=f"relay-{level}-{twin}")
        yield bus


@pytest.mark.slow
def test_whatever_waits_for_what_each_ends_with_its_result_or_is_refused_at_once(bus: Runtime) -> None:
    @given(forest=st.lists(st.tuples(st.integers(0, 1), trees(LEVELS - 1)), max_size=24))
    @settings(max_examples=40, deadline=None)
    def check(forest: Any) -> None:
        handles = [delegate(bus, level, tree) for level, tree in forest]

        for handle, (_, tree) in zip(handles, forest, strict=True):
            response = handle.result()
            if response.status is Status.COMPLETED:
                assert response.data == leaves(tree)
            else:  # itself, or what it was made for
                assert response.error is not None
                assert "node_full" in f"{response.error.code} {response.error.message}", response

    check()


def test_a_hundred_that_wait_for_one_end_though_only_two_may_wait_at_a_time(bus: Runtime) -> None:
    waiters = bus.start_many(Relay, 100, name="waiter")
    params = {"level": 0, "branches": [[0, []]]}

    handles = [bus.delegate("relay.count", params, to=waiter.name) for waiter in waiters]

    assert [handle.result().data for handle in handles] == [1] * 100


def test_those_who_wait_for_one_lease_end_though_its_holder_needs_a_thread_after_them(bus: Runtime) -> None:
    class Writer(Agent):
        @capability("file.write")
        def write(self, task: Task) -> int:
            with task.lease(resource="the file"):
                return task.delegate("relay.count", {"level": 3, "branches": []}).result().unwrap().data

    writers = bus.start_many(Writer, 30, name="writer")

    handles = [bus.delegate("file.write", to=writer.name, timeout=PATIENCE) for writer in writers]

    responses = [handle.result() for handle in handles]
    assert {response.status for response in responses} == {Status.COMPLETED}


def test_where_as_many_wait_as_can_the_rest_is_refused_at_once(bus: Runtime) -> None:
    gate = threading.Event()

    class Gate(ThreadedAgent):
        @capability("gate.pass")
        def through(self) -> int:
            gate.wait(PATIENCE)
            return 1

    class Guest(Agent):
        @capability("guest.enter")
        def enter(self, task: Task) -> int:
            return task.delegate("gate.pass", timeout=PATIENCE).result().unwrap().data

    bus.start(Gate)
    handles = [
        bus.delegate("guest.enter", to=one.name, timeout=PATIENCE) for one in bus.start_many(Guest, 20, name="guest")
    ]

    wait_until(lambda: sum(handle.done for handle in handles) >= 12)
    refused = [handle.result() for handle in handles if handle.done]
    gate.set()

    assert {(response.status, response.error.code) for response in refused} == {(Status.REJECTED_OVERLOAD, "node_full")}
    assert all(response.error.retryable for response in refused)
    assert {response.retry_after for response in refused} == {1.0}
    ended = [handle.result() for handle in handles]
    assert sum(response.status is Status.COMPLETED for response in ended) == len(handles) - len(refused)


def test_work_that_waits_behind_held_work_in_another_mailbox_is_come_to(bus: Runtime) -> None:
    """Both that wait do so for what stands behind new work of one agent, more of it than a node gets at a time."""
    gate = threading.Event()

    class First(Agent):
        @capability("first.do")
        def do(self, task: Task) -> int:
            gate.wait(PATIENCE)
            return task.delegate("second.do", timeout=PATIENCE).result().unwrap().data

    class Second(Agent):
        @capability("second.do")
        def do(self, task: Task) -> int:
            return task.delegate("relay.count", {"level": 3, "branches": []}).result().unwrap().data

    bus.start(Second, name="second")
    first = [bus.delegate("first.do", to=one.name, timeout=PATIENCE) for one in bus.start_many(First, 2, name="first")]
    second = [bus.delegate("second.do", timeout=PATIENCE) for _ in range(300)]
    gate.set()

    outcomes = [handle.result() for handle in [*first, *second]]
    ended = {(response.status, response.error and response.error.code) for response in outcomes}
    assert ended <= {(Status.COMPLETED, None), (Status.REJECTED_OVERLOAD, "node_full")}
    assert outcomes[0].status is outcomes[1].status is Status.COMPLETED


def refuse_threads(monkeypatch: pytest.MonkeyPatch, prefix: str, times: int) -> list[str]:
    """Have the system give no thread of such a name so often; the names of those that were refused are noted."""
    start, refused = threading.Thread.start, []

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith(prefix) and len(refused) < times:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    return refused


def test_a_node_that_was_refused_one_thread_begins_as_much_as_before_a_second_later(monkeypatch: pytest.MonkeyPatch):
    class Sub(Agent):
        @capability("sub.do")
        async def do(self) -> int:
            return 1

    class Boss(Agent):
        max_concurrency = 20

        @capability("boss.do")
        def do(self, task: Task) -> int:
            return task.delegate("sub.do", timeout=PATIENCE).result().unwrap().data

    with Runtime(threads=2) as bus:
        bus.start(Sub)
        bus.start(Boss)
        pool = bus.node.resources.pool
        refused = refuse_threads(monkeypatch, "ether-pool", 1)
        early = [bus.delegate("boss.do", timeout=PATIENCE).result() for _ in range(3)]
        assert refused
        assert {response.status for response in early} <= {Status.COMPLETED, Status.REJECTED_OVERLOAD}
        wait_until(
            lambda: pool.room is pools.Room.ALL and pool._most == pools.MOST_THREADS_WAITING,
            what="the system gave a thread",
        )

        later = [bus.delegate("boss.do", timeout=PATIENCE) for _ in range(20)]
        assert {handle.result().status for handle in later} == {Status.COMPLETED}


def test_an_agent_with_threads_of_its_own_gets_the_one_that_was_refused(monkeypatch: pytest.MonkeyPatch):
    class Own(ThreadedAgent):
        @capability("own.do")
        def do(self) -> int:
            return 1

    with Runtime() as bus:
        refused = refuse_threads(monkeypatch, "ether-agent-own", 1)
        bus.start(Own, name="own")

        assert bus.delegate("own.do", timeout=PATIENCE).result().status is Status.COMPLETED
        assert refused
