"""The outages that the nemesis caused, and how much of a period they leave nobody to blame for."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from pydantic import TypeAdapter

from ether.lab.torture.fault_plan import Action, Fault
from ether.lab.torture.history.log import Line
from ether.lab.torture.settings import Victim
from ether_broker.journal.sqlite.group_commit import RETRY

__all__ = ["Crash", "DiskFault", "Outage", "Outages", "read_outages"]


@dataclass(slots=True, kw_only=True)
class _Trouble:
    number: int
    """In the plan."""
    begin: float
    end: float = math.inf
    """When it was over."""

    def overlaps(self, since: float, until: float) -> bool:
        """Whether any of it was between two times."""
        return self.begin < until and self.end > since


@dataclass(slots=True, kw_only=True)
class Outage(_Trouble):
    """One strike at one process, and how long it was away because of it: until it went on, or was up again."""

    action: Action
    victim: Victim
    name: str
    pid: int


@dataclass(slots=True, kw_only=True)
class DiskFault(_Trouble):
    """A period in which the disk under the journal was faulty."""

    fault: Fault


@dataclass(frozen=True, slots=True)
class Crash:
    """The end of a process that nobody had struck."""

    name: str
    pid: int
    at: float


_OUTAGE: Final = TypeAdapter(Outage)
_DISK_FAULT: Final = TypeAdapter(DiskFault)


@dataclass(slots=True)
class Outages:
    """The outages of a campaign."""

    all: list[Outage] = field(default_factory=list)
    stalls: list[tuple[float, float]] = field(default_factory=list)
    """When the machine was too busy for a bystander to get its turn."""
    crashes: list[Crash] = field(default_factory=list)
    disk: list[DiskFault] = field(default_factory=list)
    """What was wrong with the disk, in order."""
    missed: int = 0
    """Strikes that found nobody."""

    def of(self, *names: str) -> list[Outage]:
        """Those of some processes, which may be named by the beginning of their names."""
        return [outage for outage in self.all if outage.name.startswith(names)]

    def stopped(self, begin: float, end: float, *names: str) -> float:
        """Seconds between two times in which one of the processes was away, or the machine had no time for anybody.

        `disk` is a name too: what a broker has ruled on while it could not write, or before it tried again, is not ruled if it
        dies then.
        """
        troubles = [(outage.begin, outage.end) for outage in self.of(*names)]
        if "disk" in names:
            troubles += [(fault.begin, fault.end + RETRY) for fault in self.disk]
        total, reached = 0.0, begin
        for first, last in sorted([*self.stalls, *troubles]):
            until = min(last, end)
            total += max(0.0, until - max(first, reached))
            reached = max(reached, until)
        return total


def read_outages(lines: Iterable[Line]) -> Outages:  # noqa: C901, PLR0912  a case a row
    """Read the nemesis' log."""
    found = Outages()
    for line in lines:
        open_ = [outage for outage in found.all if outage.name == line.get("name") and outage.end == math.inf]
        match line["event"]:
            case "strike":
                found.all.append(_OUTAGE.validate_python(line))
            case "continue":
                for outage in open_:
                    if outage.action is Action.PAUSE:
                        outage.end = line["at"]
            case "up":
                for outage in open_:
                    if outage.pid != line["pid"]:
                        outage.end = line["at"]
            case "down":
                if all(outage.action is Action.PAUSE for outage in found.all if outage.pid == line["pid"]):
                    found.crashes.append(Crash(line["name"], line["pid"], line["at"]))
            case "stall":
                found.stalls.append((line["at"] - line["seconds"], line["at"]))
            case "fault":
                found.disk.append(_DISK_FAULT.validate_python(line))
            case "mended":
                found.disk[-1].end = line["at"]
            case "missed":
                found.missed += 1
    return found
