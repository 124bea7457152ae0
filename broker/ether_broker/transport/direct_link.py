"""A link within the broker's process whose envelopes need no frames."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from ether_broker.transport.address import Address

__all__ = ["DirectLink"]


class DirectLink(Protocol):
    """The interface of a link whose envelopes whoever steps the broker may take and give without frames."""

    waiting: deque[bytes]
    """What it has for the broker, the oldest first; others add meanwhile."""
    waiting_bytes: int
    """About so many bytes wait; an empty queue is exact."""

    @property
    def packed(self) -> int:
        """Number of the last frame that it has packed; until the broker has taken that, nothing may go without a frame."""

    @property
    def address(self) -> Address:
        """Whose its session is."""

    @property
    def is_direct(self) -> bool:
        """Whether it is open and in a session, and no frame has to go before the envelopes that wait."""

    def take_direct(self, envelopes: list[bytes]) -> None:
        """Take what the broker sends, without a frame; as the frames of a `Link`, in the calling thread."""
