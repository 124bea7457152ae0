"""What a cluster costs that has nothing to do."""

from __future__ import annotations

import time

from ether.lab.bench.measurement.case import Findings
from ether.lab.bench.measurement.result import Bound
from ether.lab.bench.measurement.rounds import amount
from ether.lab.bench.measurement.settings import Settings
from ether.lab.harness.deployment import Deployment, pinned

__all__ = ["Idle"]

_CALM = 0.5


class Idle:
    """CPU of broker, worker, observer and client together while nobody delegates."""

    name = "idle"
    about = "a cluster of four processes that does nothing: CPU"
    systems: frozenset[str] = frozenset({"ether"})

    def run(self, settings: Settings) -> Findings:
        """Percent of one core, over twice the seconds of a turn each round."""
        shares: list[float] = []
        with pinned(settings.pin), Deployment("ether", settings.transport) as deployment:
            time.sleep(_CALM)
            for _ in range(min(settings.rounds, 3)):
                before, start = sum(deployment.cpu().values()), time.perf_counter()
                time.sleep(2 * settings.seconds)
                used = sum(deployment.cpu().values()) - before
                shares.append(used / (time.perf_counter() - start) * 100)
        bound = Bound(1.0, at_least=False)
        return Findings((amount(self.name, "CPU of an idle cluster", shares, "% of a core", bound),))
