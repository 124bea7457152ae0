"""The metrics once more, the slow way: all outcomes in one list, and each definition of the specs read out over it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final

from ether_broker.envelope.status import Status

__all__ = ["Naive", "Outcome"]

SLOT: Final = 5.0
REJECTED: Final = {"REJECTED_CAPABILITY", "REJECTED_CONTEXT", "REJECTED_OVERLOAD"}
ANSWERS: Final = {"COMPLETED", "PARTIAL", "NEEDS_INPUT"}


@dataclass
class Outcome:
    time: float
    agent: str
    capability: str
    status: str
    turnaround: float | None = None
    attempt: int = 1
    retries: int = 0
    confidence: float | None = None
    elapsed: float | None = None
    unresolved: int = 0


@dataclass
class Naive:
    outcomes: list[Outcome] = field(default_factory=list)
    progress: list[tuple[float, str, str]] = field(default_factory=list)

    def figures(self, now: float, window: float | None, agent: str = "", capability: str = "") -> dict[str, Any]:
        """Every metric by its name; `agent` and `capability` narrow it."""
        oldest = -math.inf if window is None else math.floor(now / SLOT) * SLOT + SLOT - window
        ended = [
            o for o in self.outcomes
            if o.time >= oldest and agent in ("", o.agent) and capability in ("", o.capability)
        ]  # fmt: skip
        progress = [
            p for p in self.progress if p[0] >= oldest and agent in ("", p[1]) and capability in ("", p[2])
        ]  # fmt: skip
        executions = [o for o in ended if o.status not in REJECTED]
        answers = [o for o in ended if o.status in ANSWERS]
        turnarounds = [o.turnaround for o in ended if o.status == "COMPLETED" and o.turnaround is not None]
        told = [o.confidence for o in executions if o.confidence is not None]
        durations = [o.elapsed for o in executions if o.elapsed is not None]
        retries = sum(o.attempt - 1 + o.retries for o in executions)
        good = [o for o in answers if (o.confidence is None and o.status == "COMPLETED") or (o.confidence or 0) >= 0.7]

        def having(*names: str) -> list[Outcome]:
            return [o for o in ended if o.status in names]

        return {
            "ended": len(ended),
            "executions": len(executions),
            "answers": len(answers),
            "retries": retries,
            "unresolved_items": sum(o.unresolved for o in answers),
            "by_status": {s.name: len(having(s.name)) for s in Status if s.is_terminal},
            "delegation_success_rate": ratio(having("COMPLETED"), ended),
            "avg_round_trip_sec": mean([o.elapsed for o in having("COMPLETED") if o.elapsed is not None]),
            "clarification_rework_ratio": ratio(having("NEEDS_INPUT"), [o for o in ended if o.status != "NEEDS_INPUT"]),
            "unresolved_carryover": sum(o.unresolved for o in answers) / len(answers) if answers else None,
            "avg_turnaround_sec": mean(turnarounds),
            "unresolved_rate": ratio([o for o in answers if o.unresolved], answers),
            "success_rate": ratio(good, executions),
            "average_confidence": mean(told),
            "timeout_rate": ratio(having("TIMEOUT"), executions),
            "retry_rate": retries / len(executions) if executions else None,
            "average_duration_sec": mean(durations),
            "rejection_rate": ratio(having(*REJECTED), ended),
            "partial_rate": ratio(having("PARTIAL"), ended),
            "overload_rate": ratio(having("REJECTED_OVERLOAD"), ended),
            "cancellation_rate": ratio(having("CANCELLED"), ended),
            "progress_per_delegation": ratio(progress, ended),
            "turnaround": {"count": len(turnarounds), **{f"p{part}": rank(turnarounds, part) for part in (50, 90, 99)}},
        }


def ratio(some: list[Any], all_: list[Any]) -> float | None:
    return len(some) / len(all_) if all_ else None


def mean(values: list[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def rank(values: list[float], part: int) -> float | None:
    """The nearest rank: the smallest value that `part` percent do not exceed."""
    return sorted(values)[math.ceil(part / 100 * len(values)) - 1] if values else None
