"""A finding: one thing at one place that a maintainer should know."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

__all__ = ["Confidence", "Finding", "Severity"]


class Severity(StrEnum):
    """The severities of findings: how much one matters, if it is true."""

    ERROR = "error"
    """It fails, or does something else than it says, when it runs."""
    WARNING = "warning"
    """It works today, and breaks or hides a failure under a condition that is named."""
    INFO = "info"
    """It costs the reader or the next change something; nothing breaks."""

    @property
    def rank(self) -> int:
        """0 for the gravest: the order of every listing."""
        return _SEVERITIES.index(self)


class Confidence(StrEnum):
    """The confidence of a finding, which was made without running the code."""

    HIGH = "high"
    """Follows from the text alone."""
    MEDIUM = "medium"
    """Rests on a habit (a name, a usual library), and may be meant."""


_SEVERITIES = tuple(Severity)
_CONFIDENCES = tuple(Confidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A defect that a review found: what is wrong, why it matters, where it stands, and what mends it."""

    rule: str
    """The name of its rule, such as `mutable-default`."""
    severity: Severity
    confidence: Confidence = Confidence.MEDIUM
    path: str
    """Relative to the directory that was analysed, with forward slashes."""
    line: int
    """From 1."""
    column: int = 1
    """From 1, in characters."""
    message: str
    """What was seen and why it matters, in one or two sentences."""
    fix: str = ""
    symbol: str = ""
    """The dotted name of the function or class round it; empty at module level."""

    @property
    def order(self) -> tuple[int, int, str, int, int, str]:
        """The sort key: gravest first, surest first, then by place."""
        confidence = _CONFIDENCES.index(self.confidence)
        return self.severity.rank, confidence, self.path, self.line, self.column, self.rule

    @property
    def subject(self) -> str:
        """The first piece of code in the message: what the finding is about."""
        return self.message.partition("`")[2].partition("`")[0]

    def to_json(self) -> dict[str, Any]:
        """The finding as a JSON object."""
        return {**asdict(self), "severity": self.severity.value, "confidence": self.confidence.value}
