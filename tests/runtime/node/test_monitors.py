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


class Counter(Agent):
    @capability("text.count")
    def count(self, text: str) -> int:
        return len(text.split())


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
        node.delegate("text.count", {"text": "a b"}).add_done_callback(wait)
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
