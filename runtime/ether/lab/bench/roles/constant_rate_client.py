"""A node that delegates at a steady rate, whatever becomes of it, and notes how long each took."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from contextlib import ExitStack
from functools import partial
from typing import Final

from ether.lab.bench.roles.node import Client
from ether.lab.harness.histogram import Histogram
from ether.lab.harness.role import Info
from ether.lab.harness.workload import OPAQUE, body_of, capability_of
from ether_actors.delegator.handle import Handle

__all__ = ["ConstantRateClient"]

_TICK: Final = 0.005
"""Seconds between two bursts."""
_PATIENCE: Final = 30.0
_MOST: Final = 50_000
"""Delegations that may be open; above that it waits, and what it then is behind counts as their latency."""


class ConstantRateClient(Client):
    """A client that can also be told to `begin` at a `rate`, to tell of its last `window`, and to `end`.

    A latency is counted from the moment at which the delegation was due, not from when it was sent: a client that is
    held up does not hide how long its callers wait.
    """

    def __init__(self, options: Info) -> None:
        super().__init__(options)
        self._sent = 0
        self._open = 0
        self._done: deque[tuple[float, Handle]] = deque()
        self._latencies = Histogram()
        self._statuses: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._stop = threading.Event()

    def begin(self, rate: float) -> Info:
        """Begin to delegate at that rate."""
        pacer = threading.Thread(target=self._pace, args=(rate,), name="pacer", daemon=True)
        pacer.start()
        self._pacer = self.enter_context(ExitStack())
        self._pacer.callback(pacer.join)
        self._pacer.callback(self._stop.set)
        return {}

    def window(self) -> Info:
        """Tell what has come since the last time."""
        with self._lock:
            latencies, self._latencies = self._latencies, Histogram()
            statuses, self._statuses = self._statuses, Counter()
        p50, p99 = latencies.percentile(0.5), latencies.percentile(0.99)
        return {"count": len(latencies), "p50": p50, "p99": p99, "statuses": statuses, "sent": self._sent}

    def end(self) -> Info:
        """Delegate no more, and tell what came of the rest."""
        self._pacer.close()
        limit = time.monotonic() + 2 * _PATIENCE
        while self._open and time.monotonic() < limit:
            self._settle()
            time.sleep(_TICK)
        return self.window()

    def _pace(self, rate: float) -> None:
        clock, capability, body = time.perf_counter, capability_of(OPAQUE), body_of(OPAQUE)
        start, count = clock(), 0
        while not self._stop.wait(_TICK):
            due = int((clock() - start) * rate)
            while count < due and self._open < _MOST:
                at = start + count / rate
                self._bus.delegate(capability, body, timeout=_PATIENCE).add_done_callback(partial(self._note, at))
                count += 1
                self._open += 1
            self._sent = count
            self._settle()

    def _note(self, due: float, handle: Handle) -> None:
        self._done.append((time.perf_counter() - due, handle))

    def _settle(self) -> None:
        """Read the outcomes that have come, as their callers would."""
        while self._done:
            seconds, handle = self._done.popleft()
            status = handle.result().status.name
            self._open -= 1
            with self._lock:
                self._latencies.note(seconds)
                self._statuses[status] += 1
