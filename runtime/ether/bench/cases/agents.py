"""What an agent costs that has nothing to do."""

from __future__ import annotations

from ether.bench.case import Findings
from ether.bench.deployment import Deployment, pinned
from ether.bench.result import Bound
from ether.bench.rounds import amount
from ether.bench.settings import Settings

__all__ = ["Agents"]


class Agents:
    """Time and memory of idle pooled agents, in a fresh process each round; the broker is another process."""

    name = "agents"
    about = "idle pooled agents in one node: time to start and memory of each"
    systems = frozenset({"idle"})

    def run(self, settings: Settings) -> Findings:
        """Microseconds until all are registered, and KiB of RAM, for each agent."""
        times: list[float] = []
        sizes: list[float] = []
        for _ in range(min(settings.rounds, 3)):
            with pinned(settings.pin), Deployment("idle", settings.transport) as deployment:
                said = deployment.client.order(agents=settings.agents)
            times.append(said["seconds"] / said["count"] * 1e6)
            sizes.append(said["bytes"] / said["count"] / 1024)
        name = f"each of {settings.agents:,} idle agents"
        return Findings(
            (
                amount(self.name, f"start of {name}", times, "µs", Bound(50.0, at_least=False)),
                amount(self.name, f"memory of {name}", sizes, "KiB", Bound(5.0, at_least=False)),
            )
        )
