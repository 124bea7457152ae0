"""A scan: the rules applied to the traffic of each day in turn, as a bus that runs would have seen it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ether.governance.gaps.aliases import misspelt
from ether.governance.gaps.daily_traffic import DailyTraffic, Days
from ether.governance.gaps.finding import Advice, GapFinding
from ether.governance.gaps.rules import LEVEL, RULES, STREAK, WINDOWS, Cause, Rule, WindowCounts
from ether.governance.gaps.significance import discoveries, upper_tail

__all__ = ["Scan"]

_UNSERVED_LEAST: Final = 5
"""Requests for a name that no agent has before it is one that is wanted."""
_UNSERVED_DAYS: Final = 2
"""Days on which a name was asked for that no agent ever had."""
_ACTIVE: Final = 14
"""Days after which a name that is no more asked for is forgotten."""
_CLOSES: Final = 7
"""Days without that its rule holds after which a finding is closed."""


@dataclass(slots=True)
class _Holding:
    """The days for which a rule has held for a capability."""

    streak: int = 0
    last: int = -1


class Scan:
    """The findings of daily traffic, each with the day on which it was opened.

    A finding needs days: with fewer than `STREAK` there is none yet.

    Args:
        traffic: the counts.

    Example:
        traffic = DailyTraffic(
            Outcome(day, "text.translate", delegator, Status.REJECTED_CAPABILITY, is_held=False)
            for day in (20_000, 20_001) for delegator in ("editor", "reader", "writer")
        )
        scan = Scan(traffic)
        assert scan.findings[0].cause is Cause.UNSERVED
    """

    def __init__(self, traffic: DailyTraffic) -> None:
        self.traffic: DailyTraffic = traffic
        self.findings: list[GapFinding] = []
        """Every finding that was opened, in the order of days; of a capability one at a time."""
        self.open: dict[str, GapFinding] = {}
        """{capability: its finding, as it was last seen}, those that the last day still shows."""
        self.advice: list[Advice] = []
        """Names that are misspelt."""
        self._holding: dict[tuple[str, Cause], _Holding] = {}
        for day in traffic.days:
            self._look(day)

    def _look(self, day: int) -> None:
        seen = self._unserved(day)
        pace = self.traffic.usual_pace(day - max(WINDOWS) + 1, day + 1)
        for rule in RULES:
            seen |= {
                (capability, rule.cause): counts for capability, counts in self._significant(rule, day, pace).items()
            }
        for key, (window, counts) in seen.items():
            held = self._holding.setdefault(key, _Holding())
            held.streak = held.streak + 1 if held.last == day - 1 else 1
            held.last = day
            if held.streak >= (1 if key[1] is Cause.UNSERVED else STREAK):
                self._found(key, day, window, counts)
        for capability, finding in list(self.open.items()):
            if day - self._holding[capability, finding.cause].last >= _CLOSES:
                del self.open[capability]

    def _found(self, key: tuple[str, Cause], day: int, window: range, counts: WindowCounts) -> None:
        capability, cause = key
        known = self.open.get(capability)
        if known is not None and known.cause is not cause:
            return
        opened = day if known is None else known.opened
        finding = GapFinding(
            capability, cause, opened, window.start, day, counts.affected, counts.asked, counts.days, counts.delegators
        )  # fmt: skip
        self.open[capability] = finding
        if known is None:
            self.findings.append(finding)

    def _significant(self, rule: Rule, day: int, pace: float | None) -> dict[str, tuple[range, WindowCounts]]:
        """The capabilities for which a rule holds on a day, by the shortest window that shows it."""
        found: dict[str, tuple[range, WindowCounts]] = {}
        for length in WINDOWS:
            window = range(max(day - length + 1, self.traffic.days.start), day + 1)
            counted = {
                capability: counts
                for capability, days in self.traffic.capabilities.items()
                if (counts := WindowCounts.of(rule, days, window, pace)).quiet.asked
            }
            tests = [upper_tail(*counts.quiet, rule.chance) for counts in counted.values()]
            for (capability, counts), is_real in zip(counted.items(), discoveries(tests, LEVEL), strict=True):
                if is_real and counts.is_broad(rule):
                    found.setdefault(capability, (window, counts))
        return found

    def _unserved(self, day: int) -> dict[tuple[str, Cause], tuple[range, WindowCounts]]:
        """The names that are asked for and that no agent has, or that none has any more."""
        rule = Rule(Cause.UNSERVED, 0.0, 0.0, 0.0)
        found = {}
        for capability, days in self.traffic.capabilities.items():
            served = _last_served(days, day)
            window = range(max(day - _ACTIVE + 1, self.traffic.days.start) if served is None else served + 1, day + 1)
            counts = WindowCounts.of(rule, days, window, None)
            needed = _UNSERVED_DAYS if served is None else STREAK
            if counts.affected < _UNSERVED_LEAST or counts.days < needed or not _is_active(days, day):
                continue
            if served is None and self._alias(capability, days, day):
                continue
            found[capability, Cause.UNSERVED] = (window, counts)
        return found

    def _alias(self, capability: str, days: Days, day: int) -> bool:
        """Whether one delegator alone asks for it, and its name is nearly one that is declared; then it is advised."""
        delegators = {name for at, one in days.items() if at <= day for name in one}
        if len(delegators) > 1:
            return False
        if (meant := misspelt(capability, self.traffic.declared)) is None:
            return False
        affected = sum(counts.unserved for at, one in days.items() if at <= day for counts in one.values())
        advice = Advice(capability, meant, delegators.pop(), affected)
        self.advice = [one for one in self.advice if one.capability != capability] + [advice]
        return True


def _last_served(days: Days, until: int) -> int | None:
    return max((day for day, one in days.items() if day <= until and any(c.served for c in one.values())), default=None)


def _is_active(days: Days, until: int) -> bool:
    """Whether it was asked for within the days after which a name is forgotten."""
    return any(
        counts.unserved for day, one in days.items() if until - _ACTIVE < day <= until for counts in one.values()
    )
