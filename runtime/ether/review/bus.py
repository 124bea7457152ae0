"""The bus of a review: a cluster of processes, or everything in this one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ether.runtime import Runtime

__all__ = ["SCOUT", "default_processes", "open_bus", "scout_nodes"]

SCOUT: Final = "ether.review.scout.agent:Scout"
_EXPLORE: Final = "scout.explore_directory"


@contextmanager
def open_bus(processes: int) -> Iterator[Runtime]:
    """A bus with scouts on it.

    Args:
        processes: nodes, each a process with one scout; 0 runs one scout in a thread of this process.

    Raises:
        EtherError: the cluster does not start; see `Cluster.open`.
    """
    if not processes:
        from ether.review.scout.agent import Scout

        with Runtime() as bus:
            bus.start(Scout)
            yield bus
        return
    from ether.cluster.cluster import Cluster

    with Cluster(nodes=processes, agents=[SCOUT]) as cluster, Runtime.connect(cluster.url) as bus:
        yield bus


def default_processes(tasks: int) -> int:
    """One node for each processor that this process may use, at most one a task: more would only take turns."""
    return max(1, min(len(os.sched_getaffinity(0)), tasks))


def scout_nodes(bus: Runtime) -> set[str]:
    """The nodes that have a scout, of a bus that is there."""
    scouts = {
        manifest["agent"]
        for manifest in bus.manifests()
        if any(held["name"] == _EXPLORE for held in manifest["capabilities"])
    }
    return {str(row["node"]) for row in bus.agents() if row["agent"] in scouts}
