"""One measurement of one contender in one round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Sample"]


@dataclass(frozen=True, slots=True)
class Sample:
    """The measurements of one contender in one round."""

    count: int
    """Round trips: a request and its response each."""
    seconds: float
    cpu: Mapping[str, float] = field(default_factory=dict)
    """CPU seconds that each process used meanwhile, read from outside: {role: seconds}."""
    p50: float | None = None
    """Median seconds of a round trip; None unless they were made one after the other."""
    p99: float | None = None
    """99th percentile, likewise."""

    @property
    def rate(self) -> float:
        """Round trips a second."""
        return self.count / self.seconds

    def cpu_per_envelope(self, role: str) -> float:
        """CPU seconds of a process for each envelope; a round trip is two of them."""
        return self.cpu[role] / (2 * self.count) if self.count else float("inf")
