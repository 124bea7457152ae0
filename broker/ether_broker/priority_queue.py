"""A queue of items of three priorities: each class is first in, first out, and none of them starves."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Final, Generic, TypeVar

__all__ = ["HIGH", "LOW", "NORMAL", "PriorityQueue", "choose"]

HIGH, NORMAL, LOW = 0, 1, 2
_WEIGHTS: Final = (16, 4, 1)
"""How many of each are taken of 21, while items of all three wait."""
_I = TypeVar("_I")


def choose(credit: list[int], waits: Sequence[object]) -> int:
    """The class that is next: each in which something waits gets its share of the turns (smooth weighted round robin).

    Args:
        credit: of each class, from one call to the next.
        waits: of each class something true if anything waits in it.

    Returns:
        The class; -1 if nothing waits.
    """
    whole, chosen = 0, -1
    for priority, weight in enumerate(_WEIGHTS):
        if waits[priority]:
            credit[priority] += weight
            whole += weight
            if chosen < 0 or credit[priority] > credit[chosen]:
                chosen = priority
        else:
            credit[priority] = 0
    if chosen >= 0:
        credit[chosen] -= whole
    return chosen


class PriorityQueue(Generic[_I]):
    """A queue of three classes, of which each in which something waits gets its share: of 21 items 16 high, 4 normal, 1 low.

    Each operation is O(1).
    """

    __slots__ = ("_classes", "_credit", "_normal")

    def __init__(self) -> None:
        self._normal: OrderedDict[_I, None] = OrderedDict()
        self._classes: tuple[OrderedDict[_I, None], ...] | None = None
        """All three; None until there is one that is not normal: most queues never have one."""
        self._credit: list[int] | None = None

    def __len__(self) -> int:
        return len(self._normal) if self._classes is None else sum(map(len, self._classes))

    def __iter__(self) -> Iterator[_I]:
        for items in (self._normal,) if self._classes is None else self._classes:
            yield from items

    def _class(self, priority: int) -> OrderedDict[_I, None]:
        if priority == NORMAL:
            return self._normal
        if self._classes is None:
            self._classes, self._credit = (OrderedDict(), self._normal, OrderedDict()), [0, 0, 0]
        return self._classes[priority]

    def append(self, item: _I, priority: int) -> None:
        """Add an item at the end of its class."""
        self._class(priority)[item] = None

    def put_back(self, item: _I, priority: int) -> None:
        """Add an item at the front of its class."""
        items = self._class(priority)
        items[item] = None
        items.move_to_end(item, last=False)

    def discard(self, item: _I, priority: int) -> None:
        """Take an item out, if it is there."""
        self._class(priority).pop(item, None)

    def pop(self) -> _I | None:
        """Take the next item out; None if nothing waits."""
        classes = self._classes
        if classes is None or self._credit is None:
            return self._normal.popitem(last=False)[0] if self._normal else None
        chosen = choose(self._credit, classes)
        if chosen < 0:
            return None
        return classes[chosen].popitem(last=False)[0]

    def clear(self) -> None:
        """Take everything out."""
        self._normal.clear()
        self._classes = None
