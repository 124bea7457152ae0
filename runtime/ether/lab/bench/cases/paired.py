"""Two buses that differ in one option, side by side: under load, and one delegation after the other."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from functools import partial
from typing import Final

from ether.lab.bench.measurement.case import Findings
from ether.lab.bench.measurement.result import Bound
from ether.lab.bench.measurement.rounds import interleave, ratio, row
from ether.lab.bench.measurement.settings import Settings
from ether.lab.harness.deployment import Deployment, pinned
from ether.lab.harness.sample import Sample
from ether.lab.harness.workload import OPAQUE

__all__ = ["CURVE", "DURABLE", "Paired"]


class Paired:
    """What an option costs: the rate with many open, the median one after the other, and the CPU.

    Args:
        name: of the case.
        about: what it compares, for people.
        transport: of both buses; None is the one of the settings.
        options: {contender: what its deployment is given}; what costs first, what it is compared with second.
        rate: what the ratio of the rates has to be.
    """

    systems: frozenset[str] = frozenset({"ether"})

    def __init__(
        self, name: str, about: str, *, options: Mapping[str, Mapping[str, object]], transport: str | None = None,
        rate: Bound | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.about = about
        self._transport = transport
        self._options = options
        self._rate = rate

    def run(self, settings: Settings) -> Findings:
        """The first contender's rate, CPU and median against the second's."""
        one, other = self._options
        with contextlib.ExitStack() as stack, pinned(settings.pin):
            turns = {}
            for contender, options in [*self._options.items()][::-1]:
                bus = stack.enter_context(Deployment("ether", self._transport or settings.transport, **options))
                for way, window in (("pipelined", settings.window), ("serial", 1)):
                    turns[f"{contender}, {way}"] = partial(
                        bus.measure, body=OPAQUE, window=window, seconds=settings.seconds
                    )  # fmt: skip
            for turn in turns.values():
                turn()
            samples = interleave(turns, settings.rounds)
        rates = {name: [sample.rate for sample in found] for name, found in samples.items()}
        medians = {name: [sample.p50 or 0.0 for sample in found] for name, found in samples.items()}
        used = {name: [_cpu(sample) for sample in found] for name, found in samples.items()}
        pair = f"{one} / {other}"
        figures = (
            ratio(self.name, f"rate, {pair}", rates[f"{one}, pipelined"], rates[f"{other}, pipelined"], self._rate),
            ratio(self.name, f"CPU an envelope, {pair}", used[f"{one}, pipelined"], used[f"{other}, pipelined"]),
            ratio(self.name, f"median, {pair}", medians[f"{one}, serial"], medians[f"{other}, serial"]),
        )
        return Findings(figures, tuple(row(self.name, name, found) for name, found in samples.items()))


def _cpu(sample: Sample) -> float:
    """CPU seconds of all processes for each envelope: what other work on the machine disturbs least."""
    return sum(sample.cpu_per_envelope(role) for role in sample.cpu)


DURABLE: Final = Paired(
    "durable",
    "durability journal beside memory: rate with many open, median one after the other",
    options={"journal": {"durability": "journal"}, "memory": {"durability": "memory"}},
    rate=Bound(0.6, at_least=True),
)
"""Everything is committed to the journal before it is told; under load commits are shared, alone each is waited for."""
CURVE: Final = Paired(
    "curve",
    "TCP with keys (CURVE) beside TCP without: rate with many open, median one after the other",
    options={"CURVE": {"secure": True}, "open": {"secure": False}},
    transport="tcp",
)
"""Every byte is encrypted on each of its ways, and whose it is asked of each connection."""
