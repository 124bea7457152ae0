"""The bus beside other systems that do the same work: many round trips at a time, or one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ether.lab.bench.rounds import Contender, compete, findings
from ether.lab.bench.settings import BenchSettings
from ether.lab.harness.workload import NESTED, OPAQUE
from ether.lab.report import Bound, Report, amount, at_least, at_most, ratio

__all__ = ["BYTES", "PIPELINED", "SERIAL", "Contest"]


class Contest:
    """The bus against each of the others.

    Args:
        name: of the case.
        about: what it compares, for people.
        bodies: {contender: its system and the kind of its bodies}, the bus as `ether`.
        against: {contender: what the ratio to it has to be}.
        is_serial: whether round trips are made one after the other, all processes on one core: nobody waits for another core
            to wake then, so the median says how long the path is, and repeats. Else many are open, and the rate is compared.
    """

    def __init__(
        self, name: str, about: str, *, bodies: Mapping[str, tuple[str, str]], against: Mapping[str, Bound | None],
        is_serial: bool = False,
    ) -> None:  # fmt: skip
        self.name = name
        self.about = about
        self.systems: frozenset[str] = frozenset(system for system, _ in bodies.values())
        self._bodies = bodies
        self._against = against
        self._is_serial = is_serial

    def run(self, settings: BenchSettings) -> Report:
        """The ratio to each of the others, and the bus's tail or the CPU of its broker."""
        window = 1 if self._is_serial else settings.window
        contenders = {
            name: Contender(system, {"body": body, "window": window}) for name, (system, body) in self._bodies.items()
        }
        samples = compete(contenders, settings, settings.core if self._is_serial else settings.pin)
        what, values = "rate", {name: [sample.rate for sample in found] for name, found in samples.items()}
        if self._is_serial:
            what, values = "median", {name: [one.p50 or 0.0 for one in found] for name, found in samples.items()}
        figures = [
            ratio(self.name, f"{what}, ether / {other}", values["ether"], values[other], bound)
            for other, bound in self._against.items()
            if other in values
        ]
        if self._is_serial:
            worst = [sample.p99 or 0.0 for sample in samples["ether"]]
            figures.append(ratio(self.name, "p99 / median, ether", worst, values["ether"], at_most(2.0)))
        else:
            broker = [sample.cpu_per_envelope("broker") * 1e6 for sample in samples["ether"]]
            figures.append(amount(self.name, "broker CPU an envelope", broker, "µs", at_most(8.0)))
        return findings(self.name, figures, samples)


PIPELINED: Final = Contest(
    "pipelined",
    "nested bodies, many open at a time: rate beside NATS, CPU of the broker",
    bodies={"nats": ("nats", NESTED), "ether": ("ether", NESTED)},
    against={"nats": at_least(1.0)},
)
"""NATS with the same envelopes, packed and validated by the same code."""
BYTES: Final = Contest(
    "bytes",
    "bytes bodies, many open at a time: rate beside NATS, raw sockets and a C proxy",
    bodies={
        "raw": ("raw", OPAQUE), "proxy": ("proxy", OPAQUE), "nats plain": ("nats", "plain"), "nats": ("nats", OPAQUE),
        "ether": ("ether", OPAQUE),
    },
    against={"nats": at_least(2.0), "raw": at_least(0.3), "proxy": None, "nats plain": None},
)  # fmt: skip
"""Beside sockets that know neither envelope nor broker, too."""
SERIAL: Final = Contest(
    "serial",
    "nested bodies, one after the other on one core: median beside NATS and raw sockets, p99",
    bodies={
        "raw": ("raw", OPAQUE), "proxy": ("proxy", OPAQUE), "nats": ("nats", NESTED), "ether": ("ether", NESTED),
    },
    against={"nats": at_most(0.75), "raw": at_most(10.0), "proxy": None},
    is_serial=True,
)  # fmt: skip
