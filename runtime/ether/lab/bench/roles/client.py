"""A node that delegates and agents of another node answer: the code that a user writes."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Iterator

from ether.lab.bench.roles.node import Node
from ether.lab.harness.role import CHUNK, Info, serial
from ether.lab.harness.workload import body_of, capability_of
from ether_actors.task.handle import Handle

__all__ = ["Client"]

_PATIENCE = 30.0


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
