from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from ether_actors.threads.event_loop import EventLoop
from tests.support import wait_until

PATIENCE = 10.0


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    made = EventLoop("test-loop")
    yield made
    made.close()


def spawned(loop: EventLoop, coroutine) -> asyncio.Task[None]:
    """Start a coroutine in the loop and return its task."""
    made: list[asyncio.Task[None]] = []
    done = threading.Event()
    loop.call(lambda: (made.append(loop.spawn(coroutine)), done.set()))
    assert done.wait(PATIENCE)
    return made[0]


def test_it_has_no_thread_before_it_is_needed_and_none_after_it_was_closed():
    loop = EventLoop("lazy-loop")
    assert not [thread for thread in threading.enumerate() if thread.name == "lazy-loop"]
    loop.call(lambda: None)
    assert [thread for thread in threading.enumerate() if thread.name == "lazy-loop"]

    loop.close()

    assert not [thread for thread in threading.enumerate() if thread.name == "lazy-loop"]


def test_calls_run_in_its_thread_in_their_order(loop: EventLoop):
    seen: list[object] = []
    done = threading.Event()
    for number in range(100):
        loop.call(lambda number=number: seen.append(number))
    loop.call(lambda: (seen.append(loop.is_current), done.set()))

    assert done.wait(PATIENCE)
    assert seen == [*range(100), True]
    assert not loop.is_current


def test_a_call_that_raises_is_logged_and_the_next_one_runs(loop: EventLoop, caplog):
    done = threading.Event()
    with caplog.at_level(logging.ERROR, "ether.loop"):
        loop.call(lambda: 1 / 0)
        loop.call(done.set)
        assert done.wait(PATIENCE)

    assert "ZeroDivisionError" in caplog.text


def test_a_coroutine_that_was_just_spawned_gets_to_its_first_await_before_it_is_cancelled(loop: EventLoop):
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
    loop = EventLoop()
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


def test_closing_runs_what_was_called_before_and_each_coroutine_to_its_first_await():
    loop = EventLoop()
    steps: list[str] = []
    began, release = threading.Event(), threading.Event()

    async def inner() -> None:
        steps.append("began")
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            steps.append("ended")

    async def work(waited_for: Coroutine[Any, Any, None]) -> None:
        await waited_for

    loop.call(lambda: (began.set(), release.wait(PATIENCE)))
    assert began.wait(PATIENCE)
    loop.call(lambda: loop.spawn(work(inner())))
    closing = threading.Thread(target=loop.close)
    closing.start()
    wait_until(lambda: loop._closed)
    release.set()
    closing.join()

    assert steps == ["began", "ended"]


def test_a_call_after_the_close_is_dropped_and_starts_no_thread():
    used, unused = EventLoop("closed-loop"), EventLoop("closed-loop")
    used.call(lambda: None)
    seen: list[int] = []

    for loop in (used, unused):
        loop.close()
        assert not loop.call(lambda: seen.append(1))

    assert seen == []
    assert not [thread for thread in threading.enumerate() if thread.name == "closed-loop"]


def test_closing_twice_is_once(loop: EventLoop):
    loop.call(lambda: None)

    loop.close()
    loop.close()


def stand_still(loop: EventLoop) -> None:
    """Tick until it is found to stand still, as a node does every 0.1 s."""
    for _ in range(6):
        assert not loop.stands_still
        loop.ticked()
    assert loop.stands_still


def test_an_idle_loop_is_not_woken(loop: EventLoop, monkeypatch: pytest.MonkeyPatch):
    ran = threading.Event()
    loop.call(ran.set)
    assert ran.wait(PATIENCE)
    wait_until(lambda: not loop._is_draining)
    woken: list[object] = []
    monkeypatch.setattr(loop._loop, "call_soon_threadsafe", lambda *call: woken.append(call))

    assert not any(loop.ticked() for _ in range(20))

    assert woken == []
    monkeypatch.undo()


def test_a_loop_that_works_and_comes_round_does_not_stand_still(loop: EventLoop):
    spawned(loop, asyncio.sleep(PATIENCE))

    for _ in range(20):
        loop.ticked()
        wait_until(lambda: loop._unanswered < 0)

    assert not loop.stands_still


@pytest.mark.parametrize("kind", ["task", "call"])
def test_a_loop_that_is_kept_stands_still_until_it_comes_round(loop: EventLoop, kind: str):
    release, began = threading.Event(), threading.Event()

    def keep() -> None:
        began.set()
        release.wait(PATIENCE)

    async def work() -> None:
        keep()

    loop.call(keep if kind == "call" else lambda: loop.spawn(work()))
    assert began.wait(PATIENCE)

    stand_still(loop)
    assert (loop.task is not None) == (kind == "task")
    assert "keep" in [frame.name for frame in loop.stack()]

    release.set()
    wait_until(lambda: not loop.ticked())


def test_a_loop_whose_thread_gets_no_time_is_not_kept_by_anybody(loop: EventLoop):
    task = spawned(loop, asyncio.sleep(PATIENCE))
    loop._unanswered = 10  # as if the machine had not run the thread

    assert loop.task is None
    assert not loop.stands_still
    loop.cancel(task)


def test_a_loop_that_was_given_up_is_replaced_and_ends_when_it_can(loop: EventLoop):
    release, began = threading.Event(), threading.Event()
    ended: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            ended.append("cancelled")

    async def block() -> None:
        began.set()
        release.wait(PATIENCE)

    waiting = spawned(loop, wait())
    loop.call(lambda: loop.spawn(block()))
    assert began.wait(PATIENCE)
    thread = loop._thread
    assert thread is not None
    ran: list[object] = []
    loop.call(lambda: ran.append(threading.current_thread()))

    loop.give_up()

    wait_until(lambda: ran)
    assert ran[0] is loop._thread
    assert ran[0] is not thread
    assert not loop.ticked()
    assert ended == []
    release.set()
    thread.join(PATIENCE)
    assert ended == ["cancelled"]
    loop.cancel(waiting)  # its loop is closed: nothing is left to cancel
