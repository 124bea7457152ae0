"""The counters of one group of delegations: a specialist and a capability, in one slot of time."""

from __future__ import annotations

from typing import Final, Self

from ether_actors.observers.metrics.quantile_sketch import QuantileSketch
from ether_broker.envelope.delegation import LONGEST_TIMEOUT
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import GOOD, Status

__all__ = ["ANSWERS", "Counters"]

ANSWERS: Final = frozenset({Status.COMPLETED, Status.PARTIAL, Status.NEEDS_INPUT})
"""Outcomes with which a specialist has something to hand over."""


class Counters:
    """The counts and sums of a group of delegations; two of them merge into that of all their delegations."""

    __slots__ = (
        "carried", "completed", "completed_sum", "confidence_sum", "confidences", "duration_sum", "durations", "good",
        "outcomes", "progress", "retries", "turnaround_sum", "turnarounds", "unresolved",
    )  # fmt: skip

    outcomes: dict[Status, int]
    """{status: delegations that ended so}."""
    progress: int
    """PROGRESS responses that passed."""
    good: int
    """Answers with a confidence of at least 0.7; a COMPLETED that tells none counts, as in spec 3's view of it."""
    confidences: int
    """Executions that told a confidence."""
    confidence_sum: float
    retries: int
    """Runs after the first, of the bus's (`attempt`) and of the specialist's own (`metadata.retries`). The
    attempts of a `Retry` are delegations of their own, and counted as such."""
    durations: int
    """Executions that told how long the handler took."""
    duration_sum: float
    completed: int
    """COMPLETED that told it."""
    completed_sum: float
    turnarounds: QuantileSketch
    """Turnarounds of COMPLETED, in seconds."""
    turnaround_sum: float
    carried: int
    """Answers that leave something unresolved."""
    unresolved: int
    """Items that they leave."""

    def __init__(self) -> None:
        self.outcomes = {}
        self.progress = self.good = self.confidences = self.retries = 0
        self.completed = self.durations = self.carried = self.unresolved = 0
        self.confidence_sum = self.completed_sum = self.duration_sum = self.turnaround_sum = 0.0
        self.turnarounds = QuantileSketch()

    def add(self, status: Status, attempt: int, turnaround: float | None, response: Response | None) -> None:
        """Count one delegation that ended.

        Args:
            status: its outcome.
            attempt: 1 for the first run.
            turnaround: seconds from delegation to outcome; None when the delegation was not seen.
            response: None when its body cannot be read.
        """
        self.outcomes[status] = self.outcomes.get(status, 0) + 1
        if status.is_rejection:
            return
        self.retries += max(0, attempt - 1)
        if turnaround is not None and status is Status.COMPLETED:
            self.turnarounds.add(turnaround)
            self.turnaround_sum += turnaround
        if response is None:
            return
        self.retries += _own_retries(response)
        if response.elapsed is not None and response.elapsed <= LONGEST_TIMEOUT:  # else its node makes it up
            self.durations += 1
            self.duration_sum += response.elapsed
            if status is Status.COMPLETED:
                self.completed += 1
                self.completed_sum += response.elapsed
        if response.confidence is not None:
            self.confidences += 1
            self.confidence_sum += response.confidence
        if status in ANSWERS:
            self.good += status is Status.COMPLETED if response.confidence is None else response.confidence >= GOOD
            self.carried += bool(response.unresolved)
            self.unresolved += len(response.unresolved)

    def merge(self, other: Self) -> None:
        """Count what another has counted."""
        for status, count in other.outcomes.items():
            self.outcomes[status] = self.outcomes.get(status, 0) + count
        self.progress += other.progress
        self.good += other.good
        self.confidences += other.confidences
        self.confidence_sum += other.confidence_sum
        self.retries += other.retries
        self.durations += other.durations
        self.completed += other.completed
        self.completed_sum += other.completed_sum
        self.duration_sum += other.duration_sum
        self.turnarounds.merge(other.turnarounds)
        self.turnaround_sum += other.turnaround_sum
        self.carried += other.carried
        self.unresolved += other.unresolved


def _own_retries(response: Response) -> int:
    told = response.metadata.get("retries")
    return told if isinstance(told, int) and not isinstance(told, bool) and told > 0 else 0
