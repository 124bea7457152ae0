"""The checker: every rule over the evidence of one folder. It shares nothing with the bus but the words on the wire."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from ether.lab.report import Violation
from ether.lab.torture.checker import deadlines as times
from ether.lab.torture.checker import disk, outcomes
from ether.lab.torture.checker import executions as runs
from ether.lab.torture.checker import observations as observed
from ether.lab.torture.checker import processes as lives
from ether.lab.torture.history.history import Evidence, read_evidence

__all__ = ["RULES", "check", "judge"]

RULES: Final[tuple[Callable[[Evidence], Iterable[Violation]], ...]] = (
    outcomes.lost, outcomes.double, outcomes.other, outcomes.uncollected, outcomes.never_left,
    outcomes.progress_in_order,
    runs.twice, runs.same_attempt, runs.invented, runs.unasked, runs.contradicted, runs.given_up,
    times.overdue, times.early, times.expired,
    observed.gaps, observed.resumed, observed.faces, observed.rolling, observed.chain, observed.settled,
    disk.back,
    lives.crashed, lives.unfinished, lives.orphans, lives.unexpected, lives.unfounded,
)  # fmt: skip


def judge(evidence: Evidence) -> tuple[Violation, ...]:
    """Everything that breaks a rule."""
    return tuple(violation for rule in RULES for violation in rule(evidence))


def check(folder: Path) -> tuple[Violation, ...]:
    """As `judge`, of what a folder says.

    Raises:
        UsageError: as `read_evidence`.
    """
    return judge(read_evidence(folder))
