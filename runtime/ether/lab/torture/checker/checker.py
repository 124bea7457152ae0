"""The checker: every rule over the evidence of one folder. It shares nothing with the bus but the words on the wire."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from ether.lab.report import Violation
from ether.lab.torture.checker import deadlines, disk, executions, observations, outcomes, processes
from ether.lab.torture.history.history import Evidence

__all__ = ["RULES", "judge"]

RULES: Final[tuple[Callable[[Evidence], Iterable[Violation]], ...]] = (
    outcomes.lost, outcomes.double, outcomes.other, outcomes.uncollected, outcomes.never_left,
    outcomes.progress_in_order,
    executions.twice, executions.same_attempt, executions.invented, executions.unasked, executions.contradicted,
    executions.given_up,
    deadlines.overdue, deadlines.early, deadlines.expired,
    observations.gaps, observations.resumed, observations.faces, observations.rolling, observations.chain,
    observations.settled,
    disk.back,
    processes.crashed, processes.unfinished, processes.orphans, processes.unexpected, processes.unfounded,
)  # fmt: skip


def judge(evidence: Evidence) -> tuple[Violation, ...]:
    """Everything that breaks a rule."""
    return tuple(violation for rule in RULES for violation in rule(evidence))
