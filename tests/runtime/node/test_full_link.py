"""A node whose link is full: what it owes is kept, what is new is refused, progress folds, and it shows that it lives."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from ether import Agent, Response, Status, Task, capability
from ether.testing import TestRuntime
from ether_broker.timing import DEFAULT_TIMING

SILENCE = DEFAULT_TIMING.silence


class Worker(Agent):
    """Works for a while, and says how far it is."""

    max_concurrency = 64

    @capability("work")
    async def work(self, seconds: float, size: int = 0) -> str:
        await asyncio.sleep(seconds)
        return "x" * size

    @capability("count")
    async def count(self, seconds: float, parts: int, after: float, task: Task) -> int:
        await asyncio.sleep(seconds)
        for part in range(parts):
            task.progress(0.5, data={"part": part})
        await asyncio.sleep(after)
        return parts


class Single(Worker):
    """A worker of one place."""

    max_concurrency = 1


class Buses:
    """A bus on which one node delegates and another works."""

    def __init__(self, bus: TestRuntime, node: TestRuntime) -> None:
        self.bus = bus
        self.node = node

    def fill(self) -> None:
        """Let the worker's link be full, whatever waits."""
        self.node.link.backlog = -1


@pytest.fixture
def two() -> Iterator[Buses]:
    with TestRuntime() as bus, bus.join("there") as node:
        node.start(Worker)
        yield Buses(bus, node)


def code(response: Response) -> str:
    return "" if response.error is None else response.error.code


def test_outcomes_that_overfill_the_link_while_the_broker_is_out_of_reach_arrive_when_it_is_back(two: Buses):
    bus, link = two.bus, two.node.link
    handles = [bus.delegate("work", {"seconds": 0.1, "size": 1_000}) for _ in range(50)]
    bus.run()
    link.backlog = 10_000
    link.cut()
    bus.advance(1.0)
    assert link.is_full

    link.mend()
    bus.advance(1.0)

    assert [handle.outcome().status for handle in handles] == [Status.COMPLETED] * 50


def test_a_node_whose_link_is_full_shows_that_it_lives():
    with TestRuntime() as bus, bus.join("there") as node:
        node.start(Worker)
        handle = bus.delegate("work", {"seconds": 3 * SILENCE})
        bus.run()
        node.link.backlog = -1

        bus.advance(4 * SILENCE)

        assert handle.outcome().status is Status.COMPLETED


def test_what_starts_new_work_is_refused_by_a_full_link_and_calling_off_is_not(two: Buses):
    bus = two.bus
    running = bus.delegate("work", {"seconds": 10.0})
    bus.run()
    bus.link.backlog = -1

    refused = bus.delegate("work", {"seconds": 0.0})
    running.cancel()
    bus.run()

    assert code(refused.outcome()) == "link_full"
    assert running.outcome().status is Status.CANCELLED


def test_work_that_does_not_wait_for_the_journal_is_not_taken_by_a_node_whose_link_is_full(two: Buses):
    volatile = two.bus.delegate("work", {"seconds": 0.0}, durability="memory")
    other = two.bus.delegate("work", {"seconds": 0.0})
    two.fill()
    two.bus.run()

    assert (volatile.outcome().status, code(volatile.outcome())) == (Status.REJECTED_OVERLOAD, "mailbox_full")
    assert other.outcome().status is Status.COMPLETED


def test_what_was_not_started_goes_to_others_when_an_agent_stops_on_a_node_whose_link_is_full(two: Buses):
    bus = two.bus
    with bus.join("first") as first:
        first.start(Single, name="one")
        waits = [bus.delegate("work", {"seconds": 1.0}, to="one", fallback=True) for _ in range(2)][1]
        bus.run()
        first.link.backlog = -1

        first.stop("one", timeout=0.0)
        bus.advance(2.0)

        assert waits.outcome().from_agent == "worker"


def parts(two: Buses, *, after: float, is_full_for: float) -> list[tuple[object, object]]:
    """(part, how many were folded into it) of what a stream tells of ten parts that come at once on a full link."""
    handle = two.bus.delegate("count", {"seconds": 0.1, "parts": 10, "after": after})
    stream = handle.stream()
    two.bus.run()
    two.fill()
    two.bus.advance(is_full_for)
    two.node.link.backlog = 1 << 20
    two.bus.advance(5.0)
    assert handle.outcome().status is Status.COMPLETED
    told = [response for response in stream if response.status is Status.PROGRESS]
    return [(response.data["part"], response.metadata.get("folded", 0)) for response in told]


def test_the_newest_progress_waits_until_the_link_has_room_and_says_how_many_it_stands_for(two: Buses):
    assert parts(two, after=3.0, is_full_for=1.0) == [(9, 9)]


def test_the_newest_progress_goes_before_the_outcome_though_the_link_is_full(two: Buses):
    assert parts(two, after=0.5, is_full_for=1.0) == [(9, 9)]


def test_progress_is_told_as_it_comes_when_the_link_has_room_again(two: Buses):
    assert parts(two, after=0.5, is_full_for=0.05) == [(part, 0) for part in range(10)]
