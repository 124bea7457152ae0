"""The rates and means of one agent, of one capability or of all, in one window, worked out from the counters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from ether_actors.observers.metrics.counters import ANSWERS, Counters
from ether_actors.observers.metrics.latency_quantiles import Turnaround
from ether_broker.envelope.status import Status

__all__ = ["Figures"]


@dataclass(frozen=True, slots=True)
class Figures:
    """The metrics of one agent, of one capability or of all, in one window.

    A delegation counts in the window in which its outcome passed. A ratio or mean without anything to divide by is None:
    nothing is known, which is neither good nor bad.

    Example:
        metrics = bus.observe(Metrics())
        bus.delegate("text.count", {"text": "two words"}).result()
        bus.settle(metrics)
        figures = metrics.snapshot().windows["all"].by_agent["counter"]
        assert figures.ended == 1 and figures.delegation_success_rate == 1.0
    """

    by_status: dict[str, int]
    """{status: delegations that ended so}, every terminal status, 0 too."""
    ended: int
    """Delegations that ended; the total of `by_status`."""
    executions: int
    """Those that were not rejected: with a rejection nothing was begun."""
    answers: int
    """COMPLETED, PARTIAL and NEEDS_INPUT."""
    retries: int
    """Runs after the first."""
    unresolved_items: int
    """Items that answers left unresolved."""

    delegation_success_rate: float | None
    """Spec 2: COMPLETED / `ended`. Target: over 0.85. None when nothing ended."""
    avg_round_trip_sec: float | None
    """Spec 2: mean `elapsed` of COMPLETED: seconds that their handlers took (spec 2's `elapsed_sec`).

    Target: under 600 for deep tasks. None when no COMPLETED told it.
    """
    clarification_rework_ratio: float | None
    """Spec 2: cycles of clarification (NEEDS_INPUT) / tasks (`ended` without NEEDS_INPUT). Target: falling.

    The answer to a NEEDS_INPUT is a new delegation of the same task, so a task with two cycles gives 2.0. None when no
    task ended.
    """
    unresolved_carryover: float | None
    """Spec 2: `unresolved_items` / `answers`; may exceed 1. Target: under 0.10. None without an answer."""

    success_rate: float | None
    """Spec 3: answers of confidence 0.7 or more / `executions`. None when nothing was executed.

    An answer that told no confidence counts as spec 3's view of it says: COMPLETED as 0.7, the others as less.
    """
    average_confidence: float | None
    """Spec 3: mean confidence of the executions that told one. None when none did."""
    timeout_rate: float | None
    """Spec 3: TIMEOUT / `executions`; one that waited until its deadline counts. Target: under 0.05.

    None when nothing was executed.
    """
    retry_rate: float | None
    """Spec 3: `retries` / `executions`; may exceed 1. None when nothing was executed."""
    average_duration_sec: float | None
    """Spec 3: mean seconds that handlers took (`elapsed`), of the executions that told it. None when none did."""

    rejection_rate: float | None
    """Spec 2 §8.2: REJECTED_CAPABILITY, REJECTED_CONTEXT and REJECTED_OVERLOAD / `ended`. None when nothing ended."""
    avg_turnaround_sec: float | None
    """Ether: mean seconds from delegation to outcome of COMPLETED, by the broker's clock: waiting and delivery too.

    None when no COMPLETED was seen from its beginning.
    """
    unresolved_rate: float | None
    """Ether: answers with an `unresolved` item / `answers`. None without an answer."""
    partial_rate: float | None
    """Ether: PARTIAL / `ended`. None when nothing ended."""
    overload_rate: float | None
    """Ether: REJECTED_OVERLOAD / `ended`. None when nothing ended."""
    cancellation_rate: float | None
    """Ether: CANCELLED / `ended`. None when nothing ended."""
    progress_per_delegation: float | None
    """Ether: PROGRESS responses that passed / `ended`. None when nothing ended."""

    turnaround: Turnaround

    @classmethod
    def of(cls, counters: Counters) -> Self:
        """Work out the metrics of what was counted."""
        outcomes = {status: counters.outcomes.get(status, 0) for status in Status if status.is_terminal}
        ended = sum(outcomes.values())
        rejected = sum(count for status, count in outcomes.items() if status.is_rejection)
        executions = ended - rejected
        answers = sum(outcomes[status] for status in ANSWERS)
        turnarounds = counters.turnarounds.count
        return cls(
            by_status={status.name: count for status, count in outcomes.items()},
            ended=ended,
            executions=executions,
            answers=answers,
            retries=counters.retries,
            unresolved_items=counters.unresolved,
            delegation_success_rate=_ratio(outcomes[Status.COMPLETED], ended),
            avg_round_trip_sec=_ratio(counters.completed_sum, counters.completed),
            clarification_rework_ratio=_ratio(outcomes[Status.NEEDS_INPUT], ended - outcomes[Status.NEEDS_INPUT]),
            unresolved_carryover=_ratio(counters.unresolved, answers),
            success_rate=_ratio(counters.good, executions),
            average_confidence=_ratio(counters.confidence_sum, counters.confidences),
            timeout_rate=_ratio(outcomes[Status.TIMEOUT], executions),
            retry_rate=_ratio(counters.retries, executions),
            average_duration_sec=_ratio(counters.duration_sum, counters.durations),
            rejection_rate=_ratio(rejected, ended),
            avg_turnaround_sec=_ratio(counters.turnaround_sum, turnarounds),
            unresolved_rate=_ratio(counters.carried, answers),
            partial_rate=_ratio(outcomes[Status.PARTIAL], ended),
            overload_rate=_ratio(outcomes[Status.REJECTED_OVERLOAD], ended),
            cancellation_rate=_ratio(outcomes[Status.CANCELLED], ended),
            progress_per_delegation=_ratio(counters.progress, ended),
            turnaround=Turnaround.of(counters.turnarounds),
        )


def _ratio(numerator: float, denominator: int) -> float | None:
    return numerator / denominator if denominator else None
