"""Monitors: what can be monitored, who may wait for one, and what its callbacks may do to each other."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from ether import Agent, Runtime, UsageError, capability

MUST_NOT: Final = (
    "monitor.wait would stop this thread, which runs an event loop or a callback of a handle: use monitor.add_callback(…), "
    "or await asyncio.to_thread(monitor.wait)."
)


released: Final = threading.Event()


class Counter(Agent):
    @capability("text.count")
    def count(self, text: str) -> int:
        return len(text.split())

    @capability("text.held")
    def hold(self) -> None:
        assert released.wait(10.0)


@pytest.fixture
def bus() -> Iterator[Runtime]:
    with Runtime() as bus:
        bus.start(Counter)
        yield bus


@pytest.mark.parametrize("target", ["x" * 201, "a b", "\ud800", "\x1b[2J", "node: ", "node:", "node:" + "x" * 196, ""])
def test_what_nobody_can_be_called_is_not_monitored_and_leaves_nothing(bus: Runtime, target: str) -> None:
    with pytest.raises(UsageError, match="is no name of an agent"):
        bus.monitor(target)

    assert bus.node.monitors.wishes() == []
    assert bus.monitor("nobody").wait(5.0)
    assert bus.monitor("node:" + "x" * 195).wait(5.0)


def test_a_callback_of_a_handle_must_not_wait_for_a_monitor(tmp_path: Path) -> None:
    said: list[Any] = []
    called = threading.Event()

    def wait(_handle: object) -> None:
        try:
            said.append(node.monitor("nobody").wait(2.0))
        except UsageError as error:
            said.append(str(error))
        called.set()

    url = f"ipc://{tmp_path}/bus.sock"
    with Runtime(bind=url) as bus, Runtime.connect(url) as node:
        bus.start(Counter)
        released.clear()
        node.delegate("text.held").add_done_callback(wait)
        released.set()
        assert called.wait(10.0)
    assert said == [MUST_NOT]


def test_an_event_loop_must_not_wait_for_a_monitor(bus: Runtime) -> None:
    async def wait() -> None:
        bus.monitor("nobody").wait(1.0)

    with pytest.raises(UsageError, match=re.escape(MUST_NOT)):
        asyncio.run(wait())


def test_a_callback_that_raises_is_logged_and_the_others_are_called(
    bus: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    monitor = bus.monitor("counter")
    called = threading.Event()
    monitor.add_callback(lambda _: 1 / 0)
    monitor.add_callback(lambda _: called.set())
    bus.stop("counter")

    assert called.wait(5.0)
    assert "a callback of the monitor of counter raised" in caplog.text, "in the order in which they were added"
    with pytest.raises(ZeroDivisionError):
        monitor.add_callback(lambda _: 1 / 0)


@pytest.mark.parametrize("how", ["cancel", "close"])
def test_who_waits_is_let_go_when_nobody_will_tell_any_more(tmp_path: Path, how: str) -> None:
    said: list[bool] = []
    url = f"ipc://{tmp_path}/bus.sock"
    with Runtime(bind=url) as bus, Runtime.connect(url) as node:
        bus.start(Counter)
        monitor = node.monitor("counter")
        waiting = threading.Thread(target=lambda: said.append(monitor.wait()))
        waiting.start()
        monitor.cancel() if how == "cancel" else node.close()
        waiting.join(10.0)
        assert not waiting.is_alive()
        assert said == [False]
        assert not monitor.is_down
        assert repr(monitor) == "Monitor('counter', up)"
        assert not monitor.reason
        assert monitor.wait() is False


def test_a_task_that_waits_in_a_thread_does_not_keep_its_program_from_ending(tmp_path: Path) -> None:
    url = f"ipc://{tmp_path}/bus.sock"

    async def main() -> None:
        async with Runtime.connect(url) as node:
            waiting = asyncio.create_task(asyncio.to_thread(node.monitor("counter").wait))
            await asyncio.sleep(0.05)
            waiting.cancel()

    with Runtime(bind=url) as bus:
        bus.start(Counter)
        program = threading.Thread(target=asyncio.run, args=(main(),))
        program.start()
        program.join(10.0)
        assert not program.is_alive()


def test_one_that_is_made_as_the_runtime_closes_is_let_go(bus: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monitors = bus.node.monitors
    send = monitors._sender.send_now
    monkeypatch.setattr(type(monitors._sender), "send_now", lambda _self, said: (monitors.close(), send(said)))
    assert monitors.monitor("counter").wait() is False


def test_one_that_is_made_as_what_the_broker_owed_ends_is_watched_by_the_next(
    bus: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, made = bus.node._session, list[Any]()
    monkeypatch.setattr(session, "_begin_link", lambda renew: renew([]))
    monkeypatch.setattr(bus.node.outgoing, "lose", lambda _owed: made.append(bus.monitor("counter")))
    before = bus.monitor("counter")

    session._restart()

    assert before.wait(10.0)
    assert before.reason == "broker_lost"
    assert not made[0].is_down
    bus.stop("counter")
    assert made[0].wait(10.0)
    assert made[0].reason == "stopped"


def test_who_waits_need_not_wait_for_the_pool(bus: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monitor = bus.monitor("nobody")
    assert monitor.wait(5.0)
    callbacks: list[Any] = []
    monkeypatch.setattr(bus.node.resources, "run", callbacks.append)  # its threads are all busy
    second = bus.monitor("nobody")
    second.add_callback(lambda one: None)
    assert second.wait(5.0)
    assert second.reason == "unknown"
    assert repr(second) == "Monitor('nobody', down: unknown)"
