"""A node that starts thousands of agents which have nothing to do, and says what they cost."""

from __future__ import annotations

import gc
import time

from ether.lab.harness.procfs import resident_bytes
from ether.lab.harness.role import Info
from ether.lab.harness.workload import EchoAgent
from ether.runtime import Runtime

__all__ = ["Host"]


class Host:
    """Starts pooled agents in a fresh process."""

    def __init__(self, options: Info) -> None:
        self._bus = Runtime.connect(options["endpoint"], drain=0.0)

    def start(self) -> Info:
        """Join, and start one agent, so that what is made once for the class and the node is there."""
        self._bus.open()
        self._bus.start(EchoAgent, name="warm")
        return {}

    def run(self, order: Info) -> Info:
        """Start `agents` of them: seconds until all are registered, and bytes more in RAM."""
        gc.collect()
        before = resident_bytes()
        start = time.perf_counter()
        agents = self._bus.start_many(EchoAgent, order["agents"], name="idle")
        seconds = time.perf_counter() - start
        gc.collect()
        return {"count": len(agents), "seconds": seconds, "bytes": resident_bytes() - before}

    def stop(self) -> None:
        """Leave."""
        self._bus.close()
