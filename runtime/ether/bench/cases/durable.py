"""A broker that commits everything to its journal before it says so, beside one that keeps nothing."""

from __future__ import annotations

import contextlib
from functools import partial

from ether.bench.case import Findings
from ether.bench.deployment import Deployment, pinned
from ether.bench.result import Bound
from ether.bench.rounds import interleave, ratio, row
from ether.bench.settings import Settings
from ether.bench.work import OPAQUE

__all__ = ["Durable"]


class Durable:
    """What durability `journal` costs: under load, where commits are shared, and one after the other, where each waits."""

    name = "durable"
    about = "durability journal beside memory: rate with many open, median one after the other"
    systems = frozenset({"ether"})

    def run(self, settings: Settings) -> Findings:
        """Rate and median of a journaled bus against those of one without a journal."""
        with contextlib.ExitStack() as stack, pinned(settings.pin):
            turns = {}
            for durability in ("memory", "journal"):
                bus = stack.enter_context(Deployment("ether", settings.transport, durability=durability))
                for way, window in (("pipelined", settings.window), ("serial", 1)):
                    turns[f"{durability}, {way}"] = partial(
                        bus.measure, body=OPAQUE, window=window, seconds=settings.seconds
                    )  # fmt: skip
            for turn in turns.values():
                turn()
            samples = interleave(turns, settings.rounds)
        rates = {name: [sample.rate for sample in found] for name, found in samples.items()}
        medians = {name: [sample.p50 or 0.0 for sample in found] for name, found in samples.items()}
        figures = (
            ratio(
                self.name, "rate, journal / memory", rates["journal, pipelined"], rates["memory, pipelined"],
                Bound(0.6, at_least=True),
            ),
            ratio(self.name, "median, journal / memory", medians["journal, serial"], medians["memory, serial"]),
        )  # fmt: skip
        return Findings(figures, tuple(row(self.name, name, found) for name, found in samples.items()))
