"""A quantity over time, and the straight line through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Series"]


@dataclass(frozen=True, slots=True)
class Series:
    """Samples of one quantity."""

    times: Sequence[float]
    """Seconds, rising."""
    values: Sequence[float]

    def since(self, time: float) -> Series:
        """The samples from a time on."""
        kept = [index for index, at in enumerate(self.times) if at >= time]
        return Series([self.times[index] for index in kept], [self.values[index] for index in kept])

    @property
    def span(self) -> float:
        """Seconds from the first sample to the last."""
        return self.times[-1] - self.times[0] if self.times else 0.0

    @property
    def slope(self) -> float:
        """By how much it grows a second: of the line of least squares; 0.0 for fewer than two samples."""
        if len(self.times) < 2:  # noqa: PLR2004  one sample has no slope
            return 0.0
        time = sum(self.times) / len(self.times)
        value = sum(self.values) / len(self.values)
        spread = sum((at - time) ** 2 for at in self.times)
        together = sum((at - time) * (one - value) for at, one in zip(self.times, self.values, strict=True))
        return together / spread if spread else 0.0
