"""What a cluster costs that has nothing to do, and what an agent does."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from ether.lab.bench.settings import BenchSettings
from ether.lab.harness.deployment import Deployment, deployed, pinned
from ether.lab.harness.role import Info
from ether.lab.harness.workload import OPAQUE
from ether.lab.report import Report, amount, at_most

__all__ = ["Agents", "Idle"]

_CALM: Final = 0.5
_ROUNDS: Final = 3
_SLICE: Final = 0.1


class Idle:
    """CPU of broker, worker, observer and client together while nobody delegates."""

    name = "idle"
    about = "a cluster of four processes that does nothing: CPU"
    systems: frozenset[str] = frozenset({"ether"})

    def run(self, settings: BenchSettings) -> Report:
        """Percent of one core, over twice the seconds of a turn each round."""
        shares: list[float] = []
        with pinned(settings.pin), deployed("ether", settings.transport) as deployment:
            time.sleep(_CALM)
            for _ in range(min(settings.rounds, _ROUNDS)):
                before, start = sum(deployment.cpu().values()), time.perf_counter()
                time.sleep(2 * settings.seconds)
                used = sum(deployment.cpu().values()) - before
                shares.append(used / (time.perf_counter() - start) * 100)
        return Report((amount(self.name, "CPU of an idle cluster", shares, "% of a core", at_most(1.0)),))


class Agents:
    """Time and memory of idle pooled agents, in a fresh process each round; the broker is another process."""

    name = "agents"
    about = "idle pooled agents in one node: time to start, on an idle bus and on one at work, and memory of each"
    systems: frozenset[str] = frozenset({"idle", "filling"})

    def run(self, settings: BenchSettings) -> Report:
        """Microseconds until all are registered, and KiB of RAM, for each agent."""
        alone: list[Info] = []
        beside: list[Info] = []
        for _ in range(min(settings.rounds, _ROUNDS)):
            with pinned(settings.pin), deployed("idle", settings.transport) as deployment:
                alone.append(deployment.client.order(agents=settings.agents))
            with pinned(settings.pin), deployed("filling", settings.transport) as deployment:
                beside.append(_start_at_work(deployment, settings.agents))
        name = f"each of {settings.agents:,} idle agents"
        sizes = [said["bytes"] / said["count"] / 1024 for said in alone]
        return Report((
            amount(self.name, f"start of {name}", _times(alone), "µs", at_most(50.0)),
            amount(self.name, f"start of {name}, on a bus at work", _times(beside), "µs", at_most(50.0)),
            amount(self.name, f"memory of {name}", sizes, "KiB", at_most(5.0)),
        ))  # fmt: skip


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
