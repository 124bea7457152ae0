from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator

import pytest

from ether_actors.loop import LoopThread

PATIENCE = 10.0


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    made = LoopThread("test-loop")
    yield made
    made.close()


def spawned(loop: LoopThread, coroutine) -> asyncio.Task[None]:
    """Start a coroutine in the loop and return its task."""
    made: list[asyncio.Task[None]] = []
    done = threading.Event()
    loop.call(lambda: (made.append(loop.spawn(coroutine)), done.set()))
    assert done.wait(PATIENCE)
    return made[0]


def test_it_has_no_thread_before_it_is_needed_and_none_after_it_was_closed():
    loop = LoopThread("lazy-loop")
    assert not [thread for thread in threading.enumerate() if thread.name == "lazy-loop"]
    loop.call(lambda: None)
    assert [thread for thread in threading.enumerate() if thread.name == "lazy-loop"]

    loop.close()

    assert not [thread for thread in threading.enumerate() if thread.name == "lazy-loop"]


def test_calls_run_in_its_thread_in_their_order(loop: LoopThread):
    seen: list[object] = []
    done = threading.Event()
    for number in range(100):
        loop.call(lambda number=number: seen.append(number))
    loop.call(lambda: (seen.append(loop.is_current), done.set()))

    assert done.wait(PATIENCE)
    assert seen == [*range(100), True]
    assert not loop.is_current


def test_a_call_that_raises_is_logged_and_the_next_one_runs(loop: LoopThread, caplog):
    done = threading.Event()
    with caplog.at_level(logging.ERROR, "ether.loop"):
        loop.call(lambda: 1 / 0)
        loop.call(done.set)
        assert done.wait(PATIENCE)

    assert "ZeroDivisionError" in caplog.text


def test_a_coroutine_that_was_just_spawned_gets_to_its_first_await_before_it_is_cancelled(loop: LoopThread):
    steps: list[str] = []
    ended = threading.Event()

    async def work() -> None:
        steps.append("began")
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            steps.append("ended")
            ended.set()

    loop.call(lambda: loop.cancel(loop.spawn(work())))

    assert ended.wait(PATIENCE)
    assert steps == ["began", "ended"]


def test_closing_cancels_what_runs_and_waits_for_what_it_does_about_that():
    loop = LoopThread()
    steps: list[str] = []
    began = threading.Event()

    async def work() -> None:
        began.set()
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            await asyncio.sleep(0)
            steps.append("cleaned up")

    spawned(loop, work())
    assert began.wait(PATIENCE)

    loop.close()

    assert steps == ["cleaned up"]


def test_a_call_after_the_close_is_dropped_and_starts_no_thread():
    used, unused = LoopThread("closed-loop"), LoopThread("closed-loop")
    used.call(lambda: None)
    seen: list[int] = []

    for loop in (used, unused):
        loop.close()
        loop.call(lambda: seen.append(1))

    assert seen == []
    assert not [thread for thread in threading.enumerate() if thread.name == "closed-loop"]


def test_closing_twice_is_once(loop: LoopThread):
    loop.call(lambda: None)

    loop.close()
    loop.close()
