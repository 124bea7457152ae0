"""A queue of calls and the times at which they are due."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable
from typing import Final

__all__ = ["DueCalls"]

_FEW: Final = 256
"""Calls among which those that are void are not looked for."""


class DueCalls:
    """A queue of callables and the times at which they are due.

    It reads no clock and runs nothing; any thread may use it. A callable whose attribute `is_void` is true may be left out: of
    those no more are kept than twice the others that there have been at a time, and 256.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._most = _FEW
        """Calls that may wait before the void ones are left out."""

    def add(self, at: float, call: Callable[[], None]) -> None:
        """Keep a callable until a time in seconds."""
        with self._lock:
            if len(self._waiting) >= self._most:
                self._waiting = [item for item in self._waiting if not _is_void(item[2])]
                heapq.heapify(self._waiting)
                self._most = 2 * len(self._waiting) + _FEW
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


def _is_void(call: object) -> bool:
    return getattr(call, "is_void", False)
