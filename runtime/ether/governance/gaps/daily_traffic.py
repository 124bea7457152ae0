"""Daily traffic: what became of delegations, counted by capability, day and delegator."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from ether.governance.gaps.outcomes import Outcome
from ether_broker.envelope.status import Status

__all__ = ["Counts", "DailyTraffic", "Days", "bin_end", "bin_of", "median_pace"]

_BINS_A_DECADE: Final = 24
"""A bin is 10 % wider than the one before: a share of slow ones is exact at its ends, and three times a pace is 11.45 bins."""

_LEAST, _MOST = 1e-9, 1e12
"""Paces beyond which all are the same: no clock tells them apart, or a declared weight makes them up."""


def bin_of(pace: float) -> int:
    """The number of the bin that a pace is in, in seconds by weight; bin 0 ends at 1."""
    return math.ceil(math.log10(min(max(pace, _LEAST), _MOST)) * _BINS_A_DECADE)


def bin_end(number: int) -> float:
    """The highest pace of a bin."""
    return float(10 ** (number / _BINS_A_DECADE))


@dataclass(slots=True)
class Counts:
    """The counts of how the delegations of one capability by one delegator on one day ended."""

    unserved: int = 0
    """REJECTED_CAPABILITY as no agent had it."""
    refused: int = 0
    """Other REJECTED_CAPABILITY, and PARTIAL."""
    context: int = 0
    """REJECTED_CONTEXT."""
    asked_back: int = 0
    """NEEDS_INPUT."""
    timeouts: int = 0
    completed: int = 0
    others: int = 0
    """REJECTED_OVERLOAD, FAILED_EXECUTION, CANCELLED and the bus's own refusals: of these no rule makes anything."""
    paces: dict[int, int] = field(default_factory=dict)
    """{bin: how many of COMPLETED and PARTIAL had a pace in it}."""

    def add(self, outcome: Outcome) -> None:
        """Count an outcome."""
        if outcome.is_own:
            self.others += 1
            return
        match outcome.status:
            case Status.REJECTED_CAPABILITY if not outcome.is_held:
                self.unserved += 1
            case Status.REJECTED_CAPABILITY | Status.PARTIAL:
                self.refused += 1
            case Status.REJECTED_CONTEXT:
                self.context += 1
            case Status.NEEDS_INPUT:
                self.asked_back += 1
            case Status.TIMEOUT:
                self.timeouts += 1
            case Status.COMPLETED:
                self.completed += 1
            case _:
                self.others += 1
        if outcome.pace is not None and outcome.status in {Status.COMPLETED, Status.PARTIAL}:
            number = bin_of(outcome.pace)
            self.paces[number] = self.paces.get(number, 0) + 1

    @property
    def unclear(self) -> int:
        """Those in which something was missing."""
        return self.context + self.asked_back

    @property
    def served(self) -> int:
        """Those that an agent of the capability has dealt with, or would have."""
        return self.refused + self.unclear + self.timeouts + self.completed


Days = dict[int, dict[str, Counts]]
"""{day: {delegator: counts}} of one capability."""


class DailyTraffic:
    """The counts of all capabilities, by day and delegator.

    Example:
        traffic = DailyTraffic([Outcome(20_000, "text.translate", "editor", Status.COMPLETED)])
        assert traffic.capabilities["text.translate"][20_000]["editor"].completed == 1
    """

    def __init__(self, outcomes: Iterable[Outcome] = ()) -> None:
        self.capabilities: dict[str, Days] = {}
        self.declared: set[str] = set()
        """Capabilities that some agent had."""
        for outcome in outcomes:
            self.add(outcome)

    def add(self, outcome: Outcome) -> None:
        """Count an outcome; a capability that some agent has served is declared."""
        counts = self.counts(outcome.capability, outcome.day, outcome.delegator)
        counts.add(outcome)
        if counts.served:
            self.declared.add(outcome.capability)

    def counts(self, capability: str, day: int, delegator: str) -> Counts:
        """The counts of a capability, day and delegator; new ones if there were none."""
        return self.capabilities.setdefault(capability, {}).setdefault(day, {}).setdefault(delegator, Counts())

    @property
    def days(self) -> range:
        """From the first day with an outcome to the last one."""
        days = {day for one in self.capabilities.values() for day in one}
        return range(min(days), max(days) + 1) if days else range(0)

    def usual_pace(self, since: int, until: int) -> float | None:
        """The pace of the fleet between two days, the second exclusive: the median of the medians of its capabilities.

        So a capability with very many delegations counts as any other. None where no time is known.
        """
        medians = [median_pace(days, since, until) for days in self.capabilities.values()]
        known = [one for one in medians if one is not None]
        return median(known) if known else None


def median_pace(days: Days, since: int, until: int) -> float | None:
    """The median pace of a capability between two days, the second exclusive; None where no time is known."""
    merged: dict[int, int] = {}
    for counts in (counts for day in days if since <= day < until for counts in days[day].values()):
        for number, count in counts.paces.items():
            merged[number] = merged.get(number, 0) + count
    left = math.ceil(sum(merged.values()) / 2)
    for number in sorted(merged):
        left -= merged[number]
        if left <= 0:
            return bin_end(number)
    return None
