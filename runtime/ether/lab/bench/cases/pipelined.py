"""Many round trips at a time: how much work passes, and what it costs the broker."""

from __future__ import annotations

from ether.lab.bench.cases.contenders import Contender, Contest
from ether.lab.bench.measurement.case import Findings
from ether.lab.bench.measurement.result import Bound, Figure
from ether.lab.bench.measurement.rounds import amount, ratio
from ether.lab.bench.measurement.settings import Settings
from ether.lab.harness.workload import NESTED, OPAQUE

__all__ = ["Opaque", "Pipelined"]

_BROKER = Bound(8.0, at_least=False)


class Pipelined:
    """Nested bodies: the bus beside NATS with the same envelopes, packed and validated by the same code."""

    name = "pipelined"
    about = "nested bodies, many open at a time: rate beside NATS, CPU of the broker"
    systems: frozenset[str] = frozenset({"nats", "ether"})

    def run(self, settings: Settings) -> Findings:
        """Rate against NATS's, and the broker's CPU."""
        contest = Contest(self.name, _NESTED, settings.window)
        samples = contest.run(settings, settings.pin)
        rates = {name: [sample.rate for sample in found] for name, found in samples.items()}
        figures: list[Figure] = []
        if "nats" in rates:
            bound = Bound(1.0, at_least=True)
            figures.append(ratio(self.name, "rate, ether / nats", rates["ether"], rates["nats"], bound))
        broker = [sample.cpu_per_envelope("broker") * 1e6 for sample in samples["ether"]]
        figures.append(amount(self.name, "broker CPU an envelope", broker, "µs", _BROKER))
        return Findings(tuple(figures), contest.rows(samples))


class Opaque:
    """Bodies of bytes: the bus beside NATS, and beside sockets that know neither envelope nor broker."""

    name = "bytes"
    about = "bytes bodies, many open at a time: rate beside NATS, raw sockets and a C proxy"
    systems: frozenset[str] = frozenset({"raw", "proxy", "nats", "ether"})

    def run(self, settings: Settings) -> Findings:
        """Rate against each of the others'."""
        contest = Contest(self.name, _OPAQUE, settings.window)
        samples = contest.run(settings, settings.pin)
        rates = {name: [sample.rate for sample in found] for name, found in samples.items()}
        figures = [
            ratio(self.name, f"rate, ether / {other}", rates["ether"], rates[other], bound)
            for other, bound in _AGAINST.items()
            if other in rates
        ]
        broker = [sample.cpu_per_envelope("broker") * 1e6 for sample in samples["ether"]]
        figures.append(amount(self.name, "broker CPU an envelope", broker, "µs", _BROKER))
        return Findings(tuple(figures), contest.rows(samples))


_NESTED = (Contender("nats", "nats", NESTED), Contender("ether", "ether", NESTED))
_OPAQUE = (
    Contender("raw", "raw", OPAQUE),
    Contender("proxy", "proxy", OPAQUE),
    Contender("nats plain", "nats", "plain"),
    Contender("nats", "nats", OPAQUE),
    Contender("ether", "ether", OPAQUE),
)
_AGAINST: dict[str, Bound | None] = {
    "nats": Bound(2.0, at_least=True),
    "raw": Bound(0.3, at_least=True),
    "proxy": None,
    "nats plain": None,
}
