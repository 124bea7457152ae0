"""The report of a campaign: counts, recovery times, and broken promises."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from ether.lab.report import Figure, Report, Violation, spread
from ether.lab.torture.checker.disk import disk_recoveries
from ether.lab.torture.fault_plan import BROKER, Action
from ether.lab.torture.history.history import Evidence

__all__ = ["make_report"]


def make_report(evidence: Evidence, violations: tuple[Violation, ...], folder: Path | None) -> Report:
    """Count what the evidence tells.

    Args:
        evidence: of the campaign.
        violations: what the checker found in it.
        folder: where the logs stay; None if they are removed.
    """
    settings = evidence.settings
    said = f"{len(violations):,} broken promises" if violations else "no promise was broken"
    back = list(_broker_recoveries(evidence))
    figures = (
        *(Figure("torture", name, value, "") for name, value in _counts(evidence).items()),
        *spread("torture", "node killed, to the outcome of what it ran", _node_recoveries(evidence)),
        *spread("torture", "broker killed, to the first new outcome", (after for after, _ in back)),
        *spread("torture", "broker up again, to the same", (after for _, after in back)),
        *spread(
            "torture", "disk well again, to the first COMPLETED",
            (after for _, after in disk_recoveries(evidence) if after < math.inf),
        ),
    )  # fmt: skip
    strikes = Counter(f"{outage.action} {outage.name.partition('-')[0]}" for outage in evidence.outages.all)
    strikes.update(f"{fault.fault} disk" for fault in evidence.outages.disk)
    return Report(
        figures,
        {
            "outcomes": [{"outcome": name, "count": count} for name, count in sorted(_outcomes(evidence).items())],
            "strikes": [{"strike": name, "count": count} for name, count in sorted(strikes.items())],
        },
        {"logs": str(folder) if folder else None, **settings},
        f"{said}  seed {settings['seed']}, durability {settings['durability']}",
        violations,
    )


def _counts(evidence: Evidence) -> dict[str, float]:
    roots = evidence.roots
    times = [op.at for op in roots] + [ending.at for ending in evidence.told]
    reported = [gap for observer in evidence.observed for stretch in observer.stretches for gap in stretch.reported]
    return {
        "delegations": len(roots),
        "sub-delegations": len(evidence.ops) - len(roots),
        "seconds of the load": max(times) - min(times) if times else 0.0,
        "runs": sum(map(len, evidence.runs.values())),
        "runs again, after a lost node": sum(len(runs) - 1 for runs in evidence.runs.values() if runs),
        "messages observed": sum(len(observer.messages) for observer in evidence.observed),
        "messages reported as missed": sum(last - first + 1 for first, last in reported),
        "strikes that found their process between two lives": evidence.outages.missed,
    }


def _outcomes(evidence: Evidence) -> Counter[str]:
    """What delegators were told: {`ok COMPLETED`: count}; `unanswered` is what a killed life had asked."""
    told = [evidence.endings.get(op.id) for op in evidence.roots]
    return Counter(
        " ".join(filter(None, (endings[-1].event, endings[-1].status, endings[-1].code))) if endings else "unanswered"
        for endings in told
    )


def _node_recoveries(evidence: Evidence) -> Iterable[float]:
    """For each run that a SIGKILL cut short, the seconds to the outcome that the life that had asked was told."""
    kills = {outage.pid: outage.begin for outage in evidence.outages.all if outage.action is Action.KILL}
    for request_id, runs in evidence.runs.items():
        endings = evidence.endings.get(request_id, ())
        told = [ending.at for ending in endings if ending.event == "ok" and not ending.collected]
        for run in runs:
            killed = kills.get(run.pid, math.inf)
            if run.end is None and run.at < killed < math.inf and told and told[-1] > killed:
                yield told[-1] - killed


def _broker_recoveries(evidence: Evidence) -> Iterable[tuple[float, float]]:
    """For each SIGKILL of the broker, the seconds to the first outcome after it was up again, from either.

    One that was followed by another strike at it in between says nothing of the way back.
    """
    told = sorted(ending.at for ending in evidence.answers)
    outages = evidence.outages.of(BROKER)
    for outage in outages:
        if outage.action is Action.KILL and outage.end < math.inf:
            index = bisect_left(told, outage.end)
            if index < len(told) and not any(outage.begin < other.begin < told[index] for other in outages):
                yield told[index] - outage.begin, told[index] - outage.end
