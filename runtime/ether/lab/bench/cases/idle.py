"""The cost of what is there: CPU time and memory of an idle cluster, of idle agents, and of a hundred thousand of them."""

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
from ether.lab.report import Report, amount, at_most, ratio

__all__ = ["agents", "crowd", "idle"]

_CALM: Final = 0.5
_ROUNDS: Final = 3
_SLICE: Final = 0.1
_FEW: Final = 1_000


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
    return Report((amount("idle", "CPU of an idle cluster", shares, "% of a core", at_most(0.5)),))


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
        amount("agents", f"start of {name}", quiet, "µs", at_most(40.0)),
        amount("agents", f"start of {name}, on a bus at work", busy, "µs", at_most(40.0)),
        amount("agents", f"memory of {name}", sizes, "KiB", at_most(2.0)),
    ))  # fmt: skip


@case(
    "crowd",
    "the supervisor with 100,000 agents beside 1,000: registering, choosing among busy ones, a node that leaves",
    "crowd",
)
def crowd(settings: BenchSettings) -> Report:
    """The supervisor's CPU time for one of many agents, in times of one of few."""
    few = min(_FEW, settings.crowd)
    ours, theirs = [], []
    with pinned(settings.pin), deployed("crowd", settings.transport) as deployment:
        for _ in range(min(settings.rounds, _ROUNDS)):
            theirs.append(deployment.client.order("fill", agents=few))
            ours.append(deployment.client.order("fill", agents=settings.crowd))
    figures, count = [], f"{settings.crowd:,}"
    for key, compared, cost in (
        ("register", f"agents at {count}", f"registering each of {count} agents"),
        ("choose", f"selection at {count} busy", f"a delegation to one of {count} busy"),
        ("leave", f"BYE with {count} open", f"each agent of a node that leaves, {count} open"),
    ):
        many, one = ([found[key] for found in side] for side in (ours, theirs))
        figures.append(ratio("crowd", f"{compared} / {few:,}", many, one, at_most(2.0)))
        figures.append(amount("crowd", cost, [seconds * 1e6 for seconds in many], "µs"))
    first = [found["first"] * 1e3 for found in ours]
    figures.append(amount("crowd", f"the first choice after each of {count} was given work by name", first, "ms"))
    return Report(tuple(figures))


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
