"""The cursor of an observer in the tap: where it is, and what it may have unacknowledged."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

__all__ = ["OBSERVER_WINDOW_BATCHES", "OBSERVER_WINDOW_BYTES", "ObserverCursor"]

OBSERVER_WINDOW_BATCHES: Final = 64
"""Batches that an observer may have unacknowledged."""
OBSERVER_WINDOW_BYTES: Final = 8 << 20
"""Bytes of them after which no more is sent, of all observers of a node together; each may have one batch under way."""
_OVERHEAD: Final = 2 << 10
_OF_PREFIX: Final = 64
"""Bytes of memory of a cursor, and of each prefix beside its text."""


@dataclass(slots=True)
class ObserverCursor:
    """The position of one observer in the tap, and what was sent to it and not acknowledged."""

    capabilities: tuple[bytes, ...] = ()
    """Prefixes of capabilities that it wants; empty wants all."""
    position: int = 1
    """The number that it gets next."""
    unacknowledged: deque[tuple[int, int]] = field(default_factory=deque)
    """The `next` and the bytes of each batch under way."""
    under_way: int = 0
    """Bytes of all of them."""
    window: int = OBSERVER_WINDOW_BYTES
    """Bytes under way after which no more is sent; the observers of a node share `OBSERVER_WINDOW_BYTES`."""

    @property
    def size(self) -> int:
        """Bytes of memory that it takes, about, beside what is under way."""
        return _OVERHEAD + sum(_OF_PREFIX + len(prefix) for prefix in self.capabilities)

    @property
    def has_credit(self) -> bool:
        """Whether another batch may be sent."""
        return len(self.unacknowledged) < OBSERVER_WINDOW_BATCHES and self.under_way < self.window

    def acknowledge(self, position: int) -> None:
        """Note that the observer has handled everything below `position`."""
        while self.unacknowledged and self.unacknowledged[0][0] <= position:
            self.under_way -= self.unacknowledged.popleft()[1]
