"""The cost of a delegation within one process, beside pykka's own messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from ether.lab.bench.case import case
from ether.lab.bench.rounds import interleave
from ether.lab.bench.settings import BenchSettings
from ether.lab.harness.deployment import Deployment, deployed, pinned
from ether.lab.harness.role import Info
from ether.lab.report import Figure, Report, amount, at_least, at_most, ratio

__all__ = ["embedded"]

_SERIAL: Final = ("pykka", "ether", "ask", "durable", "stateless", "state")
_PIPELINED: Final = ("pykka", "ether", "map")
_ASKING: Final = ("pykka", "ether", "ask")


@case("embedded", "a bus within one process beside pykka: ask against delegate, futures against handles", "one-process")
def embedded(settings: BenchSettings) -> Report:
    """Medians of round trips made one after the other, and rates with many open, on one core, and medians on all cores."""
    with pinned(settings.core), deployed("one-process", settings.transport) as deployment:
        found = _measure(deployment, settings, _SERIAL, _PIPELINED)
    p50, p99 = ({name: [said[key] for said in found[f"{name}, serial"]] for name in _SERIAL} for key in ("p50", "p99"))
    rate = {name: [said["count"] / said["seconds"] for said in found[f"{name}, pipelined"]] for name in _PIPELINED}
    figures = [
        *_medians("median", p50),
        ratio("embedded", "rate, delegate / pykka futures", rate["ether"], rate["pykka"], at_least(0.35)),
        ratio("embedded", "rate, bus.map / handles by hand", rate["map"], rate["ether"], at_least(0.8)),
        ratio("embedded", "p99 / median", p99["ether"], p50["ether"], at_most(3.0)),
        ratio("embedded", "p99 / median, with an observer and a journal", p99["durable"], p50["durable"], at_most(3.0)),
        ratio("embedded", "median with a journal, a changed state of 1 KiB / none", p50["state"], p50["stateless"]),
        amount("embedded", "median", [seconds * 1e6 for seconds in p50["ether"]], "µs"),
        amount("embedded", "median of pykka ask", [seconds * 1e6 for seconds in p50["pykka"]], "µs"),
    ]
    if settings.pin is None:
        with deployed("one-process", settings.transport) as deployment:
            found = _measure(deployment, settings, _ASKING, ())
        figures += _medians(
            "median on all cores", {name: [said["p50"] for said in found[f"{name}, serial"]] for name in _ASKING}
        )
    return Report(tuple(figures))


def _measure(
    deployment: Deployment, settings: BenchSettings, serial: Sequence[str], pipelined: Sequence[str]
) -> dict[str, list[Info]]:  # fmt: skip
    order = partial(deployment.client.order, "measure", seconds=settings.seconds)
    turns = {f"{name}, serial": partial(order, contender=name, window=1) for name in serial}
    turns |= {f"{name}, pipelined": partial(order, contender=name, window=settings.window) for name in pipelined}
    return interleave(turns, settings.rounds)


def _medians(what: str, p50: Mapping[str, Sequence[float]]) -> list[Figure]:
    return [
        ratio("embedded", f"{what}, delegate / pykka ask", p50["ether"], p50["pykka"], at_most(3.0)),
        ratio("embedded", f"{what}, bus.ask / pykka ask", p50["ask"], p50["pykka"], at_most(1.7)),
    ]
