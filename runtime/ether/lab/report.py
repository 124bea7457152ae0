"""The report of a run of the lab: figures beside their bounds, broken promises, and the tables behind them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, TypeAlias

__all__ = ["Bound", "Figure", "Report", "Row", "Violation", "amount", "at_least", "at_most", "ratio", "spread"]

Row: TypeAlias = Mapping[str, Any]
"""A line of a table: {column: text, number, None, or a mapping of numbers}."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The limit of a figure, from below or from above."""

    limit: float
    at_least: bool
    """Whether it should not be below the limit; else it should not be above."""

    def is_met(self, value: float) -> bool:
        """Whether a value is within it."""
        return value >= self.limit if self.at_least else value <= self.limit

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.limit:,.4g}"


def at_least(limit: float) -> Bound:
    """The bound of what should not be below a limit."""
    return Bound(limit, at_least=True)


def at_most(limit: float) -> Bound:
    """The bound of what should not be above a limit."""
    return Bound(limit, at_least=False)


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured number: a ratio of two things of one run, or an amount of one thing."""

    case: str
    name: str
    """What of what, as in `rate, ether / nats`."""
    value: float
    unit: str = "×"
    bound: Bound | None = None
    """None where it is told for information."""
    spread: tuple[float, float] | None = None
    """The lowest and the highest of several; the value is their median."""
    before: float | None = None
    """What it was in an earlier run, if it is compared with one."""

    @property
    def is_met(self) -> bool | None:
        """Whether it is within its bound; None where there is none."""
        return None if self.bound is None else self.bound.is_met(self.value)


def amount(case: str, name: str, values: Sequence[float], unit: str, bound: Bound | None = None) -> Figure:
    """The median of several amounts, such as one of each round."""
    return Figure(case, name, median(values), unit, bound, (min(values), max(values)))


def ratio(
    case: str, name: str, above: Sequence[float], below: Sequence[float], bound: Bound | None = None
) -> Figure:  # fmt: skip
    """The median of the ratios of each round."""
    return amount(case, name, [one / other for one, other in zip(above, below, strict=True)], "×", bound)


def spread(case: str, name: str, values: Iterable[float]) -> list[Figure]:
    """The median of several durations in seconds, with their number; nothing if there are none."""
    found = list(values)
    return [amount(case, f"{name} ({len(found):,} times)", found, "s")] if found else []


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that a run found broken."""

    rule: str
    """A stable word."""
    text: str
    """What, where and when."""
    id: str = ""
    """The delegation that it is about."""


@dataclass(frozen=True, slots=True)
class Report:
    """The report of one run of the lab: figures, violations and tables."""

    figures: tuple[Figure, ...]
    tables: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    """{name: lines with the same columns}: what the figures were taken from."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """The machine, the versions and the settings."""
    headline: str = ""
    """What it came to, in a few words."""
    violations: tuple[Violation, ...] = ()

    @property
    def missed(self) -> tuple[Figure, ...]:
        """The figures that are outside their bounds."""
        return tuple(figure for figure in self.figures if figure.is_met is False)

    @property
    def ok(self) -> bool:
        """Whether all figures are within their bounds, and no promise was broken."""
        return not self.missed and not self.violations

    def plain(self) -> dict[str, Any]:
        """What `json.dumps` takes; each table stands there under its name."""
        return {
            "ok": self.ok,
            "headline": self.headline,
            "violations": [asdict(violation) for violation in self.violations],
            "figures": [{**asdict(figure), "met": figure.is_met} for figure in self.figures],
            **{name: [dict(row) for row in rows] for name, rows in self.tables.items()},
            "about": dict(self.about),
        }
