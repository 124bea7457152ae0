"""A simulated capability: who asks for it, how often, what becomes of it, and how long it takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from statistics import NormalDist
from typing import Final

from ether.governance.gaps.daily_traffic import Counts, DailyTraffic, bin_end, bin_of
from ether.governance.gaps.simulator.binomial import binomial, poisson

__all__ = ["Change", "Rates", "SimulatedCapability"]

_ONE_BY_ONE: Final = 40
"""Delegations of a day whose paces are drawn one by one; those of more are drawn a bin at a time."""
_NORMAL: Final = NormalDist()


@dataclass(frozen=True, slots=True)
class Rates:
    """The shares of a day's delegations that end so, of which the rest is COMPLETED, and how long they take."""

    unserved: float = 0.0
    refused: float = 0.0
    partial: float = 0.0
    context: float = 0.0
    asks: float = 0.0
    overload: float = 0.0
    failed: float = 0.0
    timeout: float = 0.0
    slower: float = 1.0
    """Times the usual pace of the weight that is declared."""
    volume: float = 1.0
    """Times the usual number of delegations."""


Change = Callable[[int, str, Rates], Rates]
"""What a trouble makes of the rates of a day for a delegator."""


@dataclass(slots=True)
class SimulatedCapability:
    """A capability with its traffic.

    Args:
        name: of the capability.
        daily: delegations of an ordinary day.
        shares: {delegator: its part of them}.
        rates: of an ordinary day.
        spread: standard deviation of the logarithm of the paces.
        weekend: part of an ordinary day that a Saturday or Sunday has.
    """

    name: str
    daily: float
    shares: dict[str, float]
    rates: Rates
    spread: float = 0.9
    weekend: float = 0.5
    changes: list[Change] = field(default_factory=list)

    def fill(self, traffic: DailyTraffic, days: range, random: Random) -> None:
        """Draw the traffic of some days."""
        for day in days:
            busy = self.daily * random.lognormvariate(0, 0.25) * (self.weekend if day % 7 in {2, 3} else 1.0)
            for delegator, share in self.shares.items():
                rates = self.rates
                for change in self.changes:
                    rates = change(day, delegator, rates)
                if many := poisson(random, busy * share * rates.volume):
                    self._count(traffic.counts(self.name, day, delegator), many, rates, random)

    def _count(self, counts: Counts, many: int, rates: Rates, random: Random) -> None:
        left, whole = many, 1.0
        drawn = []
        shares = (
            rates.unserved, rates.overload, rates.refused, rates.context, rates.timeout, rates.failed, rates.partial,
            rates.asks,
        )  # fmt: skip
        for share in shares:
            one = binomial(random, left, min(1.0, share / whole)) if whole > 0 else 0
            drawn.append(one)
            left, whole = left - one, whole - share
        unserved, overload, refused, context, timeout, failed, partial, asks = drawn
        counts.unserved += unserved
        counts.others += overload + failed
        counts.refused += refused + partial
        counts.context += context
        counts.asked_back += asks
        counts.timeouts += timeout
        counts.completed += left
        self._time(counts, left + partial, math.log(rates.slower), random)

    def _time(self, counts: Counts, many: int, middle: float, random: Random) -> None:
        paces = counts.paces
        if many <= _ONE_BY_ONE:
            for _ in range(many):
                number = bin_of(random.lognormvariate(middle, self.spread))
                paces[number] = paces.get(number, 0) + 1
            return
        number, below = bin_of(math.exp(middle - 4 * self.spread)), 0.0
        while many > 0:
            end = _NORMAL.cdf((math.log(bin_end(number)) - middle) / self.spread)
            one = binomial(random, many, min(1.0, (end - below) / (1 - below))) if end < 1 - 1e-6 else many
            if one:
                paces[number] = paces.get(number, 0) + one
            many, below, number = many - one, end, number + 1
