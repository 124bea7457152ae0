"""The base of a benchmark's roles, and the summary of the times that they measure."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final

__all__ = ["CHUNK", "Info", "Role", "nearest_rank", "pipelined", "serial", "summary"]

Info = dict[str, Any]
"""What goes between a role and the harness, as JSON."""
CHUNK: Final = 64
"""Round trips between two looks at the clock."""


class Role(ExitStack):
    """The base of a role: what one process of a benchmark does. By itself it does nothing.

    It is a stack of what it has opened, all of which is closed when the role ends.

    Args:
        options: what the processes before it said, such as the broker's `endpoint`.
    """

    def __init__(self, options: Info) -> None:
        super().__init__()
        self.options = options

    def start(self) -> Info:
        """Get ready; what it returns goes to the processes after it and to the harness."""
        return {}

    def run(self, order: Info) -> Info:
        """Do what the harness orders, which is the name of a method (`do`) with its arguments, and say how it went."""
        said: Info = getattr(self, order.pop("do"))(**order)
        return said


def serial(round_trip: Callable[[], Any], seconds: float) -> Info:
    """Make one round trip after the other for that many seconds, each timed."""
    clock = time.perf_counter
    times: list[float] = []
    note = times.append
    start = before = clock()
    end = start + seconds
    while before < end:
        round_trip()
        after = clock()
        note(after - before)
        before = after
    return summary(times, before - start)


def pipelined(begin: Callable[[], Callable[[], Any]], window: int, seconds: float) -> Info:
    """Keep so many round trips open for that many seconds, and wait for the oldest."""
    open_: deque[Callable[[], Any]] = deque(begin() for _ in range(window))
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for _ in range(CHUNK):
            open_.popleft()()
            open_.append(begin())
        count += CHUNK
    taken = time.perf_counter() - start
    for end in open_:
        end()
    return {"count": count, "seconds": taken}


def summary(times: list[float], seconds: float) -> Info:
    """Count, seconds, and the median and 99th percentile of the round trips in seconds."""
    times.sort()
    return {"count": len(times), "seconds": seconds, "p50": nearest_rank(times, 0.50), "p99": nearest_rank(times, 0.99)}


def nearest_rank(ordered: list[float], part: float) -> float:
    """The smallest of the ordered values that at least that part of them do not exceed."""
    return ordered[max(0, -(-len(ordered) * round(part * 100) // 100) - 1)]
