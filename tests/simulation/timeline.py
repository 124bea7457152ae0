"""What happens next, on virtual time; and clocks that do not quite agree about it."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final

__all__ = ["BEGIN", "Ids", "SkewedClock", "Timeline"]


class Timeline:
    """Calls and the times at which they happen; of two at one time, the one that was added first."""

    __slots__ = ("_added", "_events", "now")

    def __init__(self) -> None:
        self.now = 0.0
        """Seconds since the world began; nobody in it can read this."""
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._added = 0

    def at(self, when: float, call: Callable[[], None]) -> None:
        """Let something happen at a time, or now if that is past."""
        self._added += 1
        heapq.heappush(self._events, (max(when, self.now), self._added, call))

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Let something happen so many seconds from now."""
        self._added += 1
        heapq.heappush(self._events, (self.now + seconds, self._added, call))

    def step(self, end: float) -> bool:
        """Let the next thing happen, if it is due before `end`; else move the time there and return False."""
        if not self._events or self._events[0][0] >= end:
            self.now = end
            return False
        self.now, _, call = heapq.heappop(self._events)
        call()
        return True


BEGIN: Final = 1_700_000_000.0
"""Unix time at which every world begins."""


class SkewedClock:
    """A host's clock: another zero, and a crystal of its own.

    Args:
        timeline: the truth.
        zero: what `monotonic` shows at the beginning.
        rate: its seconds in one true second.
        wall: what `wall` is off by, in seconds.
    """

    __slots__ = ("_timeline", "_wall", "rate", "zero")

    def __init__(self, timeline: Timeline, zero: float, rate: float = 1.0, wall: float = 0.0) -> None:
        self._timeline = timeline
        self.zero = zero
        self.rate = rate
        self._wall = BEGIN + wall

    def monotonic(self) -> float:
        """Seconds by this clock."""
        return self.zero + self._timeline.now * self.rate

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward, or back."""
        self._wall += seconds

    def wall(self) -> float:
        """Unix time by this host."""
        return self._wall + self._timeline.now * self.rate

    def truth(self, shown: float) -> float:
        """The timeline's time at which `monotonic` shows that."""
        return (shown - self.zero) / self.rate


class Ids:
    """The ids of one process, as `ether_broker.envelope.ids` makes them: they rise, and end alike.

    Args:
        clock: of its host.
        process: which it is, among all.
    """

    __slots__ = ("_clock", "_count", "_highest", "_process")

    def __init__(self, clock: SkewedClock, process: int) -> None:
        self._clock = clock
        self._process = process
        self._highest = self._count = 0

    def __call__(self) -> bytes:
        """Make one."""
        self._highest = max(self._highest, int(self._clock.wall() * 1000))
        self._count += 1
        return (self._highest << 80 | 0x7 << 76 | 0b10 << 62 | self._count << 40 | self._process).to_bytes(16)
