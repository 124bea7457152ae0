"""Time as the machines see it: a number handed to them, never a clock of their own."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "ManualClock", "SystemClock"]


class Clock(Protocol):
    """Where a shell reads the time that it hands to its machines."""

    def monotonic(self) -> float:
        """Seconds that never go back; the zero means nothing."""
        ...

    def wall(self) -> float:
        """Seconds since 1970 in UTC, for people; never used to decide."""
        ...


class SystemClock:
    """The machine's own clocks."""

    monotonic = staticmethod(time.monotonic)
    wall = staticmethod(time.time)


class ManualClock:
    """A clock that stands until it is told to move; for tests and simulations."""

    def __init__(self, start: float = 1_000_000.0) -> None:
        self._now = start

    def monotonic(self) -> float:
        """The time it was last set to, in seconds."""
        return self._now

    wall = monotonic

    def advance(self, seconds: float) -> float:
        """Move forward and return the new time.

        Raises:
            ValueError: `seconds` is negative.
        """
        if seconds < 0:
            msg = f"A clock does not go back: advance({seconds})."
            raise ValueError(msg)
        self._now += seconds
        return self._now
