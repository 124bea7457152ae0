"""A monitor: told once when an agent or a node goes down (as OTP's `monitor/2`)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from ether_actors.threads.latch import Latch, Waitable
from ether_broker.unread_log import warn_unread

__all__ = ["Monitor"]

logger: logging.Logger = logging.getLogger("ether.node")


class Monitor:
    """A watch on an agent or a node that fires once, when it goes down (as OTP's `monitor/2`); `bus.monitor` makes it.

    It fires immediately if its target does not exist.

    Example:
        monitor = bus.monitor("counter")
        bus.stop("counter")
        assert monitor.wait(timeout=5.0) and monitor.is_down

    Args:
        target: an agent's name, or `node:NAME`.
        wait: the node's function that waits for an event, for some seconds or without limit, and lets the pool work
            meanwhile.
        take_back: removes the monitor from the bus.
    """

    def __init__(
        self, target: str, wait: Callable[[Waitable, float | None], bool] = lambda fired, timeout: fired.wait(timeout),
        take_back: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self.target = target
        """An agent's name, or `node:NAME`."""
        self.reason: str = ""
        """Why it went down; empty until it has fired.

        `unknown` if it was not there, `access_denied` or `too_much` if the bus does not watch it for us, and `broker_lost` if
        nobody knows, as the broker was lost and had no journal.
        """
        self._wait = wait
        self._take_back = take_back
        self._is_down = False
        self._ended = Latch()
        """It has fired, or fires no more."""
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[Monitor], None]] = []

    def __repr__(self) -> str:
        return f"Monitor({self.target!r}, {f'down: {self.reason}' if self._is_down else 'up'})"

    @property
    def is_down(self) -> bool:
        """Whether it has fired."""
        return self._is_down

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it fires; False when `timeout` seconds were not enough, or it was cancelled, or the runtime closed.

        Raises:
            UsageError: it has not fired, and the calling thread runs an event loop or a callback of a handle, which must not
                wait: use `add_callback`.
        """
        if not self._ended.is_set():
            self._wait(self._ended, timeout)
        return self._is_down

    def cancel(self) -> None:
        """Watch no more: it does not fire any more, unless it is about to."""
        self._take_back()
        self.end()

    def add_callback(self, callback: Callable[[Monitor], None]) -> None:
        """Call `callback(monitor)` when it fires, in a thread of the node's pool; if it has, at once and in this thread.

        What it raises there is logged, and keeps no other callback from being called.
        """
        with self._lock:
            if not self.is_down:
                self._callbacks.append(callback)
                return
        callback(self)

    def end(self) -> None:
        """Let go who waits: it fires no more."""
        self._ended.set()

    def fire(self, reason: str) -> None:
        """Note that the target went down."""
        with self._lock:
            if self.is_down:
                return
            self.reason = reason
            self._is_down = True
            self._ended.set()

    def call_back(self) -> None:
        """Call the callbacks that were added before it fired."""
        with self._lock:
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback(self)
            except BaseException as error:  # also SystemExit: it would end a thread of the pool
                logger.exception("a callback of the monitor of %s raised", self.target)
                warn_unread(logger, f"A callback of the monitor of {self.target} raised {error!r:.200}")
