"""What a campaign came to: counts, recovery times, and what broke a promise."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ether.lab.torture.checker.disk import disk_recoveries
from ether.lab.torture.checker.rule import Violation
from ether.lab.torture.history.history import Ending, Evidence
from ether.lab.torture.plan.fault_plan import BROKER, Action

__all__ = ["Report", "Spread", "make_report"]


@dataclass(frozen=True, slots=True)
class Spread:
    """Several durations, in seconds."""

    count: int
    p50: float | None
    highest: float | None

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Sum them up."""
        found = sorted(values)
        return cls(len(found), statistics.median(found), found[-1]) if found else cls(0, None, None)


@dataclass(frozen=True, slots=True)
class Report:
    """What a campaign came to."""

    settings: Mapping[str, Any]
    violations: tuple[Violation, ...]
    outcomes: Mapping[str, int]
    """What delegators were told: {`ok COMPLETED`: count}; `unanswered` is what a killed life had asked."""
    delegations: int
    sub_delegations: int
    runs: int
    reruns: int
    """Runs after the first of an idempotent delegation."""
    strikes: Mapping[str, int]
    """{`kill broker`: count}, by process."""
    missed: int
    """Strikes that found their process between two lives."""
    node_recovery: Spread
    """From the SIGKILL of a node to the outcome, at a delegator that lives, of what it was running."""
    broker_recovery: Spread
    """From the SIGKILL of the broker to the first outcome, at any delegator, that was produced after it."""
    broker_reached: Spread
    """From when it was up again to that."""
    disk_recovery: Spread
    """From the end of a fault of the journal's disk to the first COMPLETED at any delegator."""
    messages: int
    """Seen by observers."""
    gaps: int
    """Messages that observers were told they had missed."""
    seconds: float
    """Of the load."""
    folder: Path | None = None
    """Where the diaries are; None if they were removed."""

    @property
    def ok(self) -> bool:
        """Whether nothing was broken."""
        return not self.violations

    def plain(self) -> dict[str, Any]:
        """The report as JSON has it."""
        return {**asdict(self), "folder": str(self.folder) if self.folder else None, "ok": self.ok}


def make_report(evidence: Evidence, violations: tuple[Violation, ...], folder: Path | None) -> Report:
    """Count what the evidence tells."""
    roots = [op for op in evidence.ops.values() if op.parent is None]
    times = [op.at for op in roots] + [ending.at for endings in evidence.endings.values() for ending in endings]
    strikes = Counter(f"{outage.action} {_kind(outage.name)}" for outage in evidence.struck)
    strikes.update(f"{fault.fault} disk" for fault in evidence.outages.disk)
    stretches = [stretch for sight in evidence.sights for stretch in sight.stretches]
    return Report(
        settings=evidence.settings,
        violations=violations,
        outcomes=_outcomes(evidence),
        delegations=len(roots),
        sub_delegations=len(evidence.ops) - len(roots),
        runs=sum(map(len, evidence.runs.values())),
        reruns=sum(len(runs) - 1 for runs in evidence.runs.values() if runs),
        strikes=dict(sorted(strikes.items())),
        missed=evidence.outages.missed,
        node_recovery=Spread.of(_node_recoveries(evidence)),
        broker_recovery=Spread.of(after for after, _ in _broker_recoveries(evidence)),
        broker_reached=Spread.of(after for _, after in _broker_recoveries(evidence)),
        disk_recovery=Spread.of(after for _, after in disk_recoveries(evidence) if after < math.inf),
        messages=sum(len(stretch.messages) for stretch in stretches),
        gaps=sum(last - first + 1 for stretch in stretches for first, last in stretch.reported),
        seconds=max(times) - min(times) if times else 0.0,
        folder=folder,
    )


def _outcomes(evidence: Evidence) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for op in evidence.ops.values():
        if op.parent is None:
            endings = evidence.endings.get(op.id)
            counts[_words(endings[-1]) if endings else "unanswered"] += 1
    return dict(sorted(counts.items()))


def _words(ending: Ending) -> str:
    return " ".join(filter(None, (ending.kind, ending.status, ending.code)))


def _kind(name: str) -> str:
    return name.partition("-")[0]


def _node_recoveries(evidence: Evidence) -> Iterable[float]:
    """For each run that a SIGKILL cut short, the seconds to the outcome that the life that had asked was told."""
    kills = {outage.pid: outage.begin for outage in evidence.struck if outage.action is Action.KILL}
    for request_id, runs in evidence.runs.items():
        for run in runs:
            killed = kills.get(run.pid, math.inf)
            told = [
                ending.at
                for ending in evidence.endings.get(request_id, ())
                if ending.kind == "ok" and not ending.collected
            ]
            if run.end is None and run.start < killed < math.inf and told and told[-1] > killed:
                yield told[-1] - killed


def _broker_recoveries(evidence: Evidence) -> Iterable[tuple[float, float]]:
    """For each SIGKILL of the broker, the seconds to the first outcome after it was up again, from either.

    One that was followed by another strike at it in between says nothing of the way back.
    """
    told = sorted(ending.at for endings in evidence.endings.values() for ending in endings if ending.kind == "ok")
    outages = evidence.outages.of(BROKER)
    for outage in outages:
        if outage.action is Action.KILL and outage.end < math.inf:
            index = bisect_left(told, outage.end)
            if index < len(told) and not any(outage.begin < other.begin < told[index] for other in outages):
                yield told[index] - outage.begin, told[index] - outage.end
