"""The places of transfers: how many artifacts a node fetches at a time, in all and from one other node."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Final

from ether_actors.execution.resources import Resources

__all__ = ["LOOK", "MOST_OF_NODE", "TransferPlaces"]

MOST_OF_NODE: Final = 2
"""Transfers from one node at a time, so that a node that is slow does not hold up what comes from others."""


LOOK: Final = 0.5
"""Seconds between two looks of who waits at whether that is of use yet."""


class TransferPlaces:
    """A bounded number of places, given to those that wait in the order in which they came, as far as their node has one left.

    Args:
        most: places in all.
        resources: what waits.
    """

    def __init__(self, most: int, resources: Resources) -> None:
        self._most = most
        self._resources = resources
        self._lock = Lock()
        self._taken: Counter[str] = Counter()
        self._waiting: deque[tuple[str, SimpleQueue[None]]] = deque()
        self._moved = 0.0

    def take(self, node: str, patience: float, check: Callable[[], None] = lambda: None) -> bool:
        """Take a place for a transfer from a node; False if there was none, and no transfer moved, for `patience` seconds.

        Args:
            node: whose artifact it is.
            patience: in seconds.
            check: called again and again meanwhile; what it raises ends the wait.
        """
        gate: SimpleQueue[None] = SimpleQueue()
        with self._lock:
            self._waiting.append((node, gate))
            self._let_in()
        began = self._resources.monotonic()
        try:
            while (left := max(began, self._moved) + patience - self._resources.monotonic()) > 0:
                check()
                try:
                    self._resources.take(gate, min(left, LOOK))
                except Empty:
                    continue  # somebody else's transfer may have moved meanwhile
                return True
        except BaseException:
            if not self._leave(node, gate):
                self.give_back(node)
            raise
        return not self._leave(node, gate)

    def moved(self) -> None:
        """Note that a transfer goes on: who waits for it waits on."""
        self._moved = self._resources.monotonic()

    def is_wanted_beside(self, node: str) -> bool:
        """Whether all places are taken, and a transfer waits that could have one of this node's."""
        with self._lock:
            return self._taken.total() >= self._most and any(
                other != node and self._taken[other] < MOST_OF_NODE for other, _ in self._waiting
            )

    def give_back(self, node: str) -> None:
        """End a transfer from a node."""
        with self._lock:
            self._taken[node] -= 1
            if not self._taken[node]:
                del self._taken[node]
            self._let_in()

    def close(self) -> None:
        """Let all in that wait, to end."""
        with self._lock:
            while self._waiting:
                self._let_in_at(0)

    def _let_in(self) -> None:
        at = 0
        while at < len(self._waiting) and self._taken.total() < self._most:
            if self._taken[self._waiting[at][0]] < MOST_OF_NODE:
                self._let_in_at(at)
            else:
                at += 1

    def _let_in_at(self, at: int) -> None:
        node, gate = self._waiting[at]
        del self._waiting[at]
        self._taken[node] += 1
        gate.put(None)

    def _leave(self, node: str, gate: SimpleQueue[None]) -> bool:
        """Wait no more; False if a place was given meanwhile."""
        with self._lock:
            if (node, gate) in self._waiting:
                self._waiting.remove((node, gate))
                return True
            return False
