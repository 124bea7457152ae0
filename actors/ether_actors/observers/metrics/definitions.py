"""The definitions of the metrics, as data: source, numerator, denominator and target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ether_broker.envelope.status import Status

__all__ = ["DEFINITIONS", "EXTENSION_METRICS", "Definition", "Target"]


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a metric: a lower bound, an upper bound or a downward trend; at most one of them is set.

    Example:
        target = Target(below=0.05)
        assert str(target) == "< 0.05"
        assert target.is_met(0.01) and not target.is_met(0.2)
    """

    above: float | None = None
    below: float | None = None
    falling: bool = False
    """Lower in the window than over all time."""

    def __str__(self) -> str:
        if self.above is not None:
            return f"> {self.above:g}"
        if self.below is not None:
            return f"< {self.below:g}"
        return "downward trend" if self.falling else "context-dependent"

    def is_met(self, value: float | None, over_all: float | None = None) -> bool | None:
        """Whether a value meets it; None when there is no value, or nothing that it could be judged by.

        Args:
            value: of the window.
            over_all: of all time; needed for a trend.
        """
        if value is None:
            return None
        if self.above is not None:
            return value > self.above
        if self.below is not None:
            return value < self.below
        if self.falling and over_all is not None:
            return value < over_all or value == 0
        return None


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of a metric: what is divided by what, where that is specified, and the target.

    Example:
        by_name = {definition.name: definition for definition in DEFINITIONS}
        assert by_name["timeout_rate"].text.startswith("TIMEOUT / executions")
        assert str(by_name["timeout_rate"].target) == "< 0.05"
    """

    name: str
    """As in the spec, and as `Figures` has it."""
    source: str
    """Where it is asked for."""
    numerator: str
    denominator: str
    """Empty for a plain count. While it is 0 the metric is None: there is nothing to tell."""
    target: Target | None = None
    prometheus: str = ""
    """Its name there, where that has to say a unit."""

    @property
    def text(self) -> str:
        """Numerator and denominator in one line."""
        return f"{self.numerator} / {self.denominator}" if self.denominator else self.numerator


_ENDED: Final = "delegations that ended"
_EXECUTIONS: Final = "executions (delegations that ended, without the three REJECTED)"
_ANSWERS: Final = "answers (COMPLETED, PARTIAL, NEEDS_INPUT)"
_TWO: Final = "spec 2 §12"
_THREE: Final = "spec 3 Metrics"
_EXTENSION: Final = "spec 2 §15"
_OURS: Final = "Ether"

DEFINITIONS: Final = (
    Definition("delegation_success_rate", _TWO, "COMPLETED", _ENDED, Target(above=0.85)),
    Definition(
        "avg_round_trip_sec",
        _TWO,
        "seconds in the handler (elapsed), summed",
        "COMPLETED that told it",
        Target(below=600),
        "avg_round_trip_seconds",
    ),
    Definition("gap_suggestion_frequency", _TWO, "suggestions in the last 30 days", "", Target()),
    Definition(
        "clarification_rework_ratio",
        _TWO,
        "cycles of clarification (NEEDS_INPUT)",
        "tasks (delegations that ended, without NEEDS_INPUT)",
        Target(falling=True),
    ),
    Definition(
        "unresolved_carryover",
        _TWO,
        "items that answers leave unresolved",
        _ANSWERS,
        Target(below=0.10),
    ),
    Definition("success_rate", _THREE, "answers of confidence >= 0.7 (a COMPLETED without one counts)", _EXECUTIONS),
    Definition("average_confidence", _THREE, "confidence, summed", "executions that told one"),
    Definition("timeout_rate", _THREE, "TIMEOUT", _EXECUTIONS, Target(below=0.05)),
    Definition(
        "retry_rate",
        _THREE,
        "runs after the first, the bus's (attempt - 1) and the specialist's own (metadata.retries)",
        _EXECUTIONS,
    ),
    Definition(
        "average_duration_sec",
        _THREE,
        "seconds in the handler (elapsed), summed",
        "executions that told it",
        prometheus="average_duration_seconds",
    ),
    Definition("rejection_rate", "spec 2 §8.2", "the three REJECTED", _ENDED),
    Definition(
        "avg_turnaround_sec",
        _OURS,
        "seconds from delegation to outcome, by the broker's clock, summed",
        "COMPLETED whose delegation was seen",
        prometheus="avg_turnaround_seconds",
    ),
    Definition("unresolved_rate", _OURS, "answers that leave something unresolved", _ANSWERS),
    Definition("partial_rate", _EXTENSION, "PARTIAL", _ENDED),
    Definition("overload_rate", _EXTENSION, "REJECTED_OVERLOAD", _ENDED),
    Definition("cancellation_rate", _EXTENSION, "CANCELLED", _ENDED),
    Definition("progress_per_delegation", _EXTENSION, "PROGRESS responses", _ENDED),
)
"""Every named metric. The first five are spec 2's, the next five spec 3's."""

EXTENSION_METRICS: Final = {
    Status.PROGRESS: "progress_per_delegation",
    Status.PARTIAL: "partial_rate",
    Status.NEEDS_INPUT: "clarification_rework_ratio",
    Status.REJECTED_OVERLOAD: "overload_rate",
    Status.CANCELLED: "cancellation_rate",
}
"""The metric of each status that is not in spec 2's own table, as its §15 asks of an extension."""
