"""The offset of the broker's clock from this node's."""

from __future__ import annotations

from collections import deque
from typing import Final

__all__ = ["BrokerClock"]

SAMPLES: Final = 16
"""Times told last that count; an older one says nothing about clocks that drift."""


class BrokerClock:
    """The offset between the broker's clock and this node's, estimated from the times that the broker tells.

    Each was under way before it is read here, so each sample is early; the latest of them is the nearest to the truth.
    """

    __slots__ = ("_samples", "offset")

    def __init__(self) -> None:
        self._samples: deque[float] = deque(maxlen=SAMPLES)
        self.offset: float = 0.0
        """Seconds to add to a time of this node's to have the broker's."""

    def begin(self, told: float, now: float) -> None:
        """Forget what another broker told, and begin with what this one did; as `note`."""
        self._samples.clear()
        self.note(told, now)

    def note(self, told: float, now: float) -> None:
        """Take note that the broker's clock showed `told` when this node's, not much later, shows `now`; in seconds."""
        self._samples.append(told - now)
        self.offset = max(self._samples)
