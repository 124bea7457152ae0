"""The rate of `bus.map` over many items, beside a window of handles that is written by hand."""

from __future__ import annotations

from functools import partial
from typing import Final

from ether.lab.bench.case import Case
from ether.lab.bench.rounds import interleave
from ether.lab.bench.settings import BenchSettings
from ether.lab.harness.deployment import deployed, pinned
from ether.lab.report import Report, amount, at_least, ratio

__all__ = ["MAPS"]


def _measure(settings: BenchSettings) -> Report:
    """Items a second on an embedded bus, from the first delegation to the last outcome."""
    with pinned(settings.core), deployed("one-process", settings.transport) as deployment:
        order = partial(deployment.client.order, "map", count=settings.mapped, window=settings.window)
        found = interleave({name: partial(order, contender=name) for name in ("hand", "map")}, settings.rounds)
    rates = {name: [settings.mapped / said["seconds"] for said in samples] for name, samples in found.items()}
    grown = {name: [said["grown"] / (1 << 20) for said in samples] for name, samples in found.items()}
    count = f"{settings.mapped:,} items"
    return Report((
        ratio("map", f"rate over {count}, bus.map / handles by hand", rates["map"], rates["hand"], at_least(0.8)),
        amount("map", f"growth of the process's memory over {count}, bus.map", grown["map"], "MiB"),
        amount("map", f"growth of the process's memory over {count}, handles by hand", grown["hand"], "MiB"),
    ))  # fmt: skip


MAPS: Final = Case(
    "map",
    "bus.map over 100,000 items beside handles by hand, in one process; only when it is named",
    frozenset({"one-process"}),
    _measure,
    is_extra=True,
)
