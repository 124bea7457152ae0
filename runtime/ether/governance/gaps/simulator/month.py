"""A simulated month: capabilities with their traffic, some of them with a known gap."""

from __future__ import annotations

import math
import string
from dataclasses import dataclass, field
from random import Random
from typing import Final

from ether.governance.gaps.daily_traffic import DailyTraffic, Days
from ether.governance.gaps.rules import Cause
from ether.governance.gaps.simulator.simulated_capability import Rates, SimulatedCapability
from ether.governance.gaps.simulator.troubles import CONFOUNDERS, GAPS

__all__ = ["Gap", "Month"]

_CAPABILITIES: Final = 40
_DAYS: Final = range(20_000, 20_030)
_GAP: Final = 0.2
"""Part of the capabilities that have one."""
_CONFOUNDED: Final = 0.45
_MISSPELT: Final = 0.1
"""Part of the capabilities without a gap whose name a delegator misspells."""
_FEWEST, _MOST = 20, 500_000
"""Delegations of a capability in a month."""
_SLOW: Final = 11
"""The bin of three times the usual pace, which is 1."""
_WORDS: Final = (
    "research", "context", "deepen", "verify", "script", "draft", "review", "code", "image", "render", "table", "extract",
    "plan", "route", "mail", "index", "search", "translate", "speech", "ledger",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Gap:
    """A gap that is there."""

    capability: str
    kind: str
    cause: Cause
    first: int
    """The first day with a delegation that it affected."""
    affected: int


@dataclass(slots=True)
class Month:
    """The traffic of a month and the gaps that are in it, both drawn by a seed.

    Args:
        seed: the same gives the same month.
        gap: part of the capabilities that have one.

    Example:
        month = Month(seed=1)
        assert len(month.traffic.days) <= 30
        assert {gap.cause for gap in month.gaps} <= set(Cause)
    """

    seed: int
    gap: float = _GAP
    traffic: DailyTraffic = field(default_factory=DailyTraffic)
    gaps: list[Gap] = field(default_factory=list)
    innocent: dict[str, str] = field(default_factory=dict)
    """{capability without a gap: what looks like one}."""

    def __post_init__(self) -> None:
        random = Random(self.seed)  # noqa: S311  it draws traffic
        delegators = [f"agent-{number}" for number in range(30)]
        for number in range(_CAPABILITIES):
            simulated = _capability(number, delegators, random)
            if random.random() < self.gap:
                kind = random.choice(list(GAPS))
                before = simulated.rates
                cause = GAPS[kind](simulated, _DAYS, random)
                if kind != "missing":
                    self.traffic.declared.add(simulated.name)
                simulated.fill(self.traffic, _DAYS, random)
                self._note(simulated, kind, cause, before)
                continue
            self.traffic.declared.add(simulated.name)
            if random.random() < _CONFOUNDED:
                kind = random.choice(list(CONFOUNDERS))
                CONFOUNDERS[kind](simulated, _DAYS, random)
                self.innocent[simulated.name] = kind
            simulated.fill(self.traffic, _DAYS, random)
            if random.random() < _MISSPELT:
                self._misspell(simulated, random)

    def _note(self, simulated: SimulatedCapability, kind: str, cause: Cause, before: Rates) -> None:
        days = self.traffic.capabilities.get(simulated.name, {})
        starts = [day for day in sorted(days) if any(change(day, "", before) != before for change in simulated.changes)]
        affected = sum(_affected(cause, days, day) for day in starts)
        if affected:
            self.gaps.append(Gap(simulated.name, kind, cause, starts[0], affected))

    def _misspell(self, simulated: SimulatedCapability, random: Random) -> None:
        at = random.randrange(1, len(simulated.name) - 1)
        letter = random.choice(string.ascii_lowercase)
        name = random.choice(
            (simulated.name[:at] + simulated.name[at + 1 :], simulated.name[:at] + letter + simulated.name[at + 1 :])
        )
        if name in self.traffic.capabilities or ".." in name:
            return
        self.innocent[name] = "misspelt"
        wrong = SimulatedCapability(
            name, random.uniform(0.3, 20), {random.choice(list(simulated.shares)): 1.0}, Rates(unserved=1.0)
        )
        wrong.fill(self.traffic, _DAYS, random)


def _affected(cause: Cause, days: Days, day: int) -> int:
    counts = days[day].values()
    match cause:
        case Cause.UNSERVED:
            return sum(one.unserved for one in counts)
        case Cause.REFUSED:
            return sum(one.refused for one in counts)
        case Cause.UNCLEAR:
            return sum(one.unclear for one in counts)
        case _:
            return sum(
                one.timeouts + sum(many for number, many in one.paces.items() if number > _SLOW) for one in counts
            )


def _capability(number: int, delegators: list[str], random: Random) -> SimulatedCapability:
    name = f"{random.choice(_WORDS)}.{random.choice(_WORDS)}.{random.choice(_WORDS)}-{number}"
    monthly = math.exp(random.uniform(math.log(_FEWEST), math.log(_MOST)))
    asking = random.sample(delegators, random.choice((1, 2, 3, 5, 8, 12)))
    shares = {one: 1 / rank ** random.uniform(0.5, 1.3) for rank, one in enumerate(asking, 1)}
    whole = sum(shares.values())
    rates = Rates(
        refused=random.uniform(0, 0.02), partial=random.uniform(0, 0.03), context=random.uniform(0, 0.04),
        asks=random.uniform(0, 0.05), overload=random.uniform(0, 0.02), failed=random.uniform(0, 0.03),
        timeout=random.uniform(0, 0.02), slower=random.lognormvariate(0, 0.15),
    )  # fmt: skip
    return SimulatedCapability(
        name, monthly / len(_DAYS), {one: share / whole for one, share in shares.items()}, rates,
        spread=random.uniform(0.6, 1.1), weekend=random.uniform(0.2, 1.0),
    )  # fmt: skip
