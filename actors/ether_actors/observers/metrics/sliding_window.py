"""The sliding windows of records, and the total of everything so far, in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, Self, TypeVar

__all__ = ["Count", "SlidingWindow"]


class _Mergeable(Protocol):
    def merge(self, other: Self, /) -> None:
        """Take in what another record has."""


_R = TypeVar("_R", bound=_Mergeable)


class Count:
    """A number that merges."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def merge(self, other: Self) -> None:
        """Add another."""
        self.value += other.value


class SlidingWindow(Generic[_R]):
    """Records in slots of time, the newest `slots` of them apart and all older ones as one.

    The time line is cut at whole multiples of `step`, so what a window holds depends on the times of the records alone.
    The newest slot counts as a whole though it has only begun: a window of n slots covers the last n-1 to n steps.

    Args:
        make: makes an empty record.
        step: seconds of a slot.
        slots: how many are kept apart; the longest window. Slots without a record take no room.
    """

    __slots__ = ("_archive", "_make", "_ring", "_slots", "_step")

    def __init__(self, make: Callable[[], _R], step: float, slots: int) -> None:
        self._make = make
        self._step = step
        self._slots = slots
        self._ring: deque[tuple[int, _R]] = deque()
        self._archive = make()

    def at(self, time: float) -> _R:
        """The record of the slot of that time, to be added to; a time before the newest slot counts as in it."""
        index = int(time // self._step)
        ring = self._ring
        if ring and index <= ring[-1][0]:
            return ring[-1][1]
        ring.append((index, self._make()))
        while ring[0][0] <= index - self._slots:
            self._archive.merge(ring.popleft()[1])
        return ring[-1][1]

    def total(self, time: float, seconds: float | None) -> _R:
        """A new record of the last `seconds` before `time`, a multiple of the step; None is of everything."""
        sum_ = self._make()
        oldest = None
        if seconds is None:
            sum_.merge(self._archive)
        else:
            oldest = int(time // self._step) - round(seconds / self._step)
        for index, record in self._ring:
            if oldest is None or index > oldest:
                sum_.merge(record)
        return sum_

    def archive(self) -> None:
        """Take everything out of every window, and keep it in the total: the time line has been cut."""
        while self._ring:
            self._archive.merge(self._ring.popleft()[1])
