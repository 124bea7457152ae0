"""A node of a bus, with agents that echo or that have nothing to do."""

from __future__ import annotations

import gc
import time

from ether.lab.harness.procfs import resident_bytes
from ether.lab.harness.role import Info, Role
from ether.lab.harness.workload import EchoAgent
from ether.runtime import Runtime

__all__ = ["Host", "Node", "Worker"]


class Node(Role):
    """A node that joins the bus of the `endpoint`."""

    def __init__(self, options: Info) -> None:
        super().__init__(options)
        self._bus = Runtime.connect(options["endpoint"], drain=0.0, keys=options.get("keys"))

    def start(self) -> Info:
        """Join."""
        self._bus.open()
        return {}

    def stop(self) -> None:
        """Leave."""
        self._bus.close()


class Worker(Node):
    """A node with `agents` pooled agents (one unless told otherwise)."""

    def start(self) -> Info:
        """Join and start the agents."""
        super().start()
        count = int(self.options.get("agents", 1))
        return {"names": [agent.name for agent in self._bus.start_many(EchoAgent, count)]}


class Host(Node):
    """Starts thousands of pooled agents in a fresh process, and says what they cost."""

    def start(self) -> Info:
        """Join, and start one agent, so that what is made once for the class and the node is there."""
        super().start()
        self._bus.start(EchoAgent, name="warm")
        return {}

    def fill(self, agents: int) -> Info:
        """Start so many of them: seconds until all are registered, and bytes more in RAM."""
        gc.collect()
        before = resident_bytes()
        start = time.perf_counter()
        self._bus.start_many(EchoAgent, agents, name="idle")
        seconds = time.perf_counter() - start
        gc.collect()
        return {"count": agents, "seconds": seconds, "bytes": resident_bytes() - before}
