"""A broker and links in memory: the real supervisor, and neither sockets nor threads nor a clock of its own.

    Node ── link.send ──► MemoryLink ──┐ MemoryBroker.exchange          the same frames as on a socket
    Node.received ◄── MemoryLink ◄─────┘    └─► Supervisor.step

For the nodes of a test, `ether.testing.world` moves it; by itself it moves when a link is flushed.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from typing import Final

from ether_actors.supervisor.supervisor import Supervisor
from ether_broker.clock import Clock
from ether_broker.errors import MailboxFull
from ether_broker.mailbox import Limits
from ether_broker.timing import DEFAULT_TIMING, Timing
from ether_broker.transport.channel import Channel, receive
from ether_broker.transport.link import BACKLOG, Receiver
from ether_broker.transport.session_table import INCARNATION
from ether_broker.wire.frame import join_frame, read_frame

__all__ = ["MemoryBroker", "MemoryLink"]

_numbers = itertools.count(1)


class MemoryBroker:
    """A broker that moves when it is told to, or when a link is flushed.

    Nothing in it is random but the ids of events, and nothing depends on the time but through `clock`: the same calls
    give the same frames in the same order.

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
        self.supervisor: Supervisor = Supervisor(limits=limits, tap_count=tap_count, tap_size=tap_size, timing=timing)
        """The state machine; look into it, but leave stepping it to the broker."""
        self._links: dict[bytes, MemoryLink] = {}
        self._arrivals: list[tuple[bytes, bytes]] = []
        self._is_busy = False

    def connect(self) -> MemoryLink:
        """A new link, not yet open."""
        link = MemoryLink(self)
        self._links[link.incarnation] = link
        return link

    def disconnect(self, link: MemoryLink) -> None:
        """Forget a link; the broker sees that its peer is gone when it next sends to it."""
        self._links.pop(link.incarnation, None)

    def inject(self, routing_id: bytes, message: bytes) -> None:
        """Let a message arrive as if a peer had sent it; it may be any bytes."""
        self._arrivals.append((routing_id, message))

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
        for link in list(self._links.values()):
            link.post()
        supervisor = self.supervisor
        now = self.clock.monotonic()
        if self._arrivals or now >= supervisor.next_wake():
            arrivals, self._arrivals = self._arrivals, []
            supervisor.step(arrivals, now, self.clock.wall())
            self._transmit()
            stepped = True
        else:
            stepped = False
        delivered = [link.deliver() for link in list(self._links.values())]
        return stepped or any(delivered)

    def _transmit(self) -> None:
        router = self.supervisor.records.router
        for routing_id, frame in router.outgoing():
            link = self._links.get(routing_id[1:])
            if link is None:
                router.unreachable(routing_id)  # a ROUTER socket says EHOSTUNREACH
            else:
                link.take(frame)


class MemoryLink:
    """A link (`ether_broker.transport.zeromq.link.Link`) to a `MemoryBroker`.

    What is sent waits until the link is flushed or the broker is told to exchange; what comes is handed to the receiver
    inside that call, in the thread that made it.
    """

    def __init__(self, broker: MemoryBroker) -> None:
        self.incarnation: Final = next(_numbers).to_bytes(INCARNATION)
        self.endpoint: str = f"memory://{int.from_bytes(self.incarnation)}"
        self.is_cut: bool = False
        """Whether nothing passes in either direction, as on a wire that was cut: nobody is told."""
        self._broker = broker
        self._receiver: Receiver | None = None
        self._channel = Channel(0)
        self._greetings: deque[bytes] = deque()
        self._aside: deque[bytes] = deque()
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._incoming: deque[bytes] = deque()
        self._is_delivering = False

    # -- the node's side -----------------------------------------------------------------------------------------

    def open(self, receiver: Receiver) -> None:
        """Begin to receive."""
        self._receiver = receiver

    def greet(self, envelope: bytes) -> None:
        """Send HELLO from the listening side."""
        self._greetings.append(join_frame([envelope]))

    def first(self, timeout: float) -> list[bytes]:  # noqa: ARG002  no time passes here
        """The first envelopes, before `open`; empty when there are none, however long one would wait."""
        self._broker.exchange()
        return read_frame(self._incoming.popleft()).envelopes if self._incoming else []

    def begin(self, session: int, renew: Callable[[list[bytes]], list[bytes]], timing: Timing = DEFAULT_TIMING) -> None:
        """Begin a session; see `Link.begin`."""
        left = [*self._channel.unacknowledged(), *self._waiting]
        self._channel = Channel(session, timing.backoff)
        self._aside.clear()
        self._waiting = deque(renew(left))
        self._waiting_bytes = sum(map(len, self._waiting))

    def explain(self) -> None:
        """Nothing: there are no keys here."""

    @property
    def is_receiving_thread(self) -> bool:
        """Whether the call comes from the receiver, or from a callback in it, which must not wait."""
        return self._is_delivering

    def send(self, envelope: bytes, *, hold: bool = False) -> None:  # noqa: ARG002  all wait here for the next exchange
        """Send with the next exchange.

        Raises:
            MailboxFull: 64 MiB wait already.
        """
        if self._waiting_bytes + self._channel.retained_bytes > BACKLOG:
            msg = f"{BACKLOG:,} bytes wait to be sent to the broker, or for its receipt: it does not take them."
            raise MailboxFull(msg)
        self._waiting.append(envelope)
        self._waiting_bytes += len(envelope)

    def flush(self) -> None:
        """Send what waits, and let the broker answer."""
        self._broker.exchange()

    def close(self, linger: float = 0.0) -> None:  # noqa: ARG002  no time passes here
        """Send what waits, and end."""
        self._broker.exchange()
        self._broker.disconnect(self)

    # -- the wire ------------------------------------------------------------------------------------------------

    def cut(self) -> None:
        """Let nothing pass any more; what is under way is lost. The broker notices after 3 s of silence."""
        self.is_cut = True
        self._incoming.clear()

    def mend(self) -> None:
        """Let everything pass again; what the node sent meanwhile goes out now."""
        self.is_cut = False

    def post(self) -> None:
        """Give what waits to the broker, in frames as on a socket; while it is cut, it waits on, but for HELLO."""
        if self.is_cut:
            self._greetings.clear()
            return
        while self._greetings:
            self._broker.inject(b"r" + self.incarnation, self._greetings.popleft())
        channel = self._channel
        if not channel.session:
            return
        talk = b"t" + self.incarnation
        while self._aside:
            self._broker.inject(talk, self._aside.popleft())
        for number, frame in channel.unsent():
            self._broker.inject(talk, frame)
            channel.sent = number
        while self._waiting:
            frame, size = channel.pack(self._waiting)
            self._waiting_bytes -= size
            self._broker.inject(talk, frame)
            channel.sent = channel.last

    def take(self, frame: bytes) -> None:
        """Take a frame from the broker; while it is cut, the frame is lost."""
        if not self.is_cut:
            self._incoming.append(frame)

    def deliver(self) -> bool:
        """Hand what came to the receiver; whether there was anything."""
        if self._receiver is None or not self._incoming:
            return False
        self._is_delivering = True
        try:
            while self._incoming:
                message, now = self._incoming.popleft(), self._broker.clock.monotonic()
                answer = receive(self._channel, message, now, self._receiver.received, self._channel.rewind)
                if answer is not None:
                    self._aside.append(answer)
        finally:
            self._is_delivering = False
        return True
