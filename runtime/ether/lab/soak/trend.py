"""A quantity over time, and the straight line through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import linear_regression

__all__ = ["Series"]


@dataclass(frozen=True, slots=True)
class Series:
    """Samples of one quantity."""

    times: Sequence[float]
    """Seconds, rising."""
    values: Sequence[float]

    def since(self, time: float) -> Series:
        """The samples from a time on."""
        first = sum(at < time for at in self.times)
        return Series(self.times[first:], self.values[first:])

    @property
    def span(self) -> float:
        """Seconds from the first sample to the last."""
        return self.times[-1] - self.times[0] if self.times else 0.0

    @property
    def slope(self) -> float:
        """By how much it grows a second: of the line of least squares; 0.0 for fewer than two samples."""
        return linear_regression(self.times, self.values).slope if self.span else 0.0
