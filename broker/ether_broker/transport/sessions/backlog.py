"""The backlog of bytes kept for nodes until they acknowledge them, bounded for each, for each key, and in all. Sans-IO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from ether_broker.transport.sessions.session import Session

__all__ = ["GRAIN", "MOST_BACKLOG_BYTES", "Backlog"]

MOST_BACKLOG_BYTES: Final = 1 << 30
"""Bytes in all, unless told otherwise."""
GRAIN: Final = 64 << 10
"""Bytes by which what is kept for a session may grow before that is counted: of most sessions nothing ever is."""
_OUTBOX: Final = 128 << 20
"""Bytes of one session."""


class Backlog:
    """A bound on the bytes that are kept for nodes until they acknowledge them, for each, for each key, and in all.

    When too much is kept, it closes a session: the one for which most is kept, of the key for which most is kept.

    Args:
        most: bytes in all; a key may have half of them. Where there are no keys all nodes share the whole.
        close: ends a session, for a reason.
    """

    def __init__(self, most: int, close: Callable[[Session, str], None]) -> None:
        self._most = most
        self._close = close
        self.size: int = 0
        """Bytes of all sessions."""
        self.must_shrink: bool = False
        """Whether the session with most is to go because memory is short; any thread may say so."""
        self.awaited: dict[Session, int] = {}
        """{session: bytes below which what is kept for it has to be before something goes on}."""
        self.on_freed: Callable[[Session], None] = lambda _session: None
        """Called with each session of which that has come to be so, and with each that is gone for good."""
        self._sizes: dict[Session, int] = {}
        self._of: Counter[str] = Counter()

    def grow(self, session: Session, size: int) -> None:
        """Count what is kept for a session; O(1) unless it is too much."""
        if session.lost:
            return
        self.count(session, size)
        if size > _OUTBOX:
            self._close(session, f"does not read: {size:,} bytes wait for it")
        while self.size > self._most or (session.owner and self._of[session.owner] > self._most // 2):
            self._cut_off()

    def count(self, session: Session, size: int) -> None:
        """Count what is kept for a session, 0 if it is gone; no bound is looked at."""
        change = size - session.counted
        session.counted = size
        self.size += change
        self._of[session.owner] += change
        self._free(session, size)
        if size:
            self._sizes[session] = size
        else:
            self._sizes.pop(session, None)
            if not self._of[session.owner]:
                del self._of[session.owner]

    def acknowledged(self, session: Session, size: int) -> None:
        """Take note of what is kept for a session that has acknowledged something; more than is counted is for `grow`."""
        if size < session.counted:
            self.count(session, size)
        else:
            self._free(session, size)

    def _free(self, session: Session, size: int) -> None:
        if self.awaited and size < self.awaited.get(session, 0):
            del self.awaited[session]
            self.on_freed(session)

    def shrink(self) -> None:
        """Make room if that is wanted."""
        if self.must_shrink:
            if self._sizes:
                self._cut_off()
            self.must_shrink = False

    def _cut_off(self) -> None:
        owner = max(self._of, key=self._of.__getitem__)
        largest = max((session for session in self._sizes if session.owner == owner), key=self._sizes.__getitem__)
        self._close(
            largest, f"does not read: {largest.counted:,} bytes wait for it, and too many for all nodes together"
        )

    @property
    def most_of_one(self) -> int:
        """The most bytes that are kept for one session; any thread may ask."""
        return max(self._sizes.copy().values(), default=0)
