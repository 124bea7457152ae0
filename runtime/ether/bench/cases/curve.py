"""TCP with keys beside TCP without."""

from __future__ import annotations

import contextlib
from functools import partial

from ether.bench.case import Findings
from ether.bench.deployment import Deployment, pinned
from ether.bench.rounds import interleave, ratio, row
from ether.bench.sample import Sample
from ether.bench.settings import Settings
from ether.bench.work import OPAQUE

__all__ = ["Curve"]


class Curve:
    """What CURVE costs: every byte encrypted on each of its ways, and whose it is asked of each connection."""

    name = "curve"
    about = "TCP with keys (CURVE) beside TCP without: rate with many open, median one after the other"
    systems = frozenset({"ether"})

    def run(self, settings: Settings) -> Findings:
        """Rate and median of an encrypted bus against those of an open one."""
        with contextlib.ExitStack() as stack, pinned(settings.pin):
            turns = {}
            for kind in ("open", "curve"):
                bus = stack.enter_context(Deployment("ether", "tcp", secure=kind == "curve"))
                for way, window in (("pipelined", settings.window), ("serial", 1)):
                    turns[f"{kind}, {way}"] = partial(
                        bus.measure, body=OPAQUE, window=window, seconds=settings.seconds
                    )  # fmt: skip
            for turn in turns.values():
                turn()
            samples = interleave(turns, settings.rounds)
        rates = {name: [sample.rate for sample in found] for name, found in samples.items()}
        medians = {name: [sample.p50 or 0.0 for sample in found] for name, found in samples.items()}
        used = {name: [_cpu(sample) for sample in found] for name, found in samples.items()}
        figures = (
            ratio(self.name, "rate, CURVE / open", rates["curve, pipelined"], rates["open, pipelined"]),
            ratio(self.name, "CPU an envelope, CURVE / open", used["curve, pipelined"], used["open, pipelined"]),
            ratio(self.name, "median, CURVE / open", medians["curve, serial"], medians["open, serial"]),
        )  # fmt: skip
        return Findings(figures, tuple(row(self.name, name, found) for name, found in samples.items()))


def _cpu(sample: Sample) -> float:
    """CPU seconds of all processes for each envelope: what other work on the machine disturbs least."""
    return sum(sample.cpu_per_envelope(role) for role in sample.cpu)
