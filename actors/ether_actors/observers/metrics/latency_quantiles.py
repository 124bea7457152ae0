"""The latency quantiles p50, p90 and p99 of delegations, from a sketch of their turnarounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from ether_actors.observers.metrics.quantile_sketch import QuantileSketch

__all__ = ["Turnaround"]


@dataclass(frozen=True, slots=True)
class Turnaround:
    """The quantiles of the seconds from delegation to outcome, by the broker's clock, of what was COMPLETED.

    A quantile is 4.8 % off at most.

    Example:
        metrics = bus.observe(Metrics())
        bus.delegate("text.count", {"text": "two words"}).result()
        bus.settle(metrics)
        turnaround = metrics.snapshot().windows["all"].overall.turnaround
        assert turnaround.count == 1 and turnaround.p99 < 1.0
    """

    count: int
    """COMPLETED whose delegation was seen."""
    p50: float | None
    p90: float | None
    p99: float | None

    @classmethod
    def of(cls, turnarounds: QuantileSketch) -> Self:
        """Take the quantiles of what was counted."""
        return cls(turnarounds.count, *(turnarounds.quantile(part) for part in (0.5, 0.9, 0.99)))
