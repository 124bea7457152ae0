"""The nodes of a benchmark: with agents that echo or do nothing, with an observer, and one that delegates."""

from __future__ import annotations

import gc
import itertools
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from typing import Final

from ether.lab.harness.procfs import resident_bytes
from ether.lab.harness.role import CHUNK, Info, Role, serial
from ether.lab.harness.workload import EchoAgent, body_of, capability_of
from ether.runtime import Runtime
from ether_actors.delegator.handle import Handle
from ether_actors.observers.observer import Observation, Observer

__all__ = ["Client", "Host", "Node", "Watcher", "Worker"]

_PATIENCE: Final = 30.0


class Node(Role):
    """A node that joins the bus of the `endpoint`."""

    def start(self) -> Info:
        """Join."""
        bus = Runtime.connect(self.options["endpoint"], drain=0.0, keys=self.options.get("keys"))
        self._bus = self.enter_context(bus)
        return {}


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
        started = self._bus.start_many(EchoAgent, agents, name="idle")
        seconds = time.perf_counter() - start
        gc.collect()
        return {"count": len(started), "seconds": seconds, "bytes": resident_bytes() - before}


class _Counter(Observer):
    """A counter of messages by kind; while it is not `going`, it stands still within one."""

    def __init__(self) -> None:
        self.seen: Counter[int] = Counter()
        self.going = threading.Event()
        self.going.set()

    def on_message(self, observation: Observation) -> None:
        self.going.wait()
        self.seen[observation.header.kind] += 1


class Watcher(Node):
    """Observes all that passes."""

    def start(self) -> Info:
        """Join and observe."""
        super().start()
        self._observer = self._bus.observe(_Counter())
        self.callback(self._observer.going.set)
        return {}

    def stall(self) -> Info:
        """Stand still within the next message."""
        self._observer.going.clear()
        return {}

    def go(self) -> Info:
        """Go on."""
        self._observer.going.set()
        return {}

    def look(self) -> Info:
        """Say how many messages it has seen, how many it missed, and its position."""
        observer = self._observer
        return {"seen": observer.seen.total(), "missed": observer.missed, "position": observer.position}


class Client(Node):
    """Delegates from plain code."""

    def work(self, body: str, window: int, seconds: float, *, by_name: bool = False) -> Info:
        """Delegate for so many seconds with so many delegations open.

        With `by_name` they go to each agent in turn; else the registry chooses.
        """
        capability, params, bus = capability_of(body), body_of(body), self._bus
        targets: Iterator[str | None] = itertools.cycle(self.options["names"] if by_name else [None])

        def delegate() -> Handle:
            return bus.delegate(capability, params, to=next(targets), timeout=60.0)

        def round_trip() -> None:
            delegate().result(_PATIENCE).unwrap()

        if window == 1:
            return serial(round_trip, seconds)
        open_: deque[Handle] = deque()
        clock = time.perf_counter
        count = 0
        start = clock()
        while (now := clock()) < start + seconds:
            for _ in range(CHUNK):
                open_.append(delegate())
                if len(open_) >= window:
                    open_.popleft().result(_PATIENCE).unwrap()
                    count += 1
        for handle in open_:
            handle.result(_PATIENCE).unwrap()
        return {"count": count, "seconds": now - start}
