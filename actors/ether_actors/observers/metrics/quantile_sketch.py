"""A sketch of the quantiles of durations, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, Self

__all__ = ["ACCURACY", "QuantileSketch"]

_BINS_A_DECADE: Final = 24
_SECOND: Final = 6 * _BINS_A_DECADE
"""The bin that ends at 1 s. Counted from 1 µs, all numbers are below 257, which Python keeps once and for all."""
_HIGHEST: Final = 10 * _BINS_A_DECADE
_GROWTH: Final = 10 ** (1 / _BINS_A_DECADE)
_MIDDLE: Final = 2 / (1 + _GROWTH)
"""Of a bin's upper bound: the value that is relatively as far from either bound."""
ACCURACY: Final = (_GROWTH - 1) / (_GROWTH + 1)
"""A quantile is at most this part of it off: 4.8 %."""


class QuantileSketch:
    """A histogram of durations, each bin 10 % wider than the one before, as in DDSketch (Masson 2019).

    Two sketches merge into exactly the sketch of all their durations, and one has 241 bins at most. Whole decades and
    thirds of them are bounds of bins, so `at_most` is exact there. Durations up to 1 µs share the lowest bin, those over
    10⁴ s the highest.
    """

    __slots__ = ("_bins",)

    def __init__(self) -> None:
        self._bins: dict[int, int] = {}

    def add(self, seconds: float) -> None:
        """Count a duration."""
        number = math.ceil(math.log10(seconds) * _BINS_A_DECADE) + _SECOND if seconds > 0 else 0
        number = min(max(number, 0), _HIGHEST)
        self._bins[number] = self._bins.get(number, 0) + 1

    @property
    def count(self) -> int:
        """How many durations there are."""
        return sum(self._bins.values())

    def merge(self, other: Self) -> None:
        """Count what another has counted."""
        bins = self._bins
        for number, count in other._bins.items():
            bins[number] = bins.get(number, 0) + count

    def quantile(self, part: float) -> float | None:
        """The duration that this part of all does not exceed (the nearest rank), 4.8 % off at most; None without any.

        Args:
            part: above 0, at most 1.
        """
        rank = math.ceil(part * self.count)
        for number in sorted(self._bins):
            rank -= self._bins[number]
            if rank <= 0:
                return float(_GROWTH ** (number - _SECOND) * _MIDDLE)
        return None

    def at_most(self, thirds: Iterable[int]) -> list[int]:
        """How many durations are at most 10^(n/3) seconds, for each n; rising."""
        counts = []
        for third in thirds:
            bound = third * _BINS_A_DECADE // 3 + _SECOND
            counts.append(sum(count for number, count in self._bins.items() if number <= bound))
        return counts
