"""The settings of a soak: its length, its load, and the disturbances."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from ether.lab.settings import RunSettings

__all__ = ["SoakSettings"]

_WARM: Final = 150.0
_WINDOW: Final = 10.0


class SoakSettings(RunSettings):
    """The settings of a soak.

    The journal is made in the folder.

    Raises:
        UsageError: a value that cannot be; the message names it.
    """

    seconds: float = Field(600.0, ge=5)
    """Seconds for which the load is held."""
    load: float = Field(0.5, gt=0, le=1)
    """The part of the measured maximum rate that is held."""
    rate: float | None = Field(None, ge=1)
    """Delegations a second that are held, in place of the load; without, the maximum is measured first."""

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
