"""A flag that is set once, and waited for."""

from __future__ import annotations

import threading
import time
from typing import Final, Protocol

__all__ = ["Latch", "Waitable"]

_SLICE: Final = 1.0
"""Seconds after which a wait looks again: another that was interrupted may not have passed on that the latch is set."""


class Waitable(Protocol):
    """The interface of what can be waited for: a `Latch`, or a `threading.Event`."""

    def is_set(self) -> bool:
        """Whether it has been set."""

    def wait(self, timeout: float | None = None, /) -> bool:
        """Wait until it is set, `timeout` seconds at most; returns whether it is."""


class Latch:
    """A flag that is set once, and waited for in any thread.

    As a `threading.Event`, but `set` never waits. An Event has a lock that a wait may leave held, if the handler of a signal
    raises in the middle of it, as Ctrl-C's does: then whoever sets it waits for ever.
    """

    __slots__ = ("_closed", "_is_set")

    def __init__(self) -> None:
        self._closed = threading.Lock()
        self._closed.acquire()
        self._is_set = False

    def is_set(self) -> bool:
        """Whether it has been set."""
        return self._is_set

    def set(self) -> None:
        """Set it, and let all go on that wait for it; again has no effect."""
        if not self._is_set:
            self._is_set = True
            try:  # noqa: SIM105  suppress() costs as much as the rest
                self._closed.release()
            except RuntimeError:  # another thread has just done so
                pass

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, `timeout` seconds at most; returns whether it is."""
        closed, end = self._closed, None if timeout is None else time.monotonic() + timeout
        left = _SLICE if timeout is None else min(_SLICE, timeout)
        while not self._is_set and left > 0.0:
            if closed.acquire(timeout=left):
                try:  # noqa: SIM105
                    closed.release()  # the next who waits goes on
                except RuntimeError:  # of two that set it at once, one has just done so
                    pass
            left = _SLICE if end is None else min(_SLICE, end - time.monotonic())
        return self._is_set
