"""A node's link on the simulated wire: `ZmqLink` with other sockets and without its threads."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import zmq

from ether_broker.errors import EtherError
from ether_broker.timing import DEFAULT_TIMING, Timing
from ether_broker.transport.channel import Channel, receive
from ether_broker.transport.link import Receiver
from ether_broker.transport.zeromq.link import TICK, ZmqLink
from ether_broker.transport.zeromq.reconnect_policy import ReconnectPolicy
from ether_broker.wire.frame import join_frame, read_frame
from tests.simulation.network import Network, Socket

if TYPE_CHECKING:
    from tests.simulation.member import Life

__all__ = ["SimulatedLink"]

logger = logging.getLogger("ether.link")


class SimulatedLink(ZmqLink):
    """All that decides is `ZmqLink`'s own; what moves is here."""

    def __init__(self, life: Life, network: Network, incarnation: bytes) -> None:
        self.endpoint = "simulated://broker"
        self.incarnation = incarnation
        self.backlog = life.member.world.scenario.backlog or self.backlog
        self._life = life
        self._sockets = (
            Socket(network, life, b"r" + incarnation, self._arrived),
            Socket(network, life, b"t" + incarnation, self._arrived),
        )
        listen, talk = self._sockets
        self._hear = listen
        self._raw_send = lambda frame, _flags: talk.send(frame)  # type: ignore[assignment]
        self._channel = Channel(0)
        self._watchdog = ReconnectPolicy(self._now)
        self._waiting = deque()
        self._waiting_bytes = 0
        self._aside = deque()
        self._lock = threading.Lock()
        self._kicked = False
        self._closing = False
        self._receiver: Receiver | None = None
        self._first: list[bytes] = []
        self.is_joining = False
        """Whether HELLO has been answered, so that it need not be said again."""

    @property
    def sockets(self) -> tuple[Socket, Socket]:
        """Where it listens, and where it talks."""
        return self._sockets

    def open(self, receiver: Receiver) -> None:
        """Begin to receive."""
        self._receiver = receiver
        self._life.after(TICK, self._tick)

    def greet(self, envelope: bytes) -> None:
        """Send HELLO; lost when nobody is connected."""
        if not self.is_joining:
            with contextlib.suppress(zmq.Again):
                self._hear.send(join_frame([envelope]))

    def first(self, timeout: float) -> list[bytes]:
        """What has come so far, before `open`."""
        first, self._first = self._first, []
        return first

    def explain(self) -> None:
        """Nothing: there are no handshakes here."""

    @property
    def is_receiving_thread(self) -> bool:
        """Nothing here ever blocks."""
        return False

    def send(self, envelope: bytes, *, more_follows: bool = False, is_new: bool = False) -> None:
        """Send, and have it noted."""
        self._life.member.world.auditor.answers.given(self._life, envelope)
        self._life.member.world.auditor.moves.said(envelope)
        super().send(envelope, more_follows=more_follows, is_new=is_new)

    def begin(self, session: int, renew: Callable[[list[bytes]], list[bytes]], timing: Timing = DEFAULT_TIMING) -> None:
        """Begin a session, of whose broker nothing has been told yet."""
        self._life.outstanding.clear()
        self._life.peaks.clear()
        super().begin(session, renew, timing)
        self._watchdog = ReconnectPolicy(self._now, timing)

    def _wake_sender(self) -> None:
        self._kicked = True
        self._life.after(0.0001, self._flush_held)

    def _flush_held(self) -> None:
        self._kicked = False
        self.flush()

    def _arrived(self, message: bytes) -> None:
        self._life.run(lambda: self._take(message))

    def _take(self, message: bytes) -> None:
        if self._closing:
            return
        if self._receiver is None:
            self._first = read_frame(message).envelopes
            self._life.answered()
            return
        try:
            now = self._watchdog.heard = self._now
            answer = receive(self._channel, message, now, self._receiver.received, self._rewind)
            if answer is not None:
                self._aside.append(answer)
                self.flush()
        except EtherError as error:
            logger.warning("a message of the broker was not taken: %s", error)
        except Exception:
            logger.exception("what the broker sent broke the node's step; it is dropped")

    def _tick(self) -> None:
        if self._closing or self._receiver is None:
            return
        channel = self._channel
        if self._watchdog.is_mute(channel.session, channel.astray, self._now):
            self._sockets[1].renew()
            self._rewind()
        self.flush()
        self._receiver.ticked()
        self._life.after(TICK, self._tick)

    @property
    def _now(self) -> float:
        return self._life.member.clock.monotonic()

    def close(self, linger: float = 1.0) -> None:
        """Send what waits, and end."""
        self.flush()
        self._closing = True
        for socket in self._sockets:
            socket.close()
