"""A node with an observer that looks at the header of every message."""

from __future__ import annotations

import threading

from ether.lab.bench.roles.node import Node
from ether.lab.harness.role import Info
from ether_actors.observers.observer import Observation, Observer

__all__ = ["Watcher"]


class _Counter(Observer):
    """A counter of messages by kind; while it is not `going`, it stands still within one."""

    def __init__(self) -> None:
        self.seen: dict[int, int] = {}
        self.going = threading.Event()
        self.going.set()

    def on_message(self, observation: Observation) -> None:
        self.going.wait()
        kind = observation.header.kind
        self.seen[kind] = self.seen.get(kind, 0) + 1


class Watcher(Node):
    """Observes all that passes."""

    def __init__(self, options: Info) -> None:
        super().__init__(options)
        self._observer = _Counter()

    def start(self) -> Info:
        """Join and observe."""
        super().start()
        self._bus.observe(self._observer)
        return {}

    def run(self, order: Info) -> Info:
        """Say how many messages it has seen, and how many it missed; `do` may `stall` it, let it `go` on, or just `look`."""
        match order.get("do"):
            case "stall":
                self._observer.going.clear()
            case "go":
                self._observer.going.set()
            case "look":
                pass
            case _:
                self._bus.settle(self._observer)
        return {
            "seen": sum(self._observer.seen.values()),
            "missed": self._observer.missed,
            "position": self._observer.position,
        }

    def stop(self) -> None:
        """Leave."""
        self._observer.going.set()
        super().stop()
