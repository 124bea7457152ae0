"""A monitor of the handshakes that libzmq itself turns away: wrong mechanism or key, slow, or no ZeroMQ at all."""

from __future__ import annotations

import contextlib
import errno
import logging
import struct
import threading
from typing import Any, Final

import zmq

from ether_broker.transport.refusal_log import RefusalLog

__all__ = ["HandshakeMonitor", "read_event"]

_EVENTS: Final = (
    zmq.Event.ACCEPTED
    | zmq.Event.HANDSHAKE_SUCCEEDED
    | zmq.Event.HANDSHAKE_FAILED_AUTH
    | zmq.Event.HANDSHAKE_FAILED_PROTOCOL
    | zmq.Event.HANDSHAKE_FAILED_NO_DETAIL
    | zmq.Event.DISCONNECTED
    | zmq.Event.MONITOR_STOPPED
)
_EVENT: Final = struct.Struct("=HI")
_HUNG_UP: Final = frozenset({errno.EPIPE, errno.ECONNRESET})
"""Why a handshake ended whose peer closed the connection: so does who only looks whether somebody listens, as commands do."""


def read_event(monitor: zmq.Socket[Any]) -> tuple[zmq.Event, int]:
    """The next event of a monitored socket, and its value. `zmq.utils.monitor`, which does it too, would bring asyncio."""
    number, value = _EVENT.unpack(monitor.recv_multipart()[0])
    return zmq.Event(number), value


class HandshakeMonitor:
    """Watches a listening socket in a thread of its own, which has to keep up: libzmq waits for who watches.

    libzmq tells that a handshake failed, and then which connection has ended. It tells that one succeeded, but not whose; so
    who speaks no ZeroMQ, of whom it only says that the connection has ended, is not counted if another got in meanwhile.
    Who failed for its key is counted by the `Authenticator`.

    Args:
        socket: not bound yet; `close` belongs to its thread too.
        refusals: where they are counted, as `handshake_failed`.
    """

    def __init__(self, socket: zmq.Socket[Any], refusals: RefusalLog) -> None:
        self._socket = socket
        self._refusals = refusals
        self._monitor = socket.get_monitor_socket(_EVENTS)
        self._open: set[int] = set()
        """Connections that came after the last handshake that succeeded."""
        self._has_failed = False
        """Whether the next connection that ends is one that was told of."""
        self._thread = threading.Thread(target=self._run, name="ether-handshakes", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with contextlib.suppress(zmq.ZMQError):  # the context was destroyed under us
            while (event := read_event(self._monitor))[0] is not zmq.Event.MONITOR_STOPPED:
                self._note(*event)
        self._monitor.close(0)

    def _note(self, event: zmq.Event, value: int) -> None:
        """Take an event; its value is the connection, or of a handshake that failed without detail the errno."""
        if event is zmq.Event.ACCEPTED:
            self._open.add(value)
        elif event is zmq.Event.HANDSHAKE_SUCCEEDED:
            self._open.clear()
        elif event is zmq.Event.DISCONNECTED:
            if value in self._open and not self._has_failed:
                self._count("what it said is not ZeroMQ")
            self._open.discard(value)
            self._has_failed = False
        else:
            self._has_failed = True
            if event is zmq.Event.HANDSHAKE_FAILED_PROTOCOL:
                self._count("it has no key, or another key for the broker")
            elif event is zmq.Event.HANDSHAKE_FAILED_NO_DETAIL:
                if value in _HUNG_UP:
                    self._count("it hung up", logging.DEBUG)
                else:
                    self._count("it took too long")

    def _count(self, why: str, level: int = logging.WARNING) -> None:
        self._refusals.note("", "handshake_failed", f"a connection was closed in its handshake: {why}", level)

    def close(self) -> None:
        """End the watching; before the socket is closed."""
        self._socket.disable_monitor()
        self._thread.join(2.0)
