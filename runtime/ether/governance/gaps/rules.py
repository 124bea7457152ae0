"""The rules of gap scoring, one a cause, and what each counts in a window of days."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, TypeVar

from ether.governance.gaps.daily_traffic import Counts, Days, bin_of

__all__ = ["LEVEL", "RULES", "STREAK", "WINDOWS", "Cause", "DayCounts", "Rule", "WindowCounts"]

_Key = TypeVar("_Key", int, str)

WINDOWS: Final = (7, 30)
"""Days that are looked at together."""
LEVEL: Final = 0.01
"""Part of the findings of one rule that may be chance."""
STREAK: Final = 3
"""Days in a row on which a rule has to hold."""
_PART: Final = 0.5
"""The part of the lowest share that has to be asked back where a single delegator makes it."""
_SLOW: Final = 3.0
"""Times the usual pace over which a delegation is slow."""


class Cause(StrEnum):
    """The reason why a capability does not suffice.

    Example:
        assert Cause.SLOW == "slow"
    """

    UNSERVED = "unserved"
    """No agent has it."""
    REFUSED = "refused"
    """Its agents refuse what they are asked for, or do a part of it."""
    UNCLEAR = "unclear"
    """Its agents ask back, or miss context."""
    SLOW = "slow"
    """It takes longer than its weight says, or its deadline passes."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule of one cause: how large a share has to be, and how it is told from chance.

    Example:
        rule = next(rule for rule in RULES if rule.cause is Cause.REFUSED)
        assert rule.effect > rule.chance
    """

    cause: Cause
    effect: float
    """The lowest share of delegations that is worth a finding."""
    chance: float
    """The share that is usual; what is above has to be more than its chance."""
    others: float
    """The part of the share that has to be left without the delegator that has most of it."""


RULES: Final = (
    Rule(Cause.REFUSED, effect=0.15, chance=0.06, others=0.5),
    Rule(Cause.UNCLEAR, effect=0.30, chance=0.10, others=0.7),
    Rule(Cause.SLOW, effect=0.32, chance=0.18, others=0.5),
)


class DayCounts(NamedTuple):
    """The counts of a rule for one day or one delegator."""

    affected: int
    asked: int


@dataclass(frozen=True, slots=True)
class WindowCounts:
    """The counts of a rule for a window of days: all, without the loudest day, and without the loudest delegator."""

    affected: int
    asked: int
    days: int
    """Days on which more than is usual were affected."""
    delegators: int
    """Delegators of any that were affected."""
    quiet: DayCounts
    """Without the day that has most of those affected."""
    others: DayCounts
    """Without the delegator that has most of those affected."""
    asked_back: int
    """Those affected by NEEDS_INPUT."""

    @classmethod
    def of(cls, rule: Rule, days: Days, window: range, usual_pace: float | None) -> WindowCounts:
        """Count what a rule says in a window."""
        by_day: dict[int, DayCounts] = {}
        by_delegator: dict[str, DayCounts] = {}
        asked_back = 0
        bound = None if usual_pace is None else bin_of(usual_pace * _SLOW)
        for day in window:
            for delegator, counts in days.get(day, {}).items():
                affected, asked = _affected(rule.cause, counts, bound)
                asked_back += counts.asked_back
                _add(by_day, day, affected, asked)
                _add(by_delegator, delegator, affected, asked)
        affected = sum(one.affected for one in by_day.values())
        asked = sum(one.asked for one in by_day.values())
        return cls(
            affected, asked, sum(one.affected > rule.chance * one.asked for one in by_day.values()),
            sum(one.affected > 0 for one in by_delegator.values()),
            _without_loudest(by_day, affected, asked), _without_loudest(by_delegator, affected, asked), asked_back,
        )  # fmt: skip

    @property
    def share(self) -> float:
        """The share of those affected; 0.0 without any."""
        return self.affected / self.asked if self.asked else 0.0

    def is_broad(self, rule: Rule) -> bool:
        """Whether enough days show it, with the lowest share that counts, and not one delegator alone makes it."""
        if self.days < STREAK or not self.quiet.asked or self.quiet.affected < rule.effect * self.quiet.asked:
            return False
        if (
            not self.others.asked
        ):  # what is refused of a single delegator may be its own mistake, what is asked back is none
            return rule.cause is not Cause.UNCLEAR or self.asked_back >= rule.effect * _PART * self.asked
        return self.others.affected >= rule.others * self.share * self.others.asked


def _affected(cause: Cause, counts: Counts, bound: int | None) -> tuple[int, int]:
    served = counts.served
    match cause:
        case Cause.REFUSED:
            unserved = counts.unserved if served else 0  # of one that no agent had, another rule tells
            return counts.refused + unserved, served + unserved
        case Cause.UNCLEAR:
            return counts.unclear, served
        case Cause.SLOW:
            slow = 0 if bound is None else sum(count for number, count in counts.paces.items() if number > bound)
            return slow + counts.timeouts, sum(counts.paces.values()) + counts.timeouts
        case _:
            return counts.unserved, served + counts.unserved


def _add(totals: dict[_Key, DayCounts], key: _Key, affected: int, asked: int) -> None:
    before = totals.get(key, DayCounts(0, 0))
    totals[key] = DayCounts(before.affected + affected, before.asked + asked)


def _without_loudest(totals: Mapping[_Key, DayCounts], affected: int, asked: int) -> DayCounts:
    loudest = max(totals.values(), default=DayCounts(0, 0))
    return DayCounts(affected - loudest.affected, asked - loudest.asked)
