"""The outages that the nemesis caused, and how much of a period they leave nobody to blame for."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ether.lab.torture.fault_plan import Action, Fault
from ether.lab.torture.history.log import Line
from ether.lab.torture.settings import Victim

__all__ = ["Crash", "DiskFault", "Outage", "Outages", "read_outages"]


@dataclass(frozen=True, slots=True)
class Outage:
    """One strike at one process, and how long it was away because of it."""

    number: int
    """Of the strike in the plan."""
    action: Action
    victim: Victim
    name: str
    pid: int
    begin: float
    end: float = math.inf
    """When it went on, or was up again."""


@dataclass(frozen=True, slots=True)
class Crash:
    """The end of a process that nobody had struck."""

    name: str
    pid: int
    at: float


@dataclass(frozen=True, slots=True)
class DiskFault:
    """A period in which the disk under the journal was faulty."""

    number: int
    fault: Fault
    begin: float
    end: float = math.inf


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

        `disk` is a name too: what a broker has ruled on while it could not write is not ruled if it dies then.
        """
        spans = [(outage.begin, outage.end) for outage in self.of(*names)] + self.stalls
        spans += [(fault.begin, fault.end) for fault in self.disk if "disk" in names]
        cut = sorted((max(begin, first), min(end, last)) for first, last in spans if first < end and last > begin)
        total, reached = 0.0, begin
        for first, last in cut:
            total += max(0.0, last - max(first, reached))
            reached = max(reached, last)
        return total


def read_outages(lines: Iterable[Line]) -> Outages:  # noqa: C901  a case a row
    """Read the nemesis' log."""
    found = Outages()
    struck: dict[int, list[int]] = {}
    for line in lines:
        match line["event"]:
            case "strike":
                struck.setdefault(line["pid"], []).append(len(found.all))
                found.all.append(_outage(line))
            case "continue":
                _close(found, line, paused=True)
            case "up":
                _close(found, line, paused=False)
            case "down":
                if all(found.all[index].action is Action.PAUSE for index in struck.get(line["pid"], ())):
                    found.crashes.append(Crash(line["name"], line["pid"], line["at"]))
            case "stall":
                found.stalls.append((line["at"] - line["seconds"], line["at"]))
            case "fault":
                found.disk.append(DiskFault(line["number"], Fault(line["fault"]), line["begin"]))
            case "mended":
                found.disk.append(replace(found.disk.pop(), end=line["at"]))
            case "missed":
                found.missed += 1
    return found


def _outage(line: Line) -> Outage:
    return Outage(
        line["number"], Action(line["action"]), Victim(line["victim"]), line["name"], line["pid"], line["begin"]
    )  # fmt: skip


def _close(found: Outages, line: Line, *, paused: bool) -> None:
    """End the outages of a process that goes on, or that is there again, which ends them all."""
    for index, outage in enumerate(found.all):
        is_meant = outage.name == line["name"] and outage.end == math.inf and outage.pid != line["pid"]
        is_resumed = paused and outage.name == line["name"] and outage.end == math.inf and outage.action is Action.PAUSE
        if (is_meant and not paused) or is_resumed:
            found.all[index] = replace(outage, end=line["at"])
