"""A queue of items of three priorities: each class is first in, first out, and none of them starves."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from ether_broker.envelope.priority import NORMAL, WEIGHTS

__all__ = ["PriorityQueue", "RebalancedQueue", "choose"]

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
    for priority, weight in enumerate(WEIGHTS):
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
        return sum(map(len, self.classes))

    def __iter__(self) -> Iterator[_I]:
        for items in self.classes:
            yield from items

    @property
    def classes(self) -> tuple[OrderedDict[_I, None], ...]:
        """The items of each priority that there has been, the highest first."""
        return (self._normal,) if self._classes is None else self._classes

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


class RebalancedQueue(PriorityQueue[_I]):
    """A queue that knows besides which of its items may wait in another one too, of those that came since it was made.

    Args:
        queue: whose items it takes over; that is not used any more.
        is_movable: whether an item that comes may wait in another.
    """

    __slots__ = ("_is_movable", "movable")

    def __init__(self, queue: PriorityQueue[_I], is_movable: Callable[[_I], bool]) -> None:
        self._normal, self._classes, self._credit = queue._normal, queue._classes, queue._credit  # noqa: SLF001  its own class's
        self._is_movable = is_movable
        self.movable: PriorityQueue[_I] = PriorityQueue()
        """Those items, in the same order."""

    def append(self, item: _I, priority: int) -> None:
        """Add an item at the end of its class."""
        super().append(item, priority)
        if self._is_movable(item):
            self.movable.append(item, priority)

    def put_back(self, item: _I, priority: int) -> None:
        """Add an item at the front of its class."""
        super().put_back(item, priority)
        if self._is_movable(item):
            self.movable.put_back(item, priority)

    def discard(self, item: _I, priority: int) -> None:
        """Take an item out, if it is there."""
        super().discard(item, priority)
        self.withhold(item)

    def pop(self) -> _I | None:
        """Take the next item out; None if nothing waits."""
        item = super().pop()
        if item is not None:
            self.withhold(item)
        return item

    def withhold(self, item: _I) -> None:
        """Note that an item that waits here may wait in no other any more."""
        for items in self.movable.classes:
            items.pop(item, None)

    def clear(self) -> None:
        """Take everything out."""
        super().clear()
        self.movable.clear()
