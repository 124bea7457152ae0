"""How long, how much, and what happens meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ether_broker.errors import UsageError

__all__ = ["Settings"]

_LEAST: Final = 5.0
_WARM: Final = 150.0
_WINDOW: Final = 10.0


def _silent(_line: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Settings:
    """How a soak is run.

    Raises:
        UsageError: a value that cannot be; the message names it.
    """

    seconds: float = 600.0
    """For which the load is held."""
    load: float = 0.5
    """The part of the measured maximum rate that is held."""
    rate: float | None = None
    """Delegations a second that are held; None measures the maximum first."""
    transport: str = "ipc"
    """`ipc`, or `tcp` on the loopback."""
    folder: Path | None = None
    """Where the journal is made, and left; None is a temporary folder that goes with the soak."""
    tell: Callable[[str], None] = field(default=_silent)
    """Called with a line for people as it goes on."""

    def __post_init__(self) -> None:
        if not _LEAST <= self.seconds < float("inf"):
            raise UsageError(f"seconds={self.seconds!r}: give {_LEAST:g} or more.")
        if not 0 < self.load <= 1:
            raise UsageError(f"load={self.load!r}: give a part of the maximum, above 0 and at most 1.")
        if self.rate is not None and not 1 <= self.rate < float("inf"):
            raise UsageError(f"rate={self.rate!r}: give delegations a second, 1 or more.")
        if self.transport not in {"tcp", "ipc"}:
            raise UsageError(f"transport={self.transport!r}: choose tcp or ipc.")

    @property
    def warm_up(self) -> float:
        """Seconds after which memory is looked at: by then what is bounded is full, if the soak is long enough."""
        return min(_WARM, self.seconds / 4)

    @property
    def window(self) -> float:
        """Seconds over which latencies are taken together."""
        return min(_WINDOW, self.seconds / 12)

    @property
    def thirds(self) -> tuple[float, float]:
        """Seconds at which the middle third begins and ends: what disturbs happens in it, the others are compared."""
        return self.seconds / 3, 2 * self.seconds / 3

    @property
    def stalls(self) -> tuple[tuple[float, float], ...]:
        """When an observer stands still, from and to: in the warm-up, and for the first half of the middle third."""
        begin, end = self.thirds
        return (self.warm_up / 4, self.warm_up / 2), (begin, (begin + end) / 2)
