"""One round trip after the other, everything on one core: the length of the way."""

from __future__ import annotations

from ether.lab.bench.cases.contenders import Contender, Contest
from ether.lab.bench.measurement.case import Findings
from ether.lab.bench.measurement.result import Bound, Figure
from ether.lab.bench.measurement.rounds import ratio
from ether.lab.bench.measurement.settings import Settings
from ether.lab.harness.workload import NESTED, OPAQUE

__all__ = ["Serial"]


class Serial:
    """Latency. On one core nobody waits for another core to wake, so it says how long the path is and repeats."""

    name = "serial"
    about = "nested bodies, one after the other on one core: median beside NATS and raw sockets, p99"
    systems: frozenset[str] = frozenset({"raw", "proxy", "nats", "ether"})

    def run(self, settings: Settings) -> Findings:
        """Medians against each of the others', and the 99th percentile against the median."""
        contest = Contest(self.name, _CONTENDERS, window=1)
        samples = contest.run(settings, settings.core)
        medians = {name: [sample.p50 or 0.0 for sample in found] for name, found in samples.items()}
        figures: list[Figure] = [
            ratio(self.name, f"median, ether / {other}", medians["ether"], medians[other], bound)
            for other, bound in _AGAINST.items()
            if other in medians
        ]
        worst = [sample.p99 or 0.0 for sample in samples["ether"]]
        bound = Bound(2.0, at_least=False)
        figures.append(ratio(self.name, "p99 / median, ether", worst, medians["ether"], bound))
        return Findings(tuple(figures), contest.rows(samples))


_CONTENDERS = (
    Contender("raw", "raw", OPAQUE),
    Contender("proxy", "proxy", OPAQUE),
    Contender("nats", "nats", NESTED),
    Contender("ether", "ether", NESTED),
)
_AGAINST: dict[str, Bound | None] = {
    "nats": Bound(0.75, at_least=False),
    "raw": Bound(10.0, at_least=False),
    "proxy": None,
}
