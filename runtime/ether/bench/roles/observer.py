"""A node with an observer that looks at the header of every message."""

from __future__ import annotations

from ether.bench.role import Info
from ether.runtime import Runtime
from ether_actors.observer import Observation, Observer

__all__ = ["Watcher"]


class _Counter(Observer):
    """Counts the messages by their kind."""

    def __init__(self) -> None:
        self.seen: dict[int, int] = {}

    def on_message(self, observation: Observation) -> None:
        kind = observation.header.kind
        self.seen[kind] = self.seen.get(kind, 0) + 1


class Watcher:
    """Observes all that passes."""

    def __init__(self, options: Info) -> None:
        self._bus = Runtime.connect(options["endpoint"], drain=0.0, keys=options.get("keys"))
        self._observer = _Counter()

    def start(self) -> Info:
        """Join and observe."""
        self._bus.open()
        self._bus.observe(self._observer)
        return {}

    def run(self, _order: Info) -> Info:
        """Say how many messages it has seen, and how many it missed."""
        self._bus.settle(self._observer)
        return {"seen": sum(self._observer.seen.values()), "missed": self._observer.missed}

    def stop(self) -> None:
        """Leave."""
        self._bus.close()
