"""The broker's side of the transport within a process."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from ether_broker.transport.address import INCARNATION, Address, NodeAddress
from ether_broker.transport.direct_link import DirectLink
from ether_broker.transport.in_process.link import InProcessLink
from ether_broker.transport.sessions.session_table import SessionTable
from ether_broker.transport.step_lock import StepLock
from ether_broker.wire.frame import Frame, Message, read_frame

__all__ = ["InProcessServer"]

_LONGEST: Final = 60.0
"""Seconds that one wait takes at most; a system's timer takes no infinite time."""


def _nobody() -> bool:
    return False


class InProcessServer:
    """A `SharedServer` whose peers are `InProcessLink`s of the same process.

    Args:
        endpoint: what tells it from others.
    """

    def __init__(self, endpoint: str) -> None:
        self.endpoint: str = endpoint
        """What tells it from others."""
        self.is_blocked: bool = False
        """See `Server.is_blocked`."""
        self.lock: StepLock = StepLock()
        """See `SharedServer.lock`."""
        self.is_told: bool = False
        """Whether it was said that a link has something, and nobody has looked since."""
        self.on_sent: Callable[[], bool] = _nobody
        """See `SharedServer.on_sent`."""
        self.on_turn_end: Callable[[], None] = self.wake
        """See `SharedServer.on_turn_end`."""
        self._links: dict[Address, InProcessLink] = {}
        self._present: tuple[InProcessLink, ...] = ()
        """The same, for threads that look at them while another connects one."""
        self.only: DirectLink | None = None
        """See `SharedServer.only`."""
        self._closed: deque[InProcessLink] = deque()
        """Links that are to be forgotten in the next step."""
        self._news = threading.Lock()
        self._news.acquire()
        self._is_woken = False

    @staticmethod
    def addressing(address: Address) -> NodeAddress | None:
        """A link has one address, which is its incarnation; its frames travel as their parts."""
        return NodeAddress(address, address, address, is_joined=False) if len(address) == INCARNATION else None

    # -- its links -----------------------------------------------------------------------------------------------

    def connect(self) -> InProcessLink:
        """A new link, not yet open."""
        link = InProcessLink(self, Address(os.urandom(INCARNATION)))
        self._links[link.address] = link
        self._note_links()
        return link

    def _note_links(self) -> None:
        self._present = tuple(self._links.values())
        self.only = self._present[0] if len(self._present) == 1 else None

    def disconnect(self, link: InProcessLink) -> None:
        """Forget a link in the next step, when what it has has been taken; any thread may call it, as it waits for nothing."""
        self._closed.append(link)
        self.wake()

    # -- the broker's --------------------------------------------------------------------------------------------

    @property
    def has_news(self) -> bool:
        """Whether a link has something for the broker."""
        for link in self._present:
            if link.asides or ((link.waiting or link.is_rewound) and link.is_ready):
                return True
        return bool(self._closed)

    def wait(self, timeout: float) -> None:
        """Wait until a link has something for the broker; see `SharedServer.wait`."""
        if timeout > 0.0 and not self.has_news:
            self._news.acquire(timeout=min(timeout, _LONGEST))
        else:
            self._news.acquire(blocking=False)
        self._is_woken = False

    def receive(self, timeout: float) -> list[tuple[Address, Message]]:
        """Wait for messages and take what is there; see `Server.receive`."""
        if timeout > 0.0:
            self.wait(timeout)
        self.is_told = False  # first: what is added from now on is said anew
        taken: list[tuple[Address, Message]] = []
        for link in self._present:
            taken += link.collect()
        while self._closed:  # the broker is told that the peer is gone when it next sends to it
            self._links.pop(self._closed.popleft().address, None)
            self._note_links()
        return taken

    def transmit(self, session_table: SessionTable) -> None:
        """Hand on what waits in the outboxes; see `Server.transmit`."""
        self.is_blocked = False
        for address, frame in session_table.outgoing():
            link = self._links.get(address)
            if link is None:
                session_table.unreachable(address)
            elif not link.take(frame if isinstance(frame, Frame) else read_frame(frame)):
                session_table.undelivered(address, frame)
                self.is_blocked = True

    def wake(self) -> None:
        """Make a waiting `receive` return; any thread may call it."""
        if not self._is_woken:
            self._is_woken = True
            try:  # noqa: SIM105  suppress() costs as much as the rest
                self._news.release()
            except RuntimeError:  # another thread has just done so
                pass

    def close(self, linger: float = 1.0) -> None:  # noqa: ARG002  what was sent has arrived
        """Let go of all links: nothing passes any more."""
        self._links.clear()
        self._note_links()
