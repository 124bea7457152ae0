"""Outcomes whose delegator was gone when they came; it collects them when it is back under its name."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

__all__ = ["Uncollected"]

_MOST: Final = 65_536
_MOST_BYTES: Final = 64 << 20


class Uncollected:
    """The newest outcomes that nobody has collected, bounded in count and in bytes; the oldest make room.

    Args:
        count: outcomes kept.
        size: bytes kept.
    """

    def __init__(self, *, count: int = _MOST, size: int = _MOST_BYTES) -> None:
        self._outcomes: OrderedDict[bytes, tuple[bytes, bytes | None]] = OrderedDict()
        self._count = count
        self._size = size
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._outcomes)

    def keep(self, source: bytes, request_id: bytes, envelope: bytes | None) -> None:
        """Keep an outcome for the delegator `source`; None is one that only the journal has."""
        self._drop(request_id)
        self._outcomes[request_id] = source, envelope
        self._bytes += len(envelope or b"")
        while len(self._outcomes) > self._count or self._bytes > self._size:
            self._drop(next(iter(self._outcomes)))

    def of(self, source: bytes) -> list[bytes]:
        """The request ids of what is kept for a delegator, oldest first."""
        return [request_id for request_id, (owner, _) in self._outcomes.items() if owner == source]

    def owner(self, request_id: bytes) -> bytes | None:
        """Whose outcome that is; None when it is not here."""
        found = self._outcomes.get(request_id)
        return None if found is None else found[0]

    def take(self, request_id: bytes, read: Callable[[bytes], bytes | None]) -> bytes | None:
        """Take an outcome out; one whose bytes are not here is read from the journal with `read`."""
        found = self._drop(request_id)
        return read(request_id) if found is None else found

    def _drop(self, request_id: bytes) -> bytes | None:
        _, envelope = self._outcomes.pop(request_id, (b"", None))
        self._bytes -= len(envelope or b"")
        return envelope
