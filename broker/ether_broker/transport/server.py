"""The broker's side of a transport: a server that takes in and sends out frames, and the guard that knows whose they are.

Another kind: docs/design.md, "Another transport, journal or clock".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from ether_broker.security.identity import Identity
from ether_broker.transport.address import Address, Addressing
from ether_broker.transport.direct_link import DirectLink
from ether_broker.transport.refusal_log import RefusalLog
from ether_broker.transport.sessions.session_table import SessionTable
from ether_broker.transport.step_lock import StepLock
from ether_broker.wire.frame import Message

__all__ = ["Guard", "Server", "SharedServer"]


class Guard(Protocol):
    """The interface of a transport's guard: which keys may connect, and whose each connection is."""

    refusals: RefusalLog
    """What was turned away."""

    def key_of(self, address: Address, /) -> str:
        """The key of a connection; "" when no message of it has counted."""

    def identify(self, address: Address, /) -> Identity | None:
        """Whose connection it is; None when no message of it has counted."""


class Server(Protocol):
    """The interface of a transport's server, which receives and sends the frames of all peers.

    Everything but `wake` belongs to one thread.
    """

    endpoint: str
    """The address that it has."""
    is_blocked: bool
    """Whether a peer had no room in the last `transmit`."""

    @property
    def addressing(self) -> Addressing:
        """Which node an address of its peers is one of."""

    def receive(self, timeout: float) -> Sequence[tuple[Address, Message]]:
        """Wait up to `timeout` seconds for messages and take what is there: (address, message).

        Those of one sender come in the order in which it sent them; which of them are frames, and whether some are missing or
        come twice, is the session table's to see. Nothing, when the time was up or `wake` was called, and now and then before.
        """

    def transmit(self, session_table: SessionTable) -> None:
        """Send what waits in the session table's outboxes; never blocks.

        What a peer has no room for goes back to its outbox; a peer that is gone is reported to the session table.
        """

    def wake(self) -> None:
        """Make a waiting `receive` return; any thread may call it."""

    def close(self, linger: float = 1.0) -> None:
        """Give up the address, and wait at most `linger` seconds for what was sent to leave."""


@runtime_checkable
class SharedServer(Server, Protocol):
    """The interface of a server whose broker may be stepped in several threads, one at a time.

    Only who holds `lock` may call `receive`, with no timeout, and `transmit`; what is transmitted is received within that.
    """

    lock: StepLock
    """Held by whoever steps the broker, who must not wait for what comes from it. Who waits for the lock must hold no other,
    and nothing of a user's may be on its stack: a step logs, and a log handler of a user's may take locks of a user's. A thread
    within `Runtime.ask` does not wait for it, and the user has been told to hold no lock."""
    on_sent: Callable[[], bool]
    """Called, in any thread, when a peer has something for the broker. Returns whether a thread takes it; if not, the caller
    calls `wake`."""
    is_told: bool
    """Whether it was said that a link has something, and nobody has looked since."""
    only: DirectLink | None
    """The peer, if there is just one."""
    on_turn_end: Callable[[], None]
    """Called in a thread that may step the broker, when a peer has something that is to be taken now."""

    @property
    def has_news(self) -> bool:
        """Whether a peer has something for the broker."""

    def wait(self, timeout: float) -> None:
        """Wait up to `timeout` seconds until a peer has something, or `wake` was called; it takes nothing."""
