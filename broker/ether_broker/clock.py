"""Clocks: the system's, and one that moves when it is told to. State machines are handed the time and read no clock."""

from __future__ import annotations

import contextlib
import time
from math import isfinite
from pathlib import Path
from typing import Final, Protocol

from ether_broker.errors import UsageError
from ether_broker.number import is_number

__all__ = ["Clock", "ManualClock", "SystemClock"]

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


class Clock(Protocol):
    """The interface of a clock: monotonic and wall time, which shells read and hand to the state machines; any thread may.

    tests/broker/test_clock_conformance.py checks what is promised here, of every kind; a further one is a class with these
    three members, and an entry there.
    """

    @property
    def boot(self) -> str:
        """Which start of the machine this is: processes that are told the same share one `monotonic`; "" is unknown.

        The same as long as `monotonic` has not started again.
        """

    def monotonic(self) -> float:
        """Seconds that never go back while `boot` is the same, whatever becomes of the time of day; the zero means nothing."""

    def wall(self) -> float:
        """Seconds since 1970 in UTC, for people; decides only how long a machine was off, since nothing else says that.

        It goes on as `monotonic` does, unless somebody sets it, forward or back.
        """


class SystemClock:
    """The clock of the machine."""

    def __init__(self) -> None:
        self.boot = ""
        """As `Clock.boot`; Linux tells it, other systems do not."""
        with contextlib.suppress(OSError):
            self.boot = _BOOT.read_text("ascii").strip()

    monotonic = staticmethod(time.monotonic)
    wall = staticmethod(time.time)


class ManualClock:
    """A clock that stands until it is told to move; for tests and simulations.

    Args:
        start: what it shows at first, in seconds since 1970; the default is 12 January 1970, 13:46:40 UTC.

    Example:
        clock = ManualClock()
        with TestRuntime(clock=clock) as simulated:
            before = clock.monotonic()
            simulated.advance(60.0)
            assert clock.monotonic() - before == 60.0
    """

    def __init__(self, start: float = 1_000_000.0) -> None:
        if not is_number(start) or not isfinite(start):
            raise UsageError(
                f"ManualClock starts at seconds since 1970, and not at {start!r:.60}: when.timestamp() has them."
            )
        self._now = float(start)
        self._ahead = 0.0
        self._boots = 1

    @property
    def boot(self) -> str:
        """Changes with `reboot`."""
        return f"boot-{self._boots}"

    def monotonic(self) -> float:
        """The time it was last set to, in seconds."""
        return self._now

    def wall(self) -> float:
        """The same, but for what `jump` and `reboot` did."""
        return self._now + self._ahead

    def advance(self, seconds: float) -> float:
        """Move forward and return the new time.

        Raises:
            ValueError: `seconds` is negative.
        """
        if seconds < 0:
            raise ValueError(f"A clock does not go back: advance({seconds}).")
        self._now += seconds
        return self._now

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward, or back; the monotonic one stays."""
        self._ahead += seconds

    def reboot(self, off: float = 0.0, start: float = 0.0) -> None:
        """Restart the machine: the monotonic clock begins at `start`, and the wall clock went on for `off` seconds."""
        self._ahead += off + self._now - start
        self._now = start
        self._boots += 1
