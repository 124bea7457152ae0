"""A node with an observer that looks at the header of every message."""

from __future__ import annotations

import threading
from collections import Counter

from ether.lab.bench.roles.node import Node
from ether.lab.harness.role import Info
from ether_actors.observers.observer import Observation, Observer

__all__ = ["Watcher"]


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

    def __init__(self, options: Info) -> None:
        super().__init__(options)
        self._observer = _Counter()

    def start(self) -> Info:
        """Join and observe."""
        super().start()
        self._bus.observe(self._observer)
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

    def stop(self) -> None:
        """Leave."""
        self._observer.going.set()
        super().stop()
