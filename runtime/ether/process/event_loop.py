"""A thread's own loop: it waits for file descriptors, for times, and for calls from other threads.

post ──► eventfd ──┐
watch ─► selector ─┴─► run ──► one call after the other, in the thread that called `run`
call_at ─► Timers ─┘
"""

from __future__ import annotations

import logging
import os
import selectors
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ether_actors.execution.timers import Timers

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

__all__ = ["ProcessEventLoop"]

logger: logging.Logger = logging.getLogger("ether.process")


class ProcessEventLoop:
    """Calls what is due, one at a time; what one of them raises is logged, and the others go on.

    `post` may be called from any thread before `close`; everything else belongs to the thread of `run`.
    """

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector.register(self._wake, selectors.EVENT_READ, self._woken)
        self._calls: deque[Callable[[], None]] = deque()
        self._timers = Timers()

    def post(self, call: Callable[[], None]) -> None:
        """Have a callable called soon."""
        self._calls.append(call)
        os.eventfd_write(self._wake, 1)

    def call_at(self, at: float, call: Callable[[], None]) -> None:
        """Have a callable called at a time by `time.monotonic()`."""
        self._timers.add(at, call)

    def watch(self, file: FileDescriptorLike, call: Callable[[], None]) -> None:
        """Have a callable called whenever something can be read."""
        self._selector.register(file, selectors.EVENT_READ, call)

    def is_watched(self, file: FileDescriptorLike) -> bool:
        """Whether `watch` was called for it, and `unwatch` not since."""
        return file in self._selector.get_map()

    def unwatch(self, file: FileDescriptorLike) -> None:
        """End a `watch`; before the file is closed."""
        self._selector.unregister(file)

    def run(self, is_over: Callable[[], bool]) -> None:
        """Call what is due until `is_over()`, which is asked after each round."""
        while not is_over():
            due = self._timers.next_due()
            wait = None if due == float("inf") else max(0.0, due - time.monotonic())
            for key, _ in self._selector.select(wait):
                _guarded(key.data)
            for call in self._timers.take_due(time.monotonic()):
                _guarded(call)

    def _woken(self) -> None:
        os.eventfd_read(self._wake)
        while self._calls:
            _guarded(self._calls.popleft())

    def close(self) -> None:
        """Close what it has opened."""
        self._selector.close()
        os.close(self._wake)


def _guarded(call: Callable[[], None]) -> None:
    try:
        call()
    except Exception:
        logger.exception("a step failed; this is a bug")
