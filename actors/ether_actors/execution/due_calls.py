"""A queue of calls and the times at which they are due."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable

__all__ = ["DueCalls"]


class DueCalls:
    """A queue of callables and the times at which they are due.

    It reads no clock and runs nothing; any thread may use it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def add(self, at: float, call: Callable[[], None]) -> None:
        """Keep a callable until a time in seconds."""
        with self._lock:
            heapq.heappush(self._waiting, (at, next(self._numbers), call))

    def next_due(self) -> float:
        """When the first is due; infinity when there is none."""
        with self._lock:
            return self._waiting[0][0] if self._waiting else float("inf")

    def take_due(self, now: float) -> list[Callable[[], None]]:
        """Take out what is due, the earliest first, and of two at one time the one that was added first."""
        due = []
        with self._lock:
            while self._waiting and self._waiting[0][0] <= now:
                due.append(heapq.heappop(self._waiting)[2])
        return due
