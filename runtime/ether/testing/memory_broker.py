"""A broker in memory: the real supervisor, and neither sockets nor threads nor a clock of its own.

    Node ── link.send ──► MemoryLink ──► MemoryServer ──┐ MemoryBroker.exchange     the same frames as on a socket
    Node.received ◄────── MemoryLink ◄── MemoryServer ◄─┘   └─► Supervisor.step

For the nodes of a test, `ether.testing.simulator` moves it; by itself it moves when a link is flushed.
"""

from __future__ import annotations

from ether_actors.supervisor.supervisor import Supervisor
from ether_broker.clock import Clock
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.timing import DEFAULT_TIMING, Timing
from ether_broker.transport.address import Address
from ether_broker.transport.memory.link import MemoryLink
from ether_broker.transport.memory.server import MemoryServer

__all__ = ["MemoryBroker", "MemoryLink"]


class MemoryBroker:
    """A broker in memory, for tests: its frames move when `exchange` is called or a link is flushed.

    Nothing in it is random but the ids of events, and nothing depends on the time but through `clock`: the same calls
    give the same frames in the same order.

    Example:
        broker = MemoryBroker(ManualClock())
        link = broker.connect()
        assert link.first(timeout=5.0) == []  # nothing was said yet, and no time passes
        assert not broker.exchange()
        broker.disconnect(link)

    Args:
        clock: what the supervisor takes for the time.
        limits: bounds of the agents' mailboxes.
        tap_count: messages that observers can still catch up on.
        tap_size: bytes that are kept for that.
        timing: which it and its nodes keep.
    """

    def __init__(
        self, clock: Clock, *, limits: Limits | None = None, tap_count: int = 65_536, tap_size: int = 64 << 20,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:  # fmt: skip
        self.clock = clock
        self.server: MemoryServer = MemoryServer(clock)
        """Where its frames come in and go out."""
        self.supervisor: Supervisor = Supervisor(
            limits=limits, tap_count=tap_count, tap_size=tap_size, timing=timing, addressing=self.server.addressing
        )
        """The state machine; look into it, but leave stepping it to the broker."""
        self.server.on_flush = self.exchange
        self._is_busy = False

    def connect(self) -> MemoryLink:
        """A new link, not yet open."""
        return self.server.connect()

    def disconnect(self, link: MemoryLink) -> None:
        """Forget a link; the broker sees that its peer is gone when it next sends to it."""
        self.server.disconnect(link)

    def inject(self, address: Address, message: bytes) -> None:
        """Let a message arrive as if a peer had sent it; it may be any bytes."""
        self.server.inject(address, message)

    def exchange(self) -> bool:
        """Move frames both ways until nothing moves at this moment; whether anything did.

        Called from within itself, as by a callback that flushes its link, it returns at once: the frames move anyway.
        """
        if self._is_busy:
            return False
        self._is_busy = True
        try:
            moved = False
            while self._turn():
                moved = True
            return moved
        finally:
            self._is_busy = False

    def _turn(self) -> bool:
        server, supervisor = self.server, self.supervisor
        for link in server.links:
            link.post()
        now = self.clock.monotonic()
        arrivals = server.receive(0.0)
        stepped = bool(arrivals) or now >= supervisor.next_wake()
        if stepped:
            supervisor.step(arrivals, now, self.clock.wall())
            self._transmit()
        delivered = [link.deliver() for link in server.links]
        return stepped or any(delivered)

    def _transmit(self) -> None:
        session_table = self.supervisor.state.session_table
        if self.server.is_blocked:  # in the last turn, after which links have delivered what they had
            session_table.retry()
        self.server.transmit(session_table)
