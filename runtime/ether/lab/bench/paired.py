"""Two buses that differ in one option, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ether.lab.bench.rounds import Contender, compete, findings
from ether.lab.bench.settings import BenchSettings
from ether.lab.harness.sample import Sample
from ether.lab.harness.workload import OPAQUE
from ether.lab.report import Bound, Report, at_least, ratio

__all__ = ["CURVE", "DURABLE", "Paired", "Registered"]


class Paired:
    """The case of an option: its cost in the rate with many open, in the median one after the other, and in CPU.

    Args:
        name: of the case.
        about: what it compares, for people.
        options: {contender: what its processes are given}; what costs first, what it is compared with second.
        transport: of both buses; None is the one of the settings.
        rate: what the ratio of the rates has to be.
    """

    systems: frozenset[str] = frozenset({"ether"})

    def __init__(
        self, name: str, about: str, *, options: Mapping[str, Mapping[str, Any]], transport: str | None = None,
        rate: Bound | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.about = about
        self._transport = transport
        self._options = options
        self._rate = rate

    def run(self, settings: BenchSettings) -> Report:
        """The first contender's rate, CPU and median against the second's."""
        one, other = self._options
        contenders = {
            f"{name}, {way}": Contender("ether", {"body": OPAQUE, "window": window}, self._options[name])
            for name in (other, one)
            for way, window in (("pipelined", settings.window), ("serial", 1))
        }
        samples = compete(contenders, settings, settings.pin, self._transport)
        figures = []
        for what, way, value, bound in (
            ("rate", "pipelined", _rate, self._rate),
            ("CPU an envelope", "pipelined", _cpu, None),
            ("median", "serial", _median, None),
        ):
            ours, theirs = ([value(sample) for sample in samples[f"{name}, {way}"]] for name in (one, other))
            figures.append(ratio(self.name, f"{what}, {one} / {other}", ours, theirs, bound))
        return findings(self.name, figures, samples)


def _rate(sample: Sample) -> float:
    return sample.rate


def _median(sample: Sample) -> float:
    return sample.p50 or 0.0


def _cpu(sample: Sample) -> float:
    """CPU seconds of all processes for each envelope: what other work on the machine disturbs least."""
    return sum(sample.cpu_per_envelope(role) for role in sample.cpu)


class Registered:
    """The case of many registered agents: the same work, spread over all of them or done by one."""

    name = "registered"
    about = "work spread over many registered agents beside one: rate, by capability and by name"
    systems: frozenset[str] = frozenset({"ether"})

    def run(self, settings: BenchSettings) -> Report:
        """Rate of many against that of one, chosen by the registry and named in turn."""
        contenders = {
            f"{size}, {way}": Contender(
                "ether", {"body": OPAQUE, "window": settings.window, "by_name": way == "by name"}, {"agents": agents}
            )
            for size, agents in (("one", 1), ("many", settings.registered))
            for way in ("by capability", "by name")
        }
        samples = compete(contenders, settings, settings.pin)
        figures = []
        for way in ("by capability", "by name"):
            many, one = ([sample.rate for sample in samples[f"{size}, {way}"]] for size in ("many", "one"))
            name = f"rate, {settings.registered:,} agents / one, {way}"
            figures.append(ratio(self.name, name, many, one, at_least(0.9)))
        return findings(self.name, figures, samples)


DURABLE: Final = Paired(
    "durable",
    "durability journal beside memory: rate with many open, median one after the other",
    options={"journal": {"durability": "journal"}, "memory": {"durability": "memory"}},
    rate=at_least(0.6),
)
"""Everything is committed to the journal before it is told; under load commits are shared, alone each is waited for."""
CURVE: Final = Paired(
    "curve",
    "TCP with keys (CURVE) beside TCP without: rate with many open, median one after the other",
    options={"CURVE": {"secure": True}, "open": {"secure": False}},
    transport="tcp",
)
"""Every byte is encrypted on each of its ways, and whose it is asked of each connection."""
