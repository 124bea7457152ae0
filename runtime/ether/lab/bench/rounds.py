"""Contenders that have their turns in interleaved rounds, and the medians that come of them.

A machine drifts, for minutes, between a fast and a slow state. So every contender has its turn in every round, the
order is reversed every other round, and what is compared is the ratio within a round; its median is the figure.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any, Final, TypeAlias

from ether.lab.bench.settings import BenchSettings
from ether.lab.harness.deployment import Deployment, deployed, pinned
from ether.lab.harness.sample import Sample
from ether.lab.report import Figure, Report, Row

__all__ = ["Contender", "Samples", "compete", "findings", "interleave", "row"]

Samples: TypeAlias = Mapping[str, Sequence[Sample]]
"""{contender: its samples, one a round}."""
_WARM: Final = 0.2


@dataclass(frozen=True, slots=True)
class Contender:
    """A system, and what its client is ordered to do; contenders with the same options share the system's processes."""

    system: str
    order: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)


def compete(
    contenders: Mapping[str, Contender], settings: BenchSettings, core: int | None, transport: str | None = None
) -> dict[str, list[Sample]]:  # fmt: skip
    """Start those that are not left out, and give each its turn in every round.

    Args:
        contenders: {name: contender}, in the order of the first round.
        settings: of the benchmark.
        core: where all processes are kept; None is anywhere.
        transport: in place of that of the settings.
    """
    running: dict[str, Deployment] = {}
    turns: dict[str, Callable[[], Sample]] = {}
    with contextlib.ExitStack() as stack, pinned(core):
        for name, one in contenders.items():
            if one.system in settings.without:
                continue
            key = f"{one.system} {one.options}"
            if key not in running:
                system = deployed(one.system, transport or settings.transport, **one.options)
                running[key] = stack.enter_context(system)
            running[key].measure(**one.order, seconds=min(_WARM, settings.seconds))
            turns[name] = partial(running[key].measure, **one.order, seconds=settings.seconds)
        return interleave(turns, settings.rounds)


def interleave(turns: Mapping[str, Callable[[], Sample]], rounds: int) -> dict[str, list[Sample]]:
    """Give every contender its turn in every round, forwards and backwards by turns."""
    samples: dict[str, list[Sample]] = {name: [] for name in turns}
    for number in range(rounds):
        names = list(turns) if number % 2 == 0 else list(turns)[::-1]
        for name in names:
            samples[name].append(turns[name]())
    return samples


def row(case: str, contender: str, samples: Sequence[Sample]) -> Row:
    """A contender's medians; absolute, so only to be read beside the others of the same run.

    A round trip is two envelopes, and the times of one are known only where they were made one after the other.
    """
    return {
        "case": case, "contender": contender, "round trips/s": median(sample.rate for sample in samples),
        "p50 µs": _micro([sample.p50 for sample in samples]), "p99 µs": _micro([sample.p99 for sample in samples]),
        "CPU µs an envelope": {
            role: median(sample.cpu_per_envelope(role) for sample in samples) * 1e6 for role in samples[0].cpu
        },
    }  # fmt: skip


def findings(case: str, figures: Sequence[Figure], samples: Samples) -> Report:
    """What a case found."""
    return Report(tuple(figures), {"rows": [row(case, name, found) for name, found in samples.items()]})


def _micro(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) * 1e6 if known else None
