"""The idle benchmark: the CPU time and memory of a cluster that has nothing to do, and of an agent."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from ether.lab.bench.case import case
from ether.lab.bench.settings import BenchSettings
from ether.lab.harness.deployment import Deployment, deployed, pinned
from ether.lab.harness.role import Info
from ether.lab.harness.workload import OPAQUE
from ether.lab.report import Report, amount, at_most

__all__ = ["agents", "idle"]

_CALM: Final = 0.5
_ROUNDS: Final = 3
_SLICE: Final = 0.1


@case("idle", "a cluster of four processes that does nothing: CPU", "ether")
def idle(settings: BenchSettings) -> Report:
    """CPU of broker, worker, observer and client together, over twice the seconds of a turn each round."""
    shares: list[float] = []
    with pinned(settings.pin), deployed("ether", settings.transport) as deployment:
        time.sleep(_CALM)
        for _ in range(min(settings.rounds, _ROUNDS)):
            before, start = sum(deployment.cpu().values()), time.perf_counter()
            time.sleep(2 * settings.seconds)
            used = sum(deployment.cpu().values()) - before
            shares.append(used / (time.perf_counter() - start) * 100)
    return Report((amount("idle", "CPU of an idle cluster", shares, "% of a core", at_most(1.0)),))


@case(
    "agents",
    "idle pooled agents in one node: time to start, on an idle bus and on one at work, and memory of each",
    "idle", "filling",
)  # fmt: skip
def agents(settings: BenchSettings) -> Report:
    """Microseconds until all are registered, and KiB of RAM, for each agent; in a fresh process each round."""
    alone: list[Info] = []
    beside: list[Info] = []
    for _ in range(min(settings.rounds, _ROUNDS)):
        with pinned(settings.pin), deployed("idle", settings.transport) as deployment:
            alone.append(deployment.client.order("fill", agents=settings.agents))
        with pinned(settings.pin), deployed("filling", settings.transport) as deployment:
            beside.append(_start_at_work(deployment, settings.agents))
    name, sizes = f"each of {settings.agents:,} idle agents", [said["bytes"] / said["count"] / 1024 for said in alone]
    quiet, busy = ([said["seconds"] / said["count"] * 1e6 for said in found] for found in (alone, beside))
    return Report((
        amount("agents", f"start of {name}", quiet, "µs", at_most(50.0)),
        amount("agents", f"start of {name}, on a bus at work", busy, "µs", at_most(50.0)),
        amount("agents", f"memory of {name}", sizes, "KiB", at_most(5.0)),
    ))  # fmt: skip


def _start_at_work(deployment: Deployment, count: int) -> Info:
    """Start them while another node delegates, one after the other, until they are there."""
    are_there = threading.Event()

    def work() -> None:
        while not are_there.is_set():
            deployment.peers["client"].order("work", body=OPAQUE, window=1, seconds=_SLICE, by_name=True)

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        time.sleep(_SLICE)  # it works by then
        try:
            return deployment.client.order("fill", agents=count)
        finally:
            are_there.set()
            working.result()
