"""A node with agents that echo."""

from __future__ import annotations

from ether.lab.harness.role import Info
from ether.lab.harness.workload import EchoAgent
from ether.runtime import Runtime

__all__ = ["Worker"]


class Worker:
    """A node with `agents` pooled agents (one unless told otherwise)."""

    def __init__(self, options: Info) -> None:
        self._bus = Runtime.connect(options["endpoint"], drain=0.0, keys=options.get("keys"))
        self._agents = int(options.get("agents", 1))

    def start(self) -> Info:
        """Join and start the agents."""
        self._bus.open()
        return {"names": [agent.name for agent in self._bus.start_many(EchoAgent, self._agents)]}

    def run(self, order: Info) -> Info:
        """Take no orders."""
        return order

    def stop(self) -> None:
        """Leave."""
        self._bus.close()
