"""What a benchmark found: figures beside their targets, and what they were taken from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Bound", "Figure", "Report", "Row"]


@dataclass(frozen=True, slots=True)
class Bound:
    """What a figure should be."""

    limit: float
    at_least: bool
    """Whether it should not be below the limit; else it should not be above."""

    def is_met(self, value: float) -> bool:
        """Whether a value is within it."""
        return value >= self.limit if self.at_least else value <= self.limit

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.limit:g}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One number that is compared: a ratio of two things of one run, or an amount of one thing."""

    case: str
    name: str
    """What of what, as in `rate, ether / nats`."""
    value: float
    unit: str = "×"
    bound: Bound | None = None
    """None where it is told for information."""
    spread: tuple[float, float] | None = None
    """The lowest and the highest of the rounds; the value is their median."""

    @property
    def is_met(self) -> bool | None:
        """Whether it is within its bound; None where there is none."""
        return None if self.bound is None else self.bound.is_met(self.value)


@dataclass(frozen=True, slots=True)
class Row:
    """A contender's medians over the rounds. Absolute, so only to be read beside the others of the same run."""

    case: str
    contender: str
    rate: float
    """Round trips a second."""
    p50: float | None
    """Median seconds of a round trip; serial cases only."""
    p99: float | None
    cpu: Mapping[str, float]
    """CPU seconds for each envelope: {role: seconds}; a round trip is two envelopes."""


@dataclass(frozen=True, slots=True)
class Report:
    """All that one run found."""

    figures: tuple[Figure, ...]
    rows: tuple[Row, ...] = ()
    about: Mapping[str, str] = field(default_factory=dict)
    """The machine, the versions and the settings."""

    @property
    def missed(self) -> tuple[Figure, ...]:
        """The figures that are outside their bounds."""
        return tuple(figure for figure in self.figures if figure.is_met is False)
