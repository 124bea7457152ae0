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

_SERIAL: Final = ("pykka", "ether", "ask", "durable")
_PIPELINED: Final = ("pykka", "ether")


@case("embedded", "a bus within one process beside pykka: ask against delegate, futures against handles", "one-process")
def embedded(settings: BenchSettings) -> Report:
    """Medians of round trips made one after the other, and rates with many open, on one core; the medians on all cores too."""
    with pinned(settings.core), deployed("one-process", settings.transport) as deployment:
        order = partial(deployment.client.order, "measure", seconds=settings.seconds)
        turns = {f"{name}, serial": partial(order, contender=name, window=1) for name in _SERIAL}
        turns |= {f"{name}, pipelined": partial(order, contender=name, window=settings.window) for name in _PIPELINED}
        found = interleave(turns, settings.rounds)
    with pinned(settings.pin), deployed("one-process", settings.transport) as deployment:
        order = partial(deployment.client.order, "measure", seconds=settings.seconds, window=1)
        free = interleave({name: partial(order, contender=name) for name in ("pykka", "ether", "ask")}, settings.rounds)
    at_large = {name: [said["p50"] for said in free[name]] for name in free}
    p50, p99 = ({name: [said[key] for said in found[f"{name}, serial"]] for name in _SERIAL} for key in ("p50", "p99"))
    rate = {name: [said["count"] / said["seconds"] for said in found[f"{name}, pipelined"]] for name in _PIPELINED}
    return Report((
        ratio("embedded", "median, delegate / pykka ask", p50["ether"], p50["pykka"], at_most(3.0)),
        ratio("embedded", "median, bus.ask / pykka ask", p50["ask"], p50["pykka"], at_most(1.7)),
        ratio("embedded", "median on all cores, delegate / pykka ask", at_large["ether"], at_large["pykka"], at_most(3.0)),
        ratio("embedded", "median on all cores, bus.ask / pykka ask", at_large["ask"], at_large["pykka"], at_most(1.7)),
        ratio("embedded", "rate, delegate / pykka futures", rate["ether"], rate["pykka"], at_least(0.35)),
        ratio("embedded", "p99 / median", p99["ether"], p50["ether"], at_most(3.0)),
        ratio("embedded", "p99 / median, with an observer and a journal", p99["durable"], p50["durable"], at_most(3.0)),
        amount("embedded", "median", [seconds * 1e6 for seconds in p50["ether"]], "µs"),
        amount("embedded", "median of pykka ask", [seconds * 1e6 for seconds in p50["pykka"]], "µs"),
    ))  # fmt: skip
