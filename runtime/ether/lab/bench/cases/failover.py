"""How soon callers know when a process was killed."""

from __future__ import annotations

from ether.lab.bench.measurement.case import Findings
from ether.lab.bench.measurement.result import Bound
from ether.lab.bench.measurement.rounds import amount
from ether.lab.bench.measurement.settings import Settings
from ether.lab.harness.deployment import Deployment

__all__ = ["Failover"]

_NOTICED = 3.0
"""Seconds in which a node's death is noticed."""


class Failover:
    """Real processes under a warden, with a journal, killed with SIGKILL while they have work."""

    name = "failover"
    about = "a node and the broker are killed: time to the caller's outcome"
    systems: frozenset[str] = frozenset({"ether"})

    def run(self, settings: Settings) -> Findings:
        """Medians over the kills, with the least and the most."""
        with Deployment("kill", settings.transport) as deployment:
            nodes = [deployment.client.order(kill="node") for _ in range(settings.kills)]
            brokers = [deployment.client.order(kill="broker") for _ in range(settings.kills)]
        bound = Bound(_NOTICED, at_least=False)
        lost = [kill["lost"] for kill in nodes]
        elsewhere = [kill["elsewhere"] for kill in nodes]
        back = [kill["back"] for kill in brokers]
        return Findings((
            amount(self.name, f"node killed, to node_lost ({len(lost)} kills)", lost, "s", bound),
            amount(self.name, f"node killed, to the other's outcome ({len(lost)} kills)", elsewhere, "s", bound),
            amount(self.name, f"broker killed, to the next outcome ({len(back)} kills)", back, "s"),
        ))  # fmt: skip
