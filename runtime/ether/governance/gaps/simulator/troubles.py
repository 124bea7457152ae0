"""Troubles of a simulated capability: gaps, and what only looks like one.

Each function gives a capability what it has, and returns the first day of a gap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Final

from ether.governance.gaps.rules import Cause
from ether.governance.gaps.simulator.simulated_capability import Rates, SimulatedCapability

__all__ = ["CONFOUNDERS", "GAPS"]


def _from(simulated: SimulatedCapability, days: range, only: str | None = None, **to: float) -> None:
    def change(day: int, delegator: str, rates: Rates) -> Rates:
        return replace(rates, **to) if day in days and only in {None, delegator} else rates

    simulated.changes.append(change)


def _few(days: range, random: Random, most: int) -> range:
    length = random.randint(1, most)
    first = random.randrange(days.start + 1, days.stop - length)
    return range(first, first + length)


# -- gaps ---------------------------------------------------------------------------------------------------------


def _unserved(simulated: SimulatedCapability, days: range, random: Random) -> Cause:
    simulated.daily = min(simulated.daily, random.uniform(0.7, 40))
    _from(simulated, days, unserved=1.0)
    return Cause.UNSERVED


def _partly(simulated: SimulatedCapability, days: range, random: Random) -> Cause:
    share = random.uniform(0.25, 0.6)
    refused = share * random.random()
    _from(simulated, days, refused=refused, partial=share - refused)
    return Cause.REFUSED


def _slow(simulated: SimulatedCapability, days: range, random: Random) -> Cause:
    _from(simulated, days, slower=random.uniform(3.0, 8.0), timeout=random.uniform(0.0, 0.1))
    return Cause.SLOW


def _unclear(simulated: SimulatedCapability, days: range, random: Random) -> Cause:
    share = random.uniform(0.4, 0.75)
    context = share * random.random()
    _from(simulated, days, context=context, asks=share - context)
    return Cause.UNCLEAR


def _emergent(simulated: SimulatedCapability, days: range, random: Random) -> Cause:
    return random.choice((_partly, _slow, _unclear))(simulated, _late(days, random), random)


def _retired(simulated: SimulatedCapability, days: range, random: Random) -> Cause:
    _from(simulated, _late(days, random), unserved=1.0)
    return Cause.UNSERVED


def _late(days: range, random: Random) -> range:
    return range(days.start + random.randint(len(days) * 2 // 5, len(days) * 2 // 3), days.stop)


GAPS: Final[dict[str, Callable[[SimulatedCapability, range, Random], Cause]]] = {
    "missing": _unserved, "partly": _partly, "slow": _slow, "unclear": _unclear, "emergent": _emergent, "retired": _retired,
}  # fmt: skip
"""{kind of gap: gives it to a capability from some days on, and says which rule should see it}."""


# -- what only looks like a gap -----------------------------------------------------------------------------------


def _outage(simulated: SimulatedCapability, days: range, random: Random) -> None:
    gone = random.choice((True, False))
    part = random.uniform(0.5, 1.0)
    when = _few(days, random, 2)
    if gone:
        _from(simulated, when, unserved=part)
    else:
        _from(simulated, when, failed=part * 0.6, timeout=part * 0.4)


def _overload(simulated: SimulatedCapability, days: range, random: Random) -> None:
    for _ in range(random.randint(1, 6)):
        _from(simulated, _few(days, random, 3), overload=random.uniform(0.2, 0.7), slower=random.uniform(1.0, 1.8))


def _malformed(simulated: SimulatedCapability, days: range, random: Random) -> None:
    simulated.shares = {**simulated.shares, "newcomer": random.uniform(0.2, 0.8)}
    _from(simulated, days, only="newcomer", context=random.uniform(0.6, 0.98))


def _deploy(simulated: SimulatedCapability, days: range, random: Random) -> None:
    _from(simulated, _few(days, random, 1), refused=random.uniform(0.2, 0.6), partial=0.2, failed=0.1)


def _season(simulated: SimulatedCapability, days: range, random: Random) -> None:
    _from(simulated, _few(days, random, 5), volume=random.uniform(3, 10), slower=random.uniform(1.0, 1.6), overload=0.1)


def _load_test(simulated: SimulatedCapability, days: range, random: Random) -> None:
    simulated.shares = {**simulated.shares, "load-test": 0.01}
    when = _few(days, random, 2)
    _from(simulated, when, only="load-test", volume=random.uniform(200, 2000), timeout=0.4, overload=0.3)


def _asks(simulated: SimulatedCapability, days: range, random: Random) -> None:
    _from(simulated, days, asks=random.uniform(0.08, 0.25))


def _heavier(simulated: SimulatedCapability, days: range, random: Random) -> None:
    _from(simulated, days, slower=random.uniform(1.2, 2.2))


def _migration(simulated: SimulatedCapability, days: range, random: Random) -> None:
    """One delegator asks for what the capability excludes, and says so in its objective."""
    simulated.shares = {**simulated.shares, "migration": random.uniform(0.1, 0.6)}
    _from(simulated, days, only="migration", refused=random.uniform(0.5, 0.95))


CONFOUNDERS: Final[dict[str, Callable[[SimulatedCapability, range, Random], None]]] = {
    "outage": _outage, "overload": _overload, "malformed": _malformed, "deploy": _deploy, "season": _season,
    "load test": _load_test, "asks back by nature": _asks, "heavier than declared": _heavier, "migration": _migration,
}  # fmt: skip
"""{what it is: gives it to a capability}."""
