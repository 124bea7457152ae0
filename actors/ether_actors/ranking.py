"""Things by their ranks: the first of them is found soon, however many there are. Sans-IO."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Final, Generic, TypeVar

from ether_broker.sorted_keys import SortedKeys

__all__ = ["FEW", "Ranking"]

FEW: Final = 16
"""Members that are ranked each time that one is looked for; more are kept in order."""

_T = TypeVar("_T")
_Key = tuple[Any, ...]


class Ranking(Generic[_T]):
    """Members in the order of their ranks.

    Up to `FEW` are ranked when one is looked for, so nobody has to say that a rank has changed. More are kept in order, which
    takes O(log n) for each change, and `update` has to tell of it.
    """

    __slots__ = ("_keys", "_order")

    def __init__(self) -> None:
        self._keys: dict[_T, _Key | None] = {}
        """{member: where it stands}, in the order of joining; None while they are few."""
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
        elif len(self._keys) > FEW:
            self._order = SortedKeys()
            for one in self._keys:
                self._place(one)

    def discard(self, member: _T) -> None:
        """Take a member out."""
        key = self._keys.pop(member)
        if self._order is not None and key is not None:
            self._order.remove(key)

    def update(self, member: _T) -> None:
        """Note that a member's rank may have changed."""
        if self._order is None:
            return
        key = self._keys[member]
        if key is not None and key != self._rank(member):
            self._order.remove(key)
            self._place(member)

    def _place(self, member: _T) -> None:
        assert self._order is not None
        key = self._keys[member] = self._rank(member)
        self._order.add(key)

    def ascending(self) -> Iterator[_Key]:
        """Their ranks, the lowest first, each with its member behind it."""
        return iter(sorted(map(self._rank, self._keys))) if self._order is None else self._order.after(None)
