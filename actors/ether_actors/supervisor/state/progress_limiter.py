"""The limiter of how much progress one delegation may tell a second."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ether_broker.transport.sessions.session import Session

__all__ = ["BURST", "RATE", "ProgressLimiter"]

BURST: Final = 1_024
"""Points of progress that a delegation may tell at once. A response is one point, and one for each 4 KiB."""
RATE: Final = 256.0
"""Points that it may tell a second."""


class ProgressLimiter:
    """A limiter of the progress of one delegation: what it may still tell, and what waits to be sent."""

    __slots__ = ("at", "attempt", "envelope", "folded", "is_due", "left", "line", "session")

    def __init__(self, session: Session, attempt: int, now: float) -> None:
        self.session: Session = session
        """Whose node says it."""
        self.attempt: int = attempt
        self.left: float = float(BURST)
        self.at: float = now
        self.envelope: bytes = b""
        """What waits; empty while nothing does."""
        self.folded: int = 0
        """How many were folded into what waits, or into what comes next."""
        self.is_due: bool = False
        """Whether it will be looked at again."""
        self.line: OrderedDict[Any, None] | None = None
        """The delegations among which its own waits for room."""

    def forget(self, entry: Any) -> None:
        """Let what waits go with its delegation, which has ended."""
        self.session.progress_waiting -= len(self.envelope)
        self.envelope = b""
        if self.line is not None:
            del self.line[entry]
            self.line, self.is_due = None, False
