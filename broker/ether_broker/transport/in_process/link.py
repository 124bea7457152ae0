"""A node's side of the transport within a process."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final, Protocol

from ether_broker.errors import EtherError, MailboxFull
from ether_broker.timing import DEFAULT_TIMING, Timing
from ether_broker.transport.address import Address
from ether_broker.transport.channel import PARTS, Channel, receive
from ether_broker.transport.link import LINK_LIMIT, REFUSED, Receiver
from ether_broker.transport.step_lock import StepLock
from ether_broker.wire.frame import Frame, Message, make_frame

__all__ = ["InProcessLink", "Port"]

logger = logging.getLogger("ether.link")

TICK: Final = 0.1
"""Seconds between two ticks."""
_MOST_CALLS: Final = 50_000
"""Callbacks of a user's that wait for the receiving thread from which on the link is full."""
_ROOM: Final = 1_000
"""Frames from the broker that may wait until the link is opened."""


class Port(Protocol):
    """The interface of such a link's server."""

    endpoint: str
    lock: StepLock
    is_told: bool
    on_sent: Callable[[], bool]
    on_turn_end: Callable[[], None]

    def wake(self) -> None:
        """Have the broker's own thread take it."""

    def disconnect(self, link: InProcessLink) -> None:
        """Forget a link."""


class InProcessLink:
    """A `Link` to a broker of the same process; `InProcessServer.connect` makes it.

    What it sends waits here until the broker takes it: in its own thread, in an idle one of a pool, in one within
    `Runtime.ask`, or in this one at the end of a turn. What the broker sends is handed to the receiver at once, in the thread
    that steps it, under the server's lock; ticks come under that too. So what the receiver does then must not wait, and calls
    of a user's go to the receiving thread (`call`).

    Args:
        server: whose peer it is.
        address: that of no other link; it is the incarnation too.
    """

    backlog: int = LINK_LIMIT
    """Bytes that may wait before it is full."""

    def __init__(self, server: Port, address: Address) -> None:
        self.address: Final = address
        self.endpoint: str = server.endpoint
        self._server = server
        self._receiver: Receiver | None = None
        self._channel: Channel[Frame] = Channel(0, framing=PARTS)
        self.asides: deque[Frame] = deque()
        """Frames outside the count that wait for the broker."""
        self.waiting: deque[bytes] = deque()
        """Envelopes that wait for it."""
        self.is_ready: bool = False
        """Whether there is a session, in which they may go."""
        self.is_rewound: bool = False
        """Whether frames go once more."""
        self.waiting_bytes: int = 0
        """About so many bytes of them."""
        self._lock = threading.Lock()
        self._early: SimpleQueue[Frame] = SimpleQueue()
        """What came before it was opened."""
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        """What the receiving thread is to call; None ends it."""
        self._thread: threading.Thread | None = None
        self._receives_in = 0
        """The receiving thread, while it runs."""
        self._is_closed = False

    # -- the node's side -----------------------------------------------------------------------------------------

    def open(self, receiver: Receiver) -> None:
        """Begin to receive."""
        self._thread = threading.Thread(target=self._run, args=(receiver,), name="ether-link-receive", daemon=True)
        self._thread.start()
        self.flush()

    def greet(self, envelope: bytes) -> None:
        """Send HELLO; see `Link.greet`."""
        self.asides.append(make_frame([envelope]))
        self._server.wake()

    def first(self, timeout: float) -> list[bytes]:
        """Wait for the first envelopes, before `open`; empty when the time is up."""
        try:
            return self._early.get(timeout=timeout).envelopes
        except Empty:
            return []

    def begin(self, session: int, renew: Callable[[list[bytes]], list[bytes]], timing: Timing = DEFAULT_TIMING) -> None:
        """Begin a session; see `Link.begin`."""
        waiting = self.waiting
        with self._lock:
            left = self._channel.unacknowledged()
            while waiting:  # others may add at the same time, and what they add comes after
                left.append(waiting.popleft())
            self.asides.clear()
            waiting.extendleft(reversed(renew(left)))
            self.waiting_bytes = sum(map(len, list(waiting)))
            self._channel = Channel(session, timing.max_backoff, framing=PARTS)
            self.is_ready, self.is_rewound = True, False
        self._server.wake()

    def explain(self) -> EtherError | None:
        """Nothing: there are no keys within a process."""
        return None

    @property
    def is_receiving_thread(self) -> bool:
        """Whether the caller is the receiving thread, or steps the broker: it must not wait for what it would receive."""
        return threading.get_ident() in (self._receives_in, self._server.lock.holder)

    def call(self, call: Callable[[], object]) -> None:
        """Have the receiving thread call something soon; see `Link.call`."""
        self._calls.put(call)

    @property
    def kept_bytes(self) -> int:
        """Bytes that wait; see `Link.kept_bytes`."""
        channel = self._channel
        return self.waiting_bytes + channel.packed_bytes - channel.forgotten_bytes

    @property
    def is_full(self) -> bool:
        """Whether what starts new work is refused; see `Link.is_full`."""
        return self.kept_bytes > self.backlog or self._calls.qsize() > _MOST_CALLS

    def send(self, envelope: bytes, *, more_follows: bool = False, is_new: bool = False) -> None:  # noqa: ARG002
        """Send soon, in the thread that steps the broker next; see `Link.send`."""
        if is_new:  # from here on as `put`, without a call
            channel = self._channel
            kept = self.waiting_bytes + channel.packed_bytes - channel.forgotten_bytes
            if kept > self.backlog or self._calls.qsize() > _MOST_CALLS:
                raise MailboxFull(REFUSED)
        self.waiting.append(envelope)
        self.waiting_bytes += len(envelope)
        server = self._server
        if not server.is_told:
            server.is_told = True
            if not server.on_sent():
                server.wake()

    def put(self, envelope: bytes, *, is_new: bool = False, more_follows: bool = False) -> None:  # noqa: ARG002
        """As `send`, for whoever has the broker take it then; nobody else is told, and a tick finds it in the end."""
        if is_new and self.is_full:
            raise MailboxFull(REFUSED)
        self.waiting.append(envelope)
        self.waiting_bytes += len(envelope)

    def send_last(self, envelope: bytes) -> None:
        """Send now, in this thread, unless another steps the broker; see `Link.send_last`."""
        self.waiting.append(envelope)
        self.waiting_bytes += len(envelope)
        self._server.on_turn_end()

    def show_life(self) -> None:
        """Show that this node lives; see `Link.show_life`."""
        if not self.asides:  # what waits there says so too
            self.asides.append(self._channel.acknowledgement())
        self.flush()

    def flush(self) -> None:
        """Have the broker take what waits."""
        server = self._server
        if not server.is_told and (self.waiting or self.asides):
            server.is_told = True
            if not server.on_sent():
                server.wake()

    def close(self, linger: float = 1.0) -> None:  # noqa: ARG002  what waits is handed over at once
        """Have the broker take what waits, and end."""
        self._calls.put(None)
        if self._thread is not None and not self.is_receiving_thread:
            self._thread.join(2.0)
        self._is_closed = True
        self._server.disconnect(self)
        if not self.is_receiving_thread and (left := self._calls.qsize() - 1) > 0:
            logger.warning("%d callbacks wait still, and are called if the process lives so long", left)

    def _run(self, receiver: Receiver) -> None:
        self._receives_in = threading.get_ident()
        with self._server.lock:  # here, as a signal's handler that raised in `open` would leave it held
            self._receiver = receiver
            while not self._early.empty():
                self.take(self._early.get())
        due = time.monotonic() + TICK
        while True:
            try:
                call = self._calls.get(timeout=max(0.0, due - time.monotonic()))
                if call is None:
                    self._receives_in = 0
                    return
                call()
            except Empty:
                pass
            except BaseException:  # whatever a user's callback raises, the node goes on
                logger.exception("a callback failed")
            if time.monotonic() >= due:
                due = time.monotonic() + self._tick(receiver)

    def _tick(self, receiver: Receiver) -> float:
        wait = TICK
        try:
            with self._server.lock:
                wait = receiver.ticked()
            if self.waiting or self.asides:  # whoever sent it may have been interrupted before it said so, as by Ctrl-C
                self._server.wake()
        except BaseException:  # a log handler may exit: the node goes on
            logger.exception("a tick of the node failed")
        return wait

    # -- the broker's side, in whichever thread steps it ----------------------------------------------------------

    def collect(self) -> list[tuple[Address, Message]]:
        """Take what waits for the broker, as frames."""
        taken: list[tuple[Address, Message]] = []
        address = self.address
        with self._lock:
            asides, waiting, channel = self.asides, self.waiting, self._channel
            while asides:
                taken.append((address, asides.popleft()))
            if not self.is_ready:
                return taken  # before the first WELCOME
            if self.is_rewound:
                self.is_rewound = False
                taken += [(address, frame) for _, frame in channel.unsent()]
            while waiting:
                frame, size = channel.pack(waiting)
                self.waiting_bytes -= size
                taken.append((address, frame))
            channel.sent = channel.last
            self.waiting_bytes = 0  # the sum drifts when threads add at once; an empty queue is exact
        return taken

    @property
    def packed(self) -> int:
        """See `DirectLink.packed`."""
        return self._channel.last

    @property
    def is_direct(self) -> bool:
        """See `DirectLink.is_direct`."""
        return self.is_ready and not (self.asides or self.is_rewound or self._is_closed) and self._receiver is not None

    def take_direct(self, envelopes: list[bytes]) -> None:
        """See `DirectLink.take_direct`."""
        if not self.waiting:
            self.waiting_bytes = 0
        if envelopes:
            assert self._receiver is not None
            try:
                self._receiver.received(envelopes)
            except Exception:
                logger.exception("what the broker sent broke the node's step; it is dropped")

    def take(self, frame: Frame) -> bool:
        """Hand a frame of the broker to the receiver; as long as there is none: whether there was room for it."""
        if self._is_closed:
            return True
        if self._receiver is None:
            if self._early.qsize() >= _ROOM:
                return False
            self._early.put(frame)
            return True
        try:
            answer = receive(self._channel, frame, time.monotonic(), self._receiver.received, self._rewind)
            if answer is not None:
                self.asides.append(answer)
        except EtherError as error:
            logger.warning("a message of the broker was not taken: %s", error)
        except Exception:
            logger.exception("what the broker sent broke the node's step; it is dropped")
        return True

    def _rewind(self) -> None:
        with self._lock:
            self._channel.rewind()
            self.is_rewound = True
