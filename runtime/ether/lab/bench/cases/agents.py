"""What an agent costs that has nothing to do."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from ether.lab.bench.measurement.case import Findings
from ether.lab.bench.measurement.result import Bound
from ether.lab.bench.measurement.rounds import amount
from ether.lab.bench.measurement.settings import Settings
from ether.lab.harness.deployment import Deployment, pinned
from ether.lab.harness.role import Info
from ether.lab.harness.workload import OPAQUE

__all__ = ["Agents"]

_START: Final = Bound(50.0, at_least=False)
_SLICE: Final = 0.1


class Agents:
    """Time and memory of idle pooled agents, in a fresh process each round; the broker is another process."""

    name = "agents"
    about = "idle pooled agents in one node: time to start, on an idle bus and on one at work, and memory of each"
    systems: frozenset[str] = frozenset({"idle", "filling"})

    def run(self, settings: Settings) -> Findings:
        """Microseconds until all are registered, and KiB of RAM, for each agent."""
        alone: list[Info] = []
        beside: list[Info] = []
        for _ in range(min(settings.rounds, 3)):
            with pinned(settings.pin), Deployment("idle", settings.transport) as deployment:
                alone.append(deployment.client.order(agents=settings.agents))
            with pinned(settings.pin), Deployment("filling", settings.transport) as deployment:
                beside.append(_start_at_work(deployment, settings.agents))
        name = f"each of {settings.agents:,} idle agents"
        sizes = [said["bytes"] / said["count"] / 1024 for said in alone]
        return Findings(
            (
                amount(self.name, f"start of {name}", _times(alone), "µs", _START),
                amount(self.name, f"start of {name}, on a bus at work", _times(beside), "µs", _START),
                amount(self.name, f"memory of {name}", sizes, "KiB", Bound(5.0, at_least=False)),
            )
        )


def _times(found: list[Info]) -> list[float]:
    return [said["seconds"] / said["count"] * 1e6 for said in found]


def _start_at_work(deployment: Deployment, agents: int) -> Info:
    """Start them while another node delegates, one after the other, until they are there."""
    are_there = threading.Event()

    def work() -> int:
        count = 0
        while not are_there.is_set():
            count += deployment.peers["client"].order(body=OPAQUE, window=1, seconds=_SLICE, by_name=True)["count"]
        return count

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        time.sleep(_SLICE)  # it works by then
        try:
            return deployment.client.order(agents=agents)
        finally:
            are_there.set()
            working.result()
