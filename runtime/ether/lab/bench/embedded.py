"""The cost of a delegation within one process, beside pykka's own messages."""

from __future__ import annotations

from functools import partial
from typing import Final

from ether.lab.bench.case import case
from ether.lab.bench.rounds import interleave
from ether.lab.bench.settings import BenchSettings
from ether.lab.harness.deployment import deployed, pinned
from ether.lab.report import Report, amount, at_least, at_most, ratio

__all__ = ["embedded"]

_SERIAL: Final = ("pykka", "ether", "durable")
_PIPELINED: Final = ("pykka", "ether")


@case("embedded", "a bus within one process beside pykka: ask against delegate, futures against handles", "one-process")
def embedded(settings: BenchSettings) -> Report:
    """Medians of round trips made one after the other, and rates with many open; all on one core."""
    with pinned(settings.core), deployed("one-process", settings.transport) as deployment:
        order = partial(deployment.client.order, "measure", seconds=settings.seconds)
        turns = {f"{name}, serial": partial(order, contender=name, window=1) for name in _SERIAL}
        turns |= {f"{name}, pipelined": partial(order, contender=name, window=settings.window) for name in _PIPELINED}
        found = interleave(turns, settings.rounds)
    p50, p99 = ({name: [said[key] for said in found[f"{name}, serial"]] for name in _SERIAL} for key in ("p50", "p99"))
    rate = {name: [said["count"] / said["seconds"] for said in found[f"{name}, pipelined"]] for name in _PIPELINED}
    return Report((
        ratio("embedded", "median, delegate / pykka ask", p50["ether"], p50["pykka"], at_most(3.0)),
        ratio("embedded", "rate, delegate / pykka futures", rate["ether"], rate["pykka"], at_least(0.35)),
        ratio("embedded", "p99 / median", p99["ether"], p50["ether"], at_most(3.0)),
        ratio("embedded", "p99 / median, with an observer and a journal", p99["durable"], p50["durable"], at_most(3.0)),
        amount("embedded", "median", [seconds * 1e6 for seconds in p50["ether"]], "µs"),
        amount("embedded", "median of pykka ask", [seconds * 1e6 for seconds in p50["pykka"]], "µs"),
    ))  # fmt: skip
