"""Things by their ranks: the first of them is found soon, however many there are. Sans-IO."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from ether_broker.sorted_keys import SortedKeys

__all__ = ["Ranking"]

_T = TypeVar("_T")
_Key = tuple[Any, ...]


class Ranking(Generic[_T]):
    """Members in the order of their ranks.

    Few are ranked when one is looked for, so nobody has to say that a rank has changed. More are kept in order, which takes
    O(log n) for each change, and `update` has to tell of it.

    Args:
        few: members of which no order is kept by itself.
    """

    __slots__ = ("_few", "_keys", "_order")

    def __init__(self, few: float) -> None:
        self._few = few
        self._keys: dict[_T, _Key | None] = {}
        """{member: where it stands}, in the order of joining; None while no order is kept."""
        self._order: SortedKeys[_Key] | None = None

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[_T]:
        return iter(self._keys)

    @abstractmethod
    def _rank(self, member: _T) -> _Key:
        """Its rank, the lowest first, and then the member; no two ranks are alike."""

    def add(self, member: _T) -> None:
        """Enter a member that is not here."""
        self._keys[member] = None
        if self._order is not None:
            self._place(member)
        elif len(self._keys) > self._few:
            self.order()

    def discard(self, member: _T) -> None:
        """Take a member out."""
        key = self._keys.pop(member)
        if self._order is not None and key is not None:
            self._order.remove(key)

    def update(self, member: _T) -> None:
        """Note that a member's rank may have changed."""
        key = self._keys[member]
        if self._order is not None and key is not None and key != self._rank(member):
            self._order.remove(key)
            self._place(member)

    def order(self) -> None:
        """Keep an order from now on."""
        self._order = SortedKeys()
        for member in self._keys:
            self._place(member)

    def _place(self, member: _T) -> None:
        assert self._order is not None
        key = self._keys[member] = self._rank(member)
        self._order.add(key)
