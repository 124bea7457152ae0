"""What a soak found, and whether it is within its bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Final

from ether.lab.soak.trend import Series

__all__ = ["ALLOWED", "POINTER", "SPREAD", "Latency", "Report", "Size"]

ALLOWED: Final = 4 << 20
"""Bytes by which a process may grow in any case: allocators take memory by the MiB, and SQLite's caches are of some."""
POINTER: Final = 8
"""Bytes a delegation by which it may grow besides: less than one entry of a list, so nothing can be kept for each."""
SPREAD: Final = 2.0
"""What p99 of the last third may be of that of the first."""
_MINUTE: Final = 60.0
_TEN_MINUTES: Final = 600.0
_KIB: Final = 1024
_POINTS: Final = 100


@dataclass(frozen=True, slots=True)
class Size:
    """How one process was."""

    process: str
    resident: Series
    """Bytes in RAM, from the end of the warm-up on."""
    descriptors: Series
    """Open descriptors, likewise."""
    allowed: float
    """Bytes by which it may have grown meanwhile."""

    @property
    def grown(self) -> float:
        """Bytes by which the line through all samples rises."""
        return self.resident.slope * self.resident.span

    @property
    def is_flat(self) -> bool:
        """Whether memory and descriptors stayed as they were; a smaller process is no complaint."""
        return self.grown <= self.allowed and self.descriptors.slope * self.descriptors.span < 1.0

    def plain(self) -> dict[str, Any]:
        """What `json.dumps` takes."""
        return {
            "process": self.process,
            "first_bytes": self.resident.values[0],
            "last_bytes": self.resident.values[-1],
            "most_bytes": max(self.resident.values),
            "slope_kib_per_minute": self.resident.slope * _MINUTE / _KIB,
            "slope_bytes_per_10_minutes": self.resident.slope * _TEN_MINUTES,
            "grown_bytes": self.grown,
            "allowed_bytes": self.allowed,
            "first_descriptors": self.descriptors.values[0],
            "last_descriptors": self.descriptors.values[-1],
            "descriptors_per_10_minutes": self.descriptors.slope * _TEN_MINUTES,
            "flat": self.is_flat,
            "resident_bytes": [list(pair) for pair in self.resident.thinned(_POINTS)],
        }


@dataclass(frozen=True, slots=True)
class Latency:
    """One window of the delegator."""

    time: float
    """Seconds from the begin of the load to the end of the window."""
    count: int
    p50: float
    p99: float
    """Seconds from when a delegation was due to its outcome."""


@dataclass(frozen=True, slots=True)
class Report:
    """One soak."""

    seconds: float
    maximum: float | None
    """Delegations a second that were measured with many open; None where the rate was given."""
    rate: float
    """Delegations a second that were due."""
    sent: int
    statuses: Mapping[str, int]
    sizes: Sequence[Size]
    latencies: Sequence[Latency]
    thirds: tuple[float, float]
    stops: int
    """Times that a node was stopped."""
    stalled: float
    """Seconds for which an observer stood still."""
    observed: Mapping[str, Mapping[str, int]]
    """{observer: how many messages it has seen, how many it missed, its position}."""
    stored: int
    """Bytes by which the journal grew."""
    load: tuple[float, float, float]
    """The machine's own load average at the end: whatever else runs there disturbs."""

    @property
    def p99_first(self) -> float:
        """The median of the first third's windows' p99, in seconds."""
        return _middle([entry.p99 for entry in self.latencies if entry.time <= self.thirds[0]])

    @property
    def p99_last(self) -> float:
        """That of the last third."""
        return _middle([entry.p99 for entry in self.latencies if entry.time > self.thirds[1]])

    @property
    def completed(self) -> int:
        """Delegations that did what they should."""
        return self.statuses.get("COMPLETED", 0)

    @property
    def problems(self) -> list[str]:
        """What is out of its bounds, in words; none is a soak that passed."""
        found = [
            f"{size.process} grew by {size.grown / _KIB:,.0f} KiB, and {size.allowed / _KIB:,.0f} KiB are allowed"
            for size in self.sizes
            if size.grown > size.allowed
        ]
        found += [
            f"{size.process} has {size.descriptors.slope * size.descriptors.span:.1f} descriptors more"
            for size in self.sizes
            if size.descriptors.slope * size.descriptors.span >= 1.0
        ]
        if self.p99_last > SPREAD * self.p99_first:
            found.append(f"p99 rose from {self.p99_first * 1e3:.1f} to {self.p99_last * 1e3:.1f} ms")
        if self.completed != self.sent:
            found.append(f"{self.sent - self.completed:,} of {self.sent:,} delegations were not completed")
        found += [
            f"{name} missed {seen['missed']:,} messages" for name, seen in self.observed.items() if seen["missed"]
        ]
        if len({seen["position"] for seen in self.observed.values()}) > 1:
            found.append(f"an observer has not caught up: {self.observed}")
        return found

    def plain(self) -> dict[str, Any]:
        """What `json.dumps` takes."""
        return {
            "flat": not self.problems,
            "problems": self.problems,
            "seconds": self.seconds,
            "maximum": self.maximum,
            "rate": self.rate,
            "sent": self.sent,
            "statuses": dict(self.statuses),
            "processes": [size.plain() for size in self.sizes],
            "p99_first_third": self.p99_first,
            "p99_last_third": self.p99_last,
            "windows": [asdict(entry) for entry in self.latencies],
            "stops": self.stops,
            "stalled": self.stalled,
            "observed": {name: dict(seen) for name, seen in self.observed.items()},
            "journal_bytes": self.stored,
            "journal_bytes_per_delegation": self.stored / self.sent if self.sent else 0.0,
            "load": self.load,
        }


def _middle(values: Sequence[float]) -> float:
    return median(values) if values else 0.0
