"""A delegator with a cluster of its own, whose processes it kills."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Final

from ether.cluster.cluster import Cluster
from ether.lab.harness.role import Info, Role
from ether.lab.harness.workload import OPAQUE, Holder, body_of, capability_of
from ether.runtime import Runtime
from ether_actors.backoff import Backoff
from ether_actors.delegator.handle import Handle
from ether_broker.errors import InternalError

__all__ = ["ProcessKiller"]

_NODES: Final = 3
_PATIENCE: Final = 60.0
_LOOK: Final = 0.01


class ProcessKiller(Role):
    """Three nodes, each with an agent, and a broker with a journal, each started again at once."""

    def start(self) -> Info:
        """Start all, and join."""
        folder = self.options["folder"]
        bind = "tcp://127.0.0.1:*" if self.options["transport"] == "tcp" else f"ipc://{folder}/broker"
        cluster = Cluster(
            _NODES, [Holder], bind=bind, journal=f"{folder}/journal.db", drain=0.0, intensity=10_000,
            backoff=Backoff(initial=0.0), on_output=lambda _name, _line: None,
        )  # fmt: skip
        self._cluster = self.enter_context(cluster)
        self._bus = self.enter_context(Runtime.connect(cluster.url, name="killer", drain=0.0))
        return {}

    def kill_node(self) -> Info:
        """Seconds from SIGKILL to `node_lost`, and to the outcome that another node gave."""
        bus = self._bus
        self._wait_whole()
        again = bus.delegate("bench.hold.again", timeout=_PATIENCE)
        agent = next(iter(again.stream())).from_agent
        once = bus.delegate("bench.hold.once", to=agent, timeout=_PATIENCE)
        next(iter(once.stream()))
        at: dict[Handle, float] = {}

        def note(done: Handle) -> None:
            at[done] = time.perf_counter()

        for handle in (again, once):
            handle.add_done_callback(note)
        start = self._kill(next(entry["node"] for entry in bus.agents() if entry["agent"] == agent))
        lost, elsewhere = once.result(_PATIENCE), again.result(_PATIENCE)
        if lost.error is None or lost.error.code != "node_lost" or elsewhere.unwrap().data != 2:  # noqa: PLR2004  its attempt
            raise InternalError(f"A node was killed, and the outcomes were {lost} and {elsewhere}.")
        self._wait(lambda: len(at) == 2, "both outcomes are noted")  # noqa: PLR2004  both
        return {"lost": at[once] - start, "elsewhere": at[again] - start}

    def kill_broker(self) -> Info:
        """Seconds from SIGKILL to the first outcome after it."""
        bus = self._bus
        self._wait_whole()
        start = self._kill("broker")
        bus.delegate(capability_of(OPAQUE), body_of(OPAQUE), timeout=_PATIENCE).result(_PATIENCE).unwrap()
        return {"back": time.perf_counter() - start}

    def _kill(self, name: str) -> float:
        pid = next(entry.pid for entry in self._cluster.statistics() if entry.name == name)
        assert pid is not None
        start = time.perf_counter()
        os.kill(pid, signal.SIGKILL)
        return start

    def _wait_whole(self) -> None:
        """Wait until all nodes are there."""
        self._wait(
            lambda: sum(entry["condition"] == "up" for entry in self._bus.agents()) >= _NODES, "all nodes are there"
        )

    @staticmethod
    def _wait(condition: Callable[[], bool], what: str) -> None:
        limit = time.monotonic() + _PATIENCE
        while not condition():
            if time.monotonic() > limit:
                raise InternalError(f"After {_PATIENCE:g} s it is not so that {what}.")
            time.sleep(_LOOK)
