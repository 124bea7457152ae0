"""A node's link to the broker: what goes out is batched while it waits, never made to wait to be batched.

Two DEALER sockets with one random incarnation: on `r` + incarnation a thread waits for what comes; `t` + incarnation
sends, under a lock, from whichever thread has something to say. Who knows that more follows holds back what it has, and
it goes out together: when it says `flush`, before it waits, or when the sending thread next runs.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Final

import zmq

from ether_broker.errors import EtherError, MailboxFull
from ether_broker.timing import DEFAULT_TIMING, Timing
from ether_broker.transport.address import INCARNATION
from ether_broker.transport.channel import Channel, receive
from ether_broker.transport.endpoint import check_endpoint
from ether_broker.transport.link import LINK_LIMIT, REFUSED, Receiver
from ether_broker.transport.zeromq.reconnect_policy import PAUSE, ReconnectPolicy
from ether_broker.transport.zeromq.server import KEEPALIVE, MAX_MESSAGE
from ether_broker.wire.frame import join_frame, read_frame

if TYPE_CHECKING:
    from ether_broker.security.credentials import Credentials
    from ether_broker.transport.zeromq.curve_client import CurveClient

__all__ = ["ZmqLink"]

logger = logging.getLogger("ether.link")

_LISTENS: Final = b"r"
_TALKS: Final = b"t"
"""The two sockets, as their routing ids begin."""
TICK: Final = 0.1
"""Seconds between two ticks."""
_numbers = itertools.count(1)
"""Of the names to wake by; libzmq lets go of a closed socket's name later."""
FULL: Final = 64
"""Envelopes that are held back at most: more in one go would leave the other processes idle meanwhile."""


class ZmqLink:
    """A `Link` over ZeroMQ.

    Args:
        endpoint: the broker's.
        context: whose sockets these are; an inproc endpoint is seen by sockets of the same context only.
        security: the keys for a TCP endpoint; others have none.
    """

    backlog: int = LINK_LIMIT
    """Bytes that may wait before it is full."""

    def __init__(
        self, endpoint: str, context: zmq.Context[zmq.Socket[bytes]], *, security: Credentials | None = None
    ) -> None:
        self.endpoint = check_endpoint(endpoint)
        self.incarnation = os.urandom(INCARNATION)
        self._context = context
        self._security = security
        self._handshakes: dict[bytes, CurveClient] = {}
        """{role of the socket: its handshakes}, as long as they are looked at."""
        if self.endpoint.startswith("tcp://"):
            from ether_broker.transport.zeromq.curve_client import CurveClient

            self._handshakes = {role: CurveClient(self.endpoint, security) for role in (_LISTENS, _TALKS)}
        self._listen = self._connect(_LISTENS)
        self._talk = self._connect(_TALKS)
        self._raw_send: Callable[[bytes, int], object] = self._sending()
        self._channel: Channel[bytes] = Channel(0)
        self._watchdog = ReconnectPolicy(time.monotonic())
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._aside: deque[bytes] = deque()
        """Frames outside the count: acknowledgements, and what is missing."""
        self._lock = threading.Lock()
        self._kick = threading.Lock()
        self._kick.acquire()
        self._kicked = False
        self._wait = TICK
        """Seconds that a `recv` waits."""
        self._closing = False
        self._threads: list[threading.Thread] = []

    def _connect(self, role: bytes) -> zmq.Socket[bytes]:
        socket = self._context.socket(zmq.DEALER)
        for option, value in _OPTIONS:
            socket.setsockopt(option, value)
        socket.setsockopt(zmq.IDENTITY, role + self.incarnation)
        if role == _LISTENS:
            self._wake_name = f"inproc://ether-link-wake-{next(_numbers)}"
            socket.bind(self._wake_name)
        if role in self._handshakes:
            self._handshakes[role].connect(socket)
        else:
            socket.connect(self.endpoint)
        return socket

    def _sending(self) -> Callable[[bytes, int], object]:
        return partial(zmq.backend.Socket.send, self._talk)  # without pyzmq's wrapper

    def open(self, receiver: Receiver) -> None:
        """Begin to receive."""
        if self._security is None:  # what could go wrong in a handshake would have by now
            self._close_handshakes()
        self._threads = [
            threading.Thread(target=self._receive, args=(receiver,), name="ether-link-receive", daemon=True),
            threading.Thread(target=self._flush_when_kicked, name="ether-link-send", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def greet(self, envelope: bytes) -> None:
        """Send HELLO; from the receiving thread, or before `open`. Lost when nobody is connected: say it again."""
        with contextlib.suppress(zmq.Again):
            self._listen.send(join_frame([envelope]), zmq.NOBLOCK)

    def first(self, timeout: float) -> list[bytes]:
        """Wait for the first envelopes, before `open`; empty when the time is up."""
        self._look_at_handshakes()
        if self._listen.poll(max(1, int(timeout * 1000)), zmq.POLLIN):
            return read_frame(self._listen.recv()).envelopes
        return []

    def begin(self, session: int, renew: Callable[[list[bytes]], list[bytes]], timing: Timing = DEFAULT_TIMING) -> None:
        """Begin a session; see `Link.begin`."""
        self._watchdog = ReconnectPolicy(time.monotonic(), timing)
        waiting = self._waiting
        with self._lock:
            left = self._channel.unacknowledged()
            while waiting:  # others may add at the same time, and what they add comes after
                left.append(waiting.popleft())
            self._channel = Channel(session, timing.max_backoff)
            self._aside.clear()
            first = renew(left)
            waiting.extendleft(reversed(first))
            self._waiting_bytes = sum(map(len, list(waiting)))
        self.flush()

    def explain(self) -> EtherError | None:
        """Why no connection comes about, where that is known; see `Link.explain`."""
        self._look_at_handshakes()
        reasons = [handshake.explain() for handshake in self._handshakes.values()]
        return next((reason for reason in reasons if reason is not None), None)

    def _look_at_handshakes(self) -> None:
        for role, handshake in self._handshakes.items():
            if handshake.look():
                self._renew(role)

    def _close_handshakes(self) -> None:
        for handshake in self._handshakes.values():
            handshake.close()
        self._handshakes = {}

    @property
    def is_receiving_thread(self) -> bool:
        """Whether the caller is the receiving thread, which must not wait for what it would receive."""
        return bool(self._threads) and self._threads[0] is threading.current_thread()

    @staticmethod
    def call(call: Callable[[], object]) -> None:
        """Call something at once; see `Link.call`."""
        call()

    @property
    def kept_bytes(self) -> int:
        """Bytes that wait; see `Link.kept_bytes`."""
        channel = self._channel
        return self._waiting_bytes + channel.packed_bytes - channel.forgotten_bytes

    @property
    def is_full(self) -> bool:
        """Whether what starts new work is refused; see `Link.is_full`."""
        return self.kept_bytes > self.backlog

    def send(self, envelope: bytes, *, more_follows: bool = False, is_new: bool = False) -> None:
        """Send now, or with what follows; see `Link.send`."""
        channel = self._channel  # `is_full`, without a call for each delegation
        if is_new and self._waiting_bytes + channel.packed_bytes - channel.forgotten_bytes > self.backlog:
            raise MailboxFull(REFUSED)
        self._waiting.append(envelope)
        self._waiting_bytes += len(envelope)
        if not more_follows or len(self._waiting) >= FULL:
            self.flush()
        elif not self._kicked:
            self._wake_sender()

    def send_last(self, envelope: bytes) -> None:
        """Send now; see `Link.send_last`."""
        self.send(envelope)

    def show_life(self) -> None:
        """Show that this node lives; see `Link.show_life`."""
        if not self._aside:  # what waits there says so too
            self._aside.append(self._channel.acknowledgement())
        self.flush()

    def flush(self) -> None:
        """Send what waits, first what the socket had no room for; another thread that sends at the moment takes it along."""
        waiting, aside = self._waiting, self._aside
        while (waiting or aside or self._channel.sent < self._channel.last) and not self._closing:
            if self._lock.locked():
                return
            with self._lock:  # which a signal's handler that raises does not leave held, as it may an acquire()
                if not self._send_waiting():
                    return

    def _send_waiting(self) -> bool:
        """Send what waits, under the lock; whether the socket had room for all of it, and a session has begun."""
        waiting, aside, send, channel = self._waiting, self._aside, self._raw_send, self._channel
        if not channel.session:
            return False  # before the first WELCOME
        try:
            while aside:
                send(aside[0], zmq.NOBLOCK)
                aside.popleft()
            if channel.sent < channel.last:
                for number, frame in channel.unsent():
                    send(frame, zmq.NOBLOCK)
                    channel.sent = number
            while waiting:
                frame, size = channel.pack(waiting)
                self._waiting_bytes -= size
                send(frame, zmq.NOBLOCK)
                channel.sent = channel.last
        except zmq.Again:
            return False
        self._waiting_bytes = 0  # the sum drifts when threads add at once; an empty queue is exact
        return True

    def _wake_sender(self) -> None:
        self._kicked = True
        try:  # noqa: SIM105  suppress() costs as much as the rest of `send`
            self._kick.release()
        except RuntimeError:  # another thread has just done so
            pass

    def _wake_receiver(self) -> None:
        """End a recv that waits; only in order to close, as a HELLO might go to the waker from now on."""
        with self._context.socket(zmq.DEALER) as waker:
            waker.connect(self._wake_name)
            waker.send(b"", zmq.NOBLOCK)

    def _flush_when_kicked(self) -> None:
        while not self._closing:
            self._kick.acquire()
            self._kicked = False
            self.flush()

    def _receive(self, receiver: Receiver) -> None:
        due = time.monotonic() + TICK
        while not self._closing:
            try:
                message = self._listen.recv()
            except zmq.Again:
                message = b""
            except zmq.ZMQError:
                if self._closing:
                    return
                raise
            now = time.monotonic()
            try:
                if message:
                    self._watchdog.heard = now
                    answer = receive(self._channel, message, now, receiver.received, self._rewind)
                    if answer is not None:
                        self._aside.append(answer)
                        self.flush()
            except EtherError as error:
                logger.warning("a message of the broker was not taken: %s", error)
            except Exception:
                logger.exception("what the broker sent broke the node's step; it is dropped")
            if now >= due:  # whatever the broker sends
                due = now + self._tick(now, receiver)

    def _tick(self, now: float, receiver: Receiver) -> float:
        """Do what is due; returns when to do so again, which is when the next `recv` ends that gets nothing."""
        wait = TICK
        try:
            self._look_at_handshakes()
            self._look_at_connections(now)
            self.flush()
            wait = receiver.ticked()
        except BaseException:  # a log handler may exit: the node goes on
            logger.exception("a tick of the node failed")
        channel = self._channel
        if self._handshakes or self._waiting or self._aside or channel.sent < channel.last:
            wait = TICK  # the socket had no room, or soon it may not be the right one
        if wait != self._wait:
            self._wait = wait
            self._listen.setsockopt(zmq.RCVTIMEO, ceil(wait * 1000))
        return wait

    def _look_at_connections(self, now: float) -> None:
        """Replace a connection on which nothing gets through, though ZeroMQ reports no fault."""
        if self.endpoint.startswith("inproc://"):
            return  # within a process nothing breaks
        for role, is_broken in (
            (_LISTENS, self._watchdog.is_deaf(now)),
            (_TALKS, self._watchdog.is_mute(self._channel.session, self._channel.astray, now)),
        ):
            if is_broken:
                logger.info("nothing gets through on a connection to %s: it is replaced", self.endpoint)
                self._renew(role, PAUSE)

    def _renew(self, role: bytes, pause: float = 0.0) -> None:
        """Close a connection, and some seconds later connect by a new socket; in the receiving thread, or before `open`.

        A socket that never reads keeps its connection when it is told to disconnect (libzmq 4.3.5, with IMMEDIATE), and the
        next one would be one more under the same routing id: they would take it from each other for ever.
        """
        if role in self._handshakes:
            self._handshakes[role].close()
        if role == _LISTENS:
            self._listen.close(0)
            time.sleep(pause)
            self._listen, self._wait = self._connect(role), TICK
            return
        with self._lock:
            self._raw_send = _nowhere
            self._talk.close(0)
        time.sleep(pause)
        with self._lock:
            self._talk = self._connect(role)
            self._raw_send = self._sending()
        self._rewind()  # goes out when there is a connection

    def _rewind(self) -> None:
        with self._lock:
            self._channel.rewind()
        self.flush()

    def close(self, linger: float = 1.0) -> None:
        """Send what waits within `linger` seconds, and end."""
        with self._lock:  # whoever else sends at the moment has done so then, and may not have looked again
            self._send_waiting()
            self._closing = True
        self._wake_sender()
        self._wake_receiver()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(2.0)
        self._close_handshakes()
        self._talk.close(int(linger * 1000))
        self._listen.close(0)


def _nowhere(_frame: bytes, _flags: int) -> None:
    raise zmq.Again


_OPTIONS: Final = (
    (zmq.RCVTIMEO, int(TICK * 1000)),
    (zmq.SNDHWM, 1000),
    (zmq.RCVHWM, 1000),
    (zmq.MAXMSGSIZE, MAX_MESSAGE),
    (zmq.LINGER, 0),
    (zmq.IMMEDIATE, 1),
    (zmq.CONNECT_TIMEOUT, 2000),  # the system's own attempts wait ever longer, and a network may be healed meanwhile
    (zmq.RECONNECT_IVL, 100),
    (zmq.RECONNECT_IVL_MAX, 500),
    *KEEPALIVE,
    (zmq.IPV6, 1),
)
