"""The broker's side of the transport in memory."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from ether_broker.clock import Clock, SystemClock
from ether_broker.transport.address import INCARNATION, Address, NodeAddress
from ether_broker.transport.memory.link import MemoryLink
from ether_broker.transport.sessions.session_table import SessionTable

__all__ = ["MemoryServer"]

_numbers: Final = itertools.count(1)
_incarnations: Final = itertools.count(1)


class MemoryServer:
    """A `Server` in memory, whose peers are `MemoryLink`s of the same process.

    Frames come to it as they are sent, and leave it for the queues of its links, where they wait until the link delivers them.
    `receive` may wait in one thread for what another one sends.

    Args:
        clock: what its links take for the time.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.endpoint: str = f"memory://{next(_numbers)}"
        """What tells it from others."""
        self.clock: Clock = clock or SystemClock()
        """Of its links."""
        self.on_flush: Callable[[], object] = bool
        """Called when a link was told to flush, after its frames have come here: to move them on, and the answers back."""
        self._links: dict[Address, MemoryLink] = {}
        self._arrivals: deque[tuple[Address, bytes]] = deque()
        self._news = threading.Condition()
        self._is_woken = False
        self.is_blocked: bool = False
        """See `Server.is_blocked`."""

    @staticmethod
    def addressing(address: Address) -> NodeAddress | None:
        """A link has one address, which is its incarnation."""
        return NodeAddress(address, address, address) if len(address) == INCARNATION else None

    # -- its links -------------------------------------------------------------------------------------------------

    def connect(self) -> MemoryLink:
        """A new link, not yet open."""
        link = MemoryLink(self, Address(next(_incarnations).to_bytes(INCARNATION)))
        self.attach(link)
        return link

    def attach(self, link: MemoryLink) -> None:
        """Let a link be one of its peers."""
        self._links[link.address] = link

    def disconnect(self, link: MemoryLink) -> None:
        """Forget a link; the broker is told that its peer is gone when it next sends to it."""
        self._links.pop(link.address, None)

    @property
    def links(self) -> list[MemoryLink]:
        """Those that are connected."""
        return list(self._links.values())

    def inject(self, address: Address, message: bytes) -> None:
        """Let a message arrive as if a peer had sent it; it may be any bytes."""
        with self._news:
            self._arrivals.append((address, message))
            self._news.notify_all()

    # -- the broker's ----------------------------------------------------------------------------------------------

    def receive(self, timeout: float) -> list[tuple[Address, bytes]]:
        """Wait for messages and take what is there; see `Server.receive`."""
        with self._news:
            if timeout > 0:
                self._news.wait_for(lambda: self._arrivals or self._is_woken, timeout)
            self._is_woken = False
            taken = list(self._arrivals)
            self._arrivals.clear()
        return taken

    def transmit(self, session_table: SessionTable) -> None:
        """Send what waits in the outboxes; see `Server.transmit`."""
        self.is_blocked = False
        for address, frame in session_table.outgoing():
            link = self._links.get(address)
            assert isinstance(frame, bytes)
            if link is None:
                session_table.unreachable(address)
            elif not link.take(frame):
                session_table.undelivered(address, frame)
                self.is_blocked = True

    def wake(self) -> None:
        """Make a waiting `receive` return; any thread may call it."""
        with self._news:
            self._is_woken = True
            self._news.notify_all()

    def close(self, linger: float = 1.0) -> None:  # noqa: ARG002  what was sent has left
        """Let go of all links: nothing passes any more."""
        self._links.clear()
