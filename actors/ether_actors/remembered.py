"""Names that are kept for a while, in the order in which their time ends. Sans-IO."""

from __future__ import annotations

import struct
from typing import Final

from ether_broker.sorted_keys import SortedKeys

__all__ = ["Remembered"]

_AT: Final = struct.Struct(">d")
"""The bytes of numbers that are not negative sort as these do."""


class Remembered:
    """Names, each with the time at which it may be forgotten; every operation is O(log n)."""

    def __init__(self) -> None:
        self._order: SortedKeys[bytes] = SortedKeys()
        self._keys: dict[bytes, bytes] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, name: bytes, at: float) -> None:
        """Keep a name until `at` seconds; one that is kept already, until then instead."""
        self.discard(name)
        key = self._keys[name] = _AT.pack(at) + name
        self._order.add(key)

    def discard(self, name: bytes) -> None:
        """Keep a name no more; one that is not kept is no error."""
        key = self._keys.pop(name, None)
        if key is not None:
            self._order.remove(key)

    def pop(self, now: float, most: int) -> bytes | None:
        """Take out the name whose time ends first, if it is over by `now`, or more than `most` are kept; None otherwise."""
        first = next(self._order.after(None), None)
        if first is None or (_AT.unpack_from(first)[0] > now and len(self._keys) <= most):
            return None
        name = first[_AT.size :]
        self.discard(name)
        return name
