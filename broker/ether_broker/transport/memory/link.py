"""A node's side of the transport in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from ether_broker.clock import Clock
from ether_broker.errors import MailboxFull
from ether_broker.timing import DEFAULT_TIMING, Timing
from ether_broker.transport.address import Address
from ether_broker.transport.channel import Channel, receive
from ether_broker.transport.link import LINK_LIMIT, REFUSED, Receiver
from ether_broker.wire.frame import join_frame, read_frame

__all__ = ["MemoryLink", "Port"]

_ROOM: Final = 1_000
"""Frames from the broker that may wait to be delivered; as ZeroMQ's high-water mark."""


class Port(Protocol):
    """The interface of a memory link's server."""

    endpoint: str
    clock: Clock
    on_flush: Callable[[], object]

    def inject(self, address: Address, message: bytes) -> None:
        """Let a message arrive."""

    def disconnect(self, link: MemoryLink) -> None:
        """Forget a link."""


class MemoryLink:
    """The link of a node to a broker in memory; `MemoryBroker.connect` makes it.

    What is sent waits until the link is flushed, or its frames are posted; what comes waits until it is delivered, and is
    handed to the receiver in the thread that does that.

    Example:
        with TestRuntime() as bus, bus.join("second") as second:
            second.link.cut()  # as a cable that is pulled
            bus.advance(10.0)
            assert [node["node"] for node in bus.nodes()] == ["test"]
            second.link.mend()

    Args:
        server: whose peer it is.
        address: that of no other link; it is the incarnation too.
    """

    backlog: int = LINK_LIMIT
    """Bytes that may wait before it is full."""

    def __init__(self, server: Port, address: Address) -> None:
        self.address: Final = address
        self.endpoint: str = server.endpoint
        self.is_cut: bool = False
        """Whether nothing passes in either direction, as on a wire that was cut: nobody is told."""
        self._server = server
        self._receiver: Receiver | None = None
        self._channel: Channel[bytes] = Channel(0)
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
        self.flush()
        return read_frame(self._incoming.popleft()).envelopes if self._incoming else []

    def begin(self, session: int, renew: Callable[[list[bytes]], list[bytes]], timing: Timing = DEFAULT_TIMING) -> None:
        """Begin a session; see `Link.begin`."""
        left = [*self._channel.unacknowledged(), *self._waiting]
        self._channel = Channel(session, timing.max_backoff)
        self._aside.clear()
        self._waiting = deque(renew(left))
        self._waiting_bytes = sum(map(len, self._waiting))

    def explain(self) -> None:
        """Nothing: there are no keys here."""

    @property
    def is_receiving_thread(self) -> bool:
        """Whether the call comes from the receiver, or from a callback in it, which must not wait."""
        return self._is_delivering

    @staticmethod
    def call(call: Callable[[], object]) -> None:
        """Call something at once; see `Link.call`."""
        call()

    @property
    def kept_bytes(self) -> int:
        """Bytes that wait; see `Link.kept_bytes`."""
        return self._waiting_bytes + self._channel.retained_bytes

    @property
    def is_full(self) -> bool:
        """Whether what starts new work is refused; see `Link.is_full`."""
        return self.kept_bytes > self.backlog

    def send(self, envelope: bytes, *, more_follows: bool = False, is_new: bool = False) -> None:  # noqa: ARG002  all wait here
        """Send with the next flush; see `Link.send`."""
        if is_new and self.is_full:
            raise MailboxFull(REFUSED)
        self._waiting.append(envelope)
        self._waiting_bytes += len(envelope)

    def send_last(self, envelope: bytes) -> None:
        """Send with the next flush; see `Link.send_last`."""
        self.send(envelope)

    def show_life(self) -> None:
        """Show that this node lives, with the next flush; see `Link.show_life`."""
        if not self._aside:
            self._aside.append(self._channel.acknowledgement())

    def flush(self) -> None:
        """Send what waits, and let the broker answer, if it is one that is moved by that."""
        self.post()
        self._server.on_flush()

    def close(self, linger: float = 0.0) -> None:  # noqa: ARG002  no time passes here
        """Send what waits, and end."""
        self.flush()
        self._server.disconnect(self)

    # -- the wire ------------------------------------------------------------------------------------------------

    def cut(self) -> None:
        """Let nothing pass any more; what is under way is lost. The broker notices that it is silent."""
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
        inject = self._server.inject
        while self._greetings:
            inject(self.address, self._greetings.popleft())
        channel = self._channel
        if not channel.session:
            return
        while self._aside:
            inject(self.address, self._aside.popleft())
        for number, frame in channel.unsent():
            inject(self.address, frame)
            channel.sent = number
        while self._waiting:
            frame, size = channel.pack(self._waiting)
            self._waiting_bytes -= size
            inject(self.address, frame)
            channel.sent = channel.last

    def take(self, frame: bytes) -> bool:
        """Take a frame from the broker, if there is room; while it is cut, the frame is lost."""
        if not self.is_cut:
            if len(self._incoming) >= _ROOM:
                return False
            self._incoming.append(frame)
        return True

    def deliver(self) -> bool:
        """Hand what came to the receiver; whether there was anything."""
        if self._receiver is None or not self._incoming:
            return False
        self._is_delivering = True
        try:
            while self._incoming:
                message, now = self._incoming.popleft(), self._server.clock.monotonic()
                answer = receive(self._channel, message, now, self._receiver.received, self._channel.rewind)
                if answer is not None:
                    self._aside.append(answer)
        finally:
            self._is_delivering = False
        return True
