"""A bus within one process, and a pykka actor of the same process that does the same work."""

from __future__ import annotations

import gc
import itertools
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pykka
from pydantic import BaseModel

from ether.lab.harness.procfs import forget_peak, peak_bytes, resident_bytes
from ether.lab.harness.role import Info, Role, pipelined, serial
from ether.lab.harness.workload import OPAQUE, EchoAgent, body_of, capability_of
from ether.runtime import Runtime
from ether_actors.agent.agent import Agent
from ether_actors.agent.declarations.capability import capability
from ether_actors.delegator.handle import Handle
from ether_actors.observers.observer import Observer

__all__ = ["OneProcess"]

_KIB: Final = b"x" * 1_024
_WARM: Final = 200
"""Round trips before any is timed."""


class _Echo(pykka.ThreadingActor):
    """Returns what it is asked."""

    def on_receive(self, message: Any) -> Any:
        return message


class _Kept(BaseModel):
    body: bytes = b""
    number: int = 0


class _Stateful(Agent):
    """Returns what it is asked, and keeps it, so that each outcome brings a state of 1 KiB."""

    state: _Kept

    @capability("bench.keep")
    def keep(self, params: bytes) -> bytes:
        """Return it."""
        self.state.number += 1
        self.state.body = _KIB
        return params


class _Stateless(Agent):
    """Returns what it is asked."""

    @capability("bench.drop")
    def drop(self, params: bytes) -> bytes:
        """Return it."""
        return params


class OneProcess(Role):
    """A bus within one process beside an actor of pykka's."""

    def start(self) -> Info:
        """Start a bus, one with a journal and an observer, and an actor."""
        folder = self.enter_context(TemporaryDirectory(prefix="ether-bench-"))
        plain = self.enter_context(Runtime())
        durable = self.enter_context(Runtime(journal=Path(folder) / "journal.db"))
        durable.observe(Observer())
        for bus in (plain, durable):
            for agent in (EchoAgent, _Stateful, _Stateless):
                bus.start(agent)
        actor = _Echo.start()
        self.callback(actor.stop)
        self._plain = plain
        self._thread = self.enter_context(ThreadPoolExecutor(1, "bench"))
        body = body_of(OPAQUE)
        name = capability_of(OPAQUE)
        self._one: dict[str, Callable[[], Any]] = {
            "pykka": lambda: actor.ask(body),
            "ether": lambda: plain.delegate(name, body).result().data,
            "ask": lambda: plain.ask(name, body).data,
            "durable": lambda: durable.delegate(name, body).result().data,
            "stateless": lambda: durable.delegate("bench.drop", body).result().data,
            "state": lambda: durable.delegate("bench.keep", body).result().data,
        }
        self._begin: dict[str, Callable[[], Callable[[], Any]]] = {
            "pykka": lambda: actor.ask(body, block=False).get,
            "ether": lambda: plain.delegate(name, body).result,
        }
        for one in self._one.values():
            for _ in range(_WARM):
                one()
        return {}

    def work(self, window: int, seconds: float, **_options: object) -> Info:
        """Delegate, as another system's client asks."""
        return self.measure("ether", window, seconds)

    def map(self, contender: str, count: int, window: int) -> Info:
        """Have so many items done: seconds, and bytes of memory more at the most."""
        gc.collect()
        forget_peak()
        before, start = resident_bytes(), time.perf_counter()
        self._thread.submit(_MAPS[contender], self._plain, count, window).result()
        return {"seconds": time.perf_counter() - start, "grown": max(0, peak_bytes() - before)}

    def measure(self, contender: str, window: int, seconds: float) -> Info:
        """Make round trips for that many seconds: one after the other, or so many at a time."""
        if window == 1:
            return self._thread.submit(serial, self._one[contender], seconds).result()
        if contender == "map":
            return self._thread.submit(_map, self._plain, window, seconds).result()
        return self._thread.submit(pipelined, self._begin[contender], window, seconds).result()


def _by_map(bus: Runtime, count: int, window: int) -> None:
    for mapped in bus.map(capability_of(OPAQUE), itertools.repeat(body_of(OPAQUE), count), window=window):
        mapped.unwrap()


def _by_hand(bus: Runtime, count: int, window: int) -> None:
    name, body = capability_of(OPAQUE), body_of(OPAQUE)
    open_: deque[Handle] = deque()
    for _ in range(count):
        if len(open_) == window:
            open_.popleft().result().unwrap()
        open_.append(bus.delegate(name, body))
    for handle in open_:
        handle.result().unwrap()


_MAPS: Final = {"map": _by_map, "hand": _by_hand}


def _map(bus: Runtime, window: int, seconds: float) -> Info:
    """Take the outcomes of an endless map for that many seconds."""
    clock = time.perf_counter
    start, count = clock(), 0
    with bus.map(capability_of(OPAQUE), itertools.repeat(body_of(OPAQUE)), window=window) as outcomes:
        for _ in outcomes:
            count += 1
            if clock() - start >= seconds:
                break
        return {"count": count, "seconds": clock() - start}
