"""A round-robin queue of work for several owners. Sans-IO."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator
from typing import Final, Generic, TypeVar

__all__ = ["EACH", "RoundRobin"]

EACH: Final = 8
"""Of each owner's in a step: what arrives meanwhile waits for so much, however much one of them has."""

_K = TypeVar("_K", bound=Hashable)
_T = TypeVar("_T")


class RoundRobin(Generic[_K, _T]):
    """A queue of items by owner: first in, first out for each, and no owner waits for what another has.

    Who had none comes first, so that whoever has few has them done at once, however many others have some.

    Args:
        most: how many are taken in a step at most, by however many owners.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.owners: OrderedDict[_K, deque[_T]] = OrderedDict()
        """{owner: its items}, the next to be served first; empty when there is none."""

    def put(self, owner: _K, item: _T, *, last: bool = False) -> None:
        """Add an item; an owner that had none comes first, or `last` where an item may be put again when it was taken."""
        items = self.owners.get(owner)
        if items is None:
            items = self.owners[owner] = deque()
            self.owners.move_to_end(owner, last=last)
        items.append(item)

    def take(self, most: int | None = None) -> Iterator[_T]:
        """Take out one step's share: 8 for each owner, if there are as many, and `most` in all."""
        for _ in range(min(self._most if most is None else most, EACH * len(self.owners))):
            if not self.owners:
                return
            owner, items = next(iter(self.owners.items()))
            item = items.popleft()
            if items:
                self.owners.move_to_end(owner)
            else:
                del self.owners[owner]
            yield item
