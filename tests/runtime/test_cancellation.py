"""An `async def` handler that is cancelled before the event loop came to it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from ether import Agent, Runtime, Status, capability
from ether_actors.threads.event_loop import EventLoop
from tests.support import wait_until

begun: list[str] = []


class Sleeper(Agent):
    @capability("sleep.long")
    async def sleep(self, name: str) -> None:
        begun.append(name)
        await asyncio.sleep(60)

    @capability("sleep.not")
    async def wake(self) -> str:
        return "awake"


@pytest.fixture
def bus() -> Iterator[Runtime]:
    begun.clear()
    with Runtime() as runtime:
        runtime.start(Sleeper, name="ann")
        assert runtime.delegate("sleep.not").result(10).data == "awake"
        yield runtime


def is_free(bus: Runtime) -> bool:
    """Whether the agent's one place can be taken again."""
    return bus.delegate("sleep.not", timeout=5).result(10).ok


def hold(loop: EventLoop) -> threading.Event:
    """Hold the event loop up until what is returned is set."""
    is_held, go_on = threading.Event(), threading.Event()

    def stand_still() -> None:
        is_held.set()
        go_on.wait(30)

    loop.call(stand_still)
    assert is_held.wait(10)
    return go_on


def test_it_is_never_started_and_its_place_is_free_again(bus: Runtime) -> None:
    loop = bus.node.resources.loop
    go_on = hold(loop)
    handle = bus.delegate("sleep.long", {"name": "a"})
    wait_until(lambda: loop._calls, what="the handler waits for the loop")
    handle.cancel()
    assert handle.result(10).status is Status.CANCELLED
    go_on.set()

    assert is_free(bus)
    assert begun == []


def test_it_is_told_even_when_it_was_only_just_spawned(bus: Runtime) -> None:
    loop, cell = bus.node.resources.loop, bus.node.agent_host.cell("ann")
    go_on = hold(loop)
    handle = bus.delegate("sleep.long", {"name": "a"})
    wait_until(lambda: loop._calls, what="the handler waits for the loop")
    loop.call(lambda: cell.cancel(handle.key, 1))  # right behind it, in the same turn of the loop
    go_on.set()

    assert handle.result(10).status is Status.CANCELLED
    assert is_free(bus)
    assert begun == []


def test_a_running_one_is_cancelled_at_its_await(bus: Runtime) -> None:
    handle = bus.delegate("sleep.long", {"name": "a"})
    wait_until(lambda: begun, what="the handler runs")
    handle.cancel()

    assert handle.result(10).status is Status.CANCELLED
    assert is_free(bus)
