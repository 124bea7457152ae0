"""The places of transfers: how many artifacts a node fetches at a time, in all and from one other node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Final

from ether_actors.execution.resources import Resources

__all__ = ["LOOK", "MOST_OF_NODE", "Place", "TransferPlaces"]

MOST_OF_NODE: Final = 2
"""Transfers from one node at a time, so that a node that is slow does not hold up what comes from others."""
LOOK: Final = 0.5
"""Seconds between two looks of who waits at whether that is of use yet."""
_HELD: Final = 2.0
_HELD_SILENT: Final = 8.0
"""Seconds after which a place may be wanted by another transfer, if a chunk came, or none."""
_PRESSES: Final = 16.0
"""Seconds that a transfer which had a place before waits until it wants another's."""


class Place:
    """The place of a transfer from a node, or its wait for one."""

    __slots__ = ("gate", "is_leaving", "is_silent", "node", "presses_at", "since")

    def __init__(self, node: str, presses_at: float) -> None:
        self.node: str = node
        self.presses_at: float = presses_at
        """From when on it wants the place of another, while it waits."""
        self.gate: SimpleQueue[None] = SimpleQueue()
        self.since: float = 0.0
        """When it was given."""
        self.is_silent: bool = True
        """Whether no chunk has come since."""
        self.is_leaving: bool = False
        """Whether it is left to another."""


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
        self._waiting: list[Place] = []
        self._leaving = 0
        self._moved = 0.0

    def take(
        self, node: str, idle_timeout: float, check: Callable[[], None] = lambda: None, *, had_one: bool = False
    ) -> Place | None:  # fmt: skip
        """Take a place for a transfer from a node; None if there was none, and no transfer moved, for `idle_timeout` seconds.

        Args:
            node: whose artifact it is.
            idle_timeout: in seconds.
            check: called again and again meanwhile; what it raises ends the wait.
            had_one: whether the transfer had a place before, and left it to another.
        """
        began = self._resources.monotonic()
        place = Place(node, began + _PRESSES if had_one else began)
        with self._lock:
            self._waiting.append(place)
            self._let_in()
        try:
            while (left := max(began, self._moved) + idle_timeout - self._resources.monotonic()) > 0:
                check()
                try:
                    self._resources.take(place.gate, min(left, LOOK))
                except Empty:
                    continue  # somebody else's transfer may have moved meanwhile
                break
            else:
                if self._stop_waiting(place):
                    return None
        except BaseException:
            if not self._stop_waiting(place):
                self.give_back(place)
            raise
        place.since = self._resources.monotonic()
        return place

    def moved(self, place: Place) -> None:
        """Note that a chunk came: who waits for a place waits on."""
        place.is_silent = False
        self._moved = self._resources.monotonic()

    def is_to_leave(self, place: Place) -> bool:
        """Whether a place is to be left to a transfer from another node that waits; as many are as such transfers wait."""
        now = self._resources.monotonic()
        if not place.is_leaving and now - place.since >= (_HELD_SILENT if place.is_silent else _HELD):
            with self._lock:
                pressing = sum(
                    one.node != place.node and one.presses_at <= now and self._taken[one.node] < MOST_OF_NODE
                    for one in self._waiting
                )
                if self._taken.total() >= self._most and pressing > self._leaving:
                    place.is_leaving = True
                    self._leaving += 1
        return place.is_leaving

    def give_back(self, place: Place) -> None:
        """End a transfer, or leave its place to another."""
        with self._lock:
            self._leaving -= place.is_leaving
            self._taken[place.node] -= 1
            if not self._taken[place.node]:
                del self._taken[place.node]
            self._let_in()

    def close(self) -> None:
        """Let all in that wait, to end."""
        with self._lock:
            while self._waiting:
                self._let_in_at(0)

    def _let_in(self) -> None:
        at = 0
        while at < len(self._waiting) and self._taken.total() < self._most:
            if self._taken[self._waiting[at].node] < MOST_OF_NODE:
                self._let_in_at(at)
            else:
                at += 1

    def _let_in_at(self, at: int) -> None:
        place = self._waiting.pop(at)
        self._taken[place.node] += 1
        place.gate.put(None)

    def _stop_waiting(self, place: Place) -> bool:
        """Wait no more; False if it was given meanwhile."""
        with self._lock:
            if place in self._waiting:
                self._waiting.remove(place)
                return True
            return False
