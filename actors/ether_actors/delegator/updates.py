"""The progress responses of a delegation that wait for a reader; beyond a bound the oldest make room."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from threading import Lock
from typing import Final

from ether_broker.wire.frame import Header

__all__ = ["Unread", "Update", "Updates"]

_MOST: Final = 1_000
_MOST_BYTES: Final = 8 << 20
"""Progress responses that are kept for somebody who has not looked yet, and their bytes; the oldest make room."""
Update = tuple[Header, bytes]
"""A progress response as it came: its header and its envelope."""


class Updates:
    """The newest updates of a delegation: of more than 1,000, or 8 MiB, the oldest make room."""

    __slots__ = ("_size", "items")

    def __init__(self) -> None:
        self.items: deque[Update] = deque()
        self._size = 0

    def append(self, update: Update) -> None:
        """Add the next."""
        self.items.append(update)
        self._size += len(update[1])
        while len(self.items) > 1 and (len(self.items) > _MOST or self._size > _MOST_BYTES):
            self.popleft()

    def popleft(self) -> Update:
        """Take the oldest out."""
        update = self.items.popleft()
        self._size -= len(update[1])
        return update


class Unread:
    """The updates that a stream has not given yet, as `Updates` keeps them.

    Args:
        tell: is called once for all that comes until the next `take`.
    """

    def __init__(self, tell: Callable[[None], None]) -> None:
        self._tell = tell
        self._updates = Updates()
        self._lock = Lock()
        self._is_told = False
        self._has_ended = False
        self.is_over: bool = False
        """Whether there is an outcome, and nothing is left of what came before."""

    def put(self, update: Update | None) -> None:
        """Add an update, or note that there is an outcome; in whatever thread brings it."""
        if update is None:
            self._has_ended = True
        else:
            with self._lock:
                self._updates.append(update)
        if not self._is_told:
            self._is_told = True
            self._tell(None)

    def take(self) -> Iterator[Update]:
        """Take what has come; in the one thread that reads."""
        self._is_told = False  # first: what comes while this goes on is told again, if this does not see it
        has_ended = self._has_ended
        while (update := self._next()) is not None:
            yield update
        self.is_over = has_ended

    def _next(self) -> Update | None:
        with self._lock:
            return self._updates.popleft() if self._updates.items else None
