"""The timing wheel of the deadlines of running work: setting and clearing one is O(1), whatever its time."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import islice
from math import inf
from typing import Final, Generic, TypeVar

__all__ = ["SLOT", "TimingWheel"]

SLOT: Final = 0.1
"""Seconds of one slot; a deadline is noticed at the end of its slot, so within G4's 250 ms."""

_FEW: Final = 1_024
_T = TypeVar("_T")


class TimingWheel(Generic[_T]):
    """Deadlines by key.

    A heap would keep what was cleared until its time comes: at 50,000 delegations a second with a minute each, three
    million dead entries. Slots forget at once; the heap holds slot numbers only, and of empty slots not many.
    """

    def __init__(self) -> None:
        self.slots: dict[int, dict[bytes, _T]] = {}
        """{slot: {key: what is due at its end}}."""
        self._order: list[int] = []
        self._most = _FEW
        """Slots from which on the empty ones are given up."""
        self.on_earlier: Callable[[float], None] = lambda _at: None
        """Called with the end of the earliest slot, in seconds, when an earlier deadline is set."""

    def set(self, key: bytes, at: float, item: _T) -> int:
        """Note that `item` is due at `at` seconds; the slot that comes back clears it."""
        slot = int(at / SLOT) + 1
        entries = self.slots.get(slot)
        if entries is None:
            if len(self.slots) >= self._most:
                self._give_up_empty()
            entries = self.slots[slot] = {}
            heapq.heappush(self._order, slot)
            if self._order[0] == slot:
                self.on_earlier(slot * SLOT)
        entries[key] = item
        return slot

    def _give_up_empty(self) -> None:
        self.slots = {slot: entries for slot, entries in self.slots.items() if entries}
        self._order = sorted(self.slots)
        self._most = max(_FEW, 2 * len(self._order))

    def clear(self, key: bytes, slot: int) -> None:
        """Forget a deadline; one that has fired or was never set is no error."""
        entries = self.slots.get(slot)
        if entries is not None:
            entries.pop(key, None)

    def due(self, now: float, most: int) -> list[_T]:
        """Take out `most` of those whose time has come, in slot order."""
        found: list[_T] = []
        while self._order and self._order[0] * SLOT <= now and len(found) < most:
            entries = self.slots[self._order[0]]
            if len(entries) <= most - len(found):
                found.extend(entries.values())
                del self.slots[heapq.heappop(self._order)]
            else:
                found.extend(entries.pop(key) for key in list(islice(entries, most - len(found))))
        return found

    def next(self) -> float:
        """When to look again, in seconds; infinite when nothing is set."""
        while self._order and not self.slots[self._order[0]]:
            del self.slots[heapq.heappop(self._order)]
        return self._order[0] * SLOT if self._order else inf
