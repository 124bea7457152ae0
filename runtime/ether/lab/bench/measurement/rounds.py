"""Interleaved rounds, and the medians and ratios that come of them.

A machine drifts, for minutes, between a fast and a slow state. So every contender has its turn in every round, the
order is reversed every other round, and what is compared is the ratio within a round; its median is the figure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median

from ether.lab.bench.measurement.result import Bound, Figure, Row
from ether.lab.harness.sample import Sample

__all__ = ["Samples", "amount", "interleave", "ratio", "row"]

Samples = Mapping[str, Sequence[Sample]]
"""{contender: its samples, one a round}."""


def interleave(turns: Mapping[str, Callable[[], Sample]], rounds: int) -> dict[str, list[Sample]]:
    """Give every contender its turn in every round, forwards and backwards by turns."""
    samples: dict[str, list[Sample]] = {name: [] for name in turns}
    for number in range(rounds):
        names = list(turns) if number % 2 == 0 else list(turns)[::-1]
        for name in names:
            samples[name].append(turns[name]())
    return samples


def row(case: str, contender: str, samples: Sequence[Sample]) -> Row:
    """A contender's medians."""
    return Row(
        case,
        contender,
        rate=median(sample.rate for sample in samples),
        p50=_median_or_none([sample.p50 for sample in samples]),
        p99=_median_or_none([sample.p99 for sample in samples]),
        cpu={role: median(sample.cpu_per_envelope(role) for sample in samples) for role in samples[0].cpu},
    )


def ratio(
    case: str, name: str, above: Sequence[float], below: Sequence[float], bound: Bound | None = None
) -> Figure:  # fmt: skip
    """The median of the ratios of each round."""
    values = [one / other for one, other in zip(above, below, strict=True)]
    return amount(case, name, values, "×", bound)


def amount(case: str, name: str, values: Sequence[float], unit: str, bound: Bound | None = None) -> Figure:
    """The median of an amount of each round."""
    return Figure(case, name, median(values), unit, bound, (min(values), max(values)))


def _median_or_none(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
