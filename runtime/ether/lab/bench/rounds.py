"""Interleaved rounds of contenders, and the medians that come of them.

A machine drifts, for minutes, between a fast and a slow state. So every contender has its turn in every round, the
order is reversed every other round, and what is compared is the ratio within a round; its median is the figure.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any, Final, TypeVar

from ether.lab.bench.settings import BenchSettings
from ether.lab.harness.deployment import Deployment, Sample, deployed, pinned
from ether.lab.harness.workload import OPAQUE
from ether.lab.report import Row

__all__ = ["Contender", "compete", "interleave", "row"]

_WARM: Final = 0.2
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Contender:
    """A system, and how its client works; contenders with the same options share the system's processes."""

    system: str
    body: str = OPAQUE
    """The kind of its bodies."""
    window: int | None = None
    """Requests that are open at a time; None is as the settings say, 1 is one after the other."""
    by_name: bool = False
    """Whether each agent is named in turn; else the registry chooses."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the processes are given."""


def compete(
    contenders: Mapping[str, Contender], settings: BenchSettings, core: int | None, transport: str
) -> dict[str, list[Sample]]:  # fmt: skip
    """Start those that are not left out, and give each its turn in every round.

    Args:
        contenders: {name: contender}, in the order of the first round.
        settings: of the benchmark.
        core: where all processes are kept; None is anywhere.
        transport: of all.
    """
    running: dict[str, Deployment] = {}
    turns: dict[str, Callable[[], Sample]] = {}
    with contextlib.ExitStack() as stack, pinned(core):
        for name, one in contenders.items():
            if one.system in settings.without:
                continue
            key = f"{one.system} {one.options}"
            if key not in running:
                running[key] = stack.enter_context(deployed(one.system, transport, **one.options))
            work = partial(
                running[key].measure, body=one.body, window=one.window or settings.window, by_name=one.by_name
            )  # fmt: skip
            work(seconds=min(_WARM, settings.seconds))
            turns[name] = partial(work, seconds=settings.seconds)
        return interleave(turns, settings.rounds)


def interleave(turns: Mapping[str, Callable[[], _T]], rounds: int) -> dict[str, list[_T]]:
    """Give every contender its turn in every round, forwards and backwards by turns."""
    found: dict[str, list[_T]] = {name: [] for name in turns}
    for number in range(rounds):
        for name in list(turns)[:: -1 if number % 2 else 1]:
            found[name].append(turns[name]())
    return found


def row(case: str, contender: str, samples: Sequence[Sample]) -> Row:
    """A contender's medians; absolute, so only to be read beside the others of the same run.

    A round trip is two envelopes, and the times of one are known only where they were made one after the other.
    """
    cpu = {role: median(sample.cpu_per_envelope(role) for sample in samples) * 1e6 for role in samples[0].cpu}
    p50, p99 = (
        [one for one in values if one is not None] for values in zip(*((s.p50, s.p99) for s in samples), strict=True)
    )
    return {
        "case": case, "contender": contender, "round trips/s": median(sample.rate for sample in samples),
        "p50 µs": median(p50) * 1e6 if p50 else None, "p99 µs": median(p99) * 1e6 if p99 else None,
        "CPU µs an envelope": cpu,
    }  # fmt: skip
