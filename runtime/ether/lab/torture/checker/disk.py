"""The rule on the disk: when it is well again, so is the bus."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from ether.lab.report import Violation
from ether.lab.torture.fault_plan import BROKER
from ether.lab.torture.history.history import Evidence
from ether.lab.torture.history.outage import DiskFault

__all__ = ["back", "disk_recoveries"]

_NODE: Final = "node-"
_BACK: Final = 5.0
"""Seconds in which the bus takes work again when the cause is gone."""
_ENOUGH: Final = 20
"""Delegations that somebody has to have asked for in this time, to say anything."""


def back(evidence: Evidence) -> Iterator[Violation]:
    """Work is done again within 5 s of the end of a fault, unless the broker is struck or the disk fails again meanwhile."""
    for fault, after in disk_recoveries(evidence):
        stalled = evidence.outages.stopped(fault.end, fault.end + _BACK)
        asked = sum(fault.end < op.at < fault.end + _BACK for op in evidence.roots)
        if after > _BACK + stalled and asked >= _ENOUGH:
            said = "never" if after == math.inf else f"{after:.1f} s later"
            yield Violation("back", f"the disk was well again at {fault.end:.3f} ({fault.fault}), work was done {said}")


def disk_recoveries(evidence: Evidence) -> Iterator[tuple[DiskFault, float]]:
    """Each fault that ended, with the seconds from then to the next COMPLETED: 5 at most, or nothing else was in its way."""
    done = sorted(ending.at for ending in evidence.answers if ending.status == "COMPLETED")
    for fault in evidence.outages.disk:
        if fault.end < math.inf:
            index = bisect_left(done, fault.end)
            after = done[index] - fault.end if index < len(done) else math.inf
            if after <= _BACK or not _is_disturbed(evidence, fault):
                yield fault, after


def _is_disturbed(evidence: Evidence, fault: DiskFault) -> bool:
    """Whether the disk failed again, or the broker or all nodes were struck, within 5 s of the end."""
    until = fault.end + _BACK
    away = {struck.name for struck in evidence.outages.all if struck.overlaps(fault.end - _BACK, until)}
    return (
        any(fault.end <= other.begin < until for other in evidence.outages.disk)
        or BROKER in away
        or sum(name.startswith(_NODE) for name in away) >= int(evidence.settings["nodes"])
    )
