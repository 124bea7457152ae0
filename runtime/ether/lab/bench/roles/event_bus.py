"""A publisher on a cluster whose node has ten subscribers."""

from __future__ import annotations

import time
from collections import deque
from typing import Final

from ether.cluster.cluster import Cluster
from ether.cluster.cluster_spec import AgentSpec
from ether.lab.harness.role import Info, Role
from ether.runtime import Runtime
from ether_actors.agent.agent import Agent
from ether_actors.agent.declarations.capability import capability
from ether_actors.agent.declarations.event_handler import on_event
from ether_actors.delegator.handle import Handle
from ether_actors.task.event import Event
from ether_actors.threads.latch import Latch

__all__ = ["SUBSCRIBERS", "EventBus", "Finish", "Subscriber"]

SUBSCRIBERS: Final = 10
_BODY: Final = b"x" * 100


class Subscriber(Agent):
    """A subscriber that tells the publisher when it has handled the last event of a run."""

    @on_event("bench.event")
    def take(self, event: Event) -> None:
        """Handle one of many."""

    @on_event("bench.last")
    def finish(self, event: Event) -> None:  # noqa: ARG002  it has to take it
        """Tell that all before it are handled."""
        self.bus.delegate("bench.finish")


class Finish(Agent):
    """An agent that counts the subscribers that have handled all."""

    def __init__(self, finished: Latch) -> None:
        self._finished = finished
        self._count = 0

    @capability("bench.finish")
    def finish(self) -> None:
        """Count one."""
        self._count += 1
        if self._count % SUBSCRIBERS == 0:
            self._finished.set()


class EventBus(Role):
    """A process that publishes events on a cluster of its own."""

    def start(self) -> Info:
        """Start the cluster, and an agent that is told when all is handled."""
        cluster = self.enter_context(Cluster(nodes=1, agents=[AgentSpec(Subscriber, count=SUBSCRIBERS)]))  # type: ignore[arg-type]  # a class is taken too
        self._bus = self.enter_context(Runtime.connect(cluster.url))
        return {}

    def work(self, window: int, seconds: float, **_options: object) -> Info:
        """Publish for that many seconds with so many publications open, and wait until all are handled; counts deliveries."""
        finished = Latch()
        finish = self._bus.start(Finish, finished)
        bus, clock = self._bus, time.perf_counter
        open_: deque[Handle] = deque()
        count, start = 0, clock()
        while clock() - start < seconds:
            open_.append(bus.publish("bench.event", _BODY))
            count += 1
            if len(open_) >= window:
                open_.popleft().result().unwrap()
        for handle in open_:
            handle.result().unwrap()
        bus.publish("bench.last").result().unwrap()
        finished.wait(None)
        taken = clock() - start
        finish.stop()
        return {"count": count * SUBSCRIBERS, "seconds": taken}
