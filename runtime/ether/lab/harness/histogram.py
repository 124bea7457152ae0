"""A histogram of latencies in buckets of 5 %: an hour of them takes no more memory than a second."""

from __future__ import annotations

import math
from collections import Counter
from typing import Final

__all__ = ["Histogram"]

_STEPS: Final = 1 / math.log(1.05)
_UNIT: Final = 1e-6


class Histogram:
    """A histogram of latencies, each known to within 5 %."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def note(self, seconds: float) -> None:
        """Count one."""
        self._counts[int(math.log(max(seconds, _UNIT) / _UNIT) * _STEPS)] += 1

    def __len__(self) -> int:
        return self._counts.total()

    def percentile(self, part: float) -> float:
        """Seconds that at least that part of them do not exceed, by the upper edge of a bucket; 0.0 if there are none."""
        left = part * len(self)
        for bucket in sorted(self._counts):
            left -= self._counts[bucket]
            if left <= 0:
                return math.exp((bucket + 1) / _STEPS) * _UNIT
        return 0.0
