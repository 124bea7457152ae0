"""The broker's socket: a thin shell round one ROUTER that takes in and sends out frames in batches."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any, Final

import zmq

from ether_broker.envelope.payload import MAX_PAYLOAD
from ether_broker.errors import AddressInUse, InsecureEndpoint
from ether_broker.transport.address import Address, two_connections
from ether_broker.transport.endpoint import bind_error, check_endpoint, is_exposed, prepare_endpoint
from ether_broker.transport.refusal_log import RefusalLog
from ether_broker.transport.zeromq.handshake_monitor import HandshakeMonitor

if TYPE_CHECKING:
    from ether_broker.transport.sessions.session_table import SessionTable
    from ether_broker.transport.zeromq.curve_server import CurveGuard

__all__ = ["KEEPALIVE", "MAX_MESSAGE", "ZmqServer"]

MAX_MESSAGE: Final = MAX_PAYLOAD * 4
"""Bytes of one ZeroMQ message; a peer that sends more is cut off by libzmq."""
_TURN: Final = 32
"""Messages taken in one step at most, so that answers leave and timers fire under any load."""
_TURN_BYTES: Final = 4 << 20
"""Bytes after which a step takes no more messages: copying them takes time too."""
_HIGH_WATER: Final = 1000
_READ_AHEAD: Final = 64
"""Messages of one peer that libzmq takes in before they are asked for; each may have 4 MiB."""
_WAKE: Final = b"wake"
_WAIT_STEP: Final = 10
"""Milliseconds to whose multiples a wait is lengthened: what is due meanwhile is done when something arrives.

A change of the timeout costs as much as a recv. A wait that may end before the system's next tick makes it set the processor's
timer, which took 15 µs on a virtual machine."""
KEEPALIVE: Final = (
    (zmq.TCP_KEEPALIVE, 1),
    (zmq.TCP_KEEPALIVE_IDLE, 1),
    (zmq.TCP_KEEPALIVE_INTVL, 1),
    (zmq.TCP_KEEPALIVE_CNT, 3),
    (zmq.TCP_MAXRT, 3000),
)
"""The system itself ends a connection over TCP on which nothing is answered for 3 to 4 s, in milliseconds and seconds.

Not ZeroMQ's own heartbeats: libzmq 4.3.5 answers a PING, and sends its own, on a connection whose end it has noticed while its
input stood still for a full queue, and aborts the process (`!_io_error`, stream_engine_base.cpp)."""
_numbers: Final = itertools.count(1)
_recv = zmq.backend.Socket.recv  # the compiled methods: pyzmq's wrappers take as long again
_send = zmq.backend.Socket.send
_get = zmq.backend.Socket.get
_DONTWAIT: Final = int(zmq.NOBLOCK)  # flags and options as plain numbers: combining members of an Enum makes a new one
_DONTWAIT_MORE: Final = int(zmq.NOBLOCK | zmq.SNDMORE)
_MORE: Final = int(zmq.RCVMORE)
_EVENTS: Final = int(zmq.EVENTS)
_POLLIN: Final = int(zmq.POLLIN)


class ZmqServer:
    """A `Server` over ZeroMQ: one ROUTER socket.

    Everything but `wake` belongs to one thread.

    Args:
        endpoint: what to bind; `tcp://host:*` takes a free port, which `endpoint` then names.
        context: whose sockets it is among; an inproc endpoint is seen by sockets of the same context only.
        security: encrypts a TCP endpoint and lets only allowed keys in; others are guarded by the file system, or are
            within the process.
        insecure: whether other machines may reach it without keys.
        refusals: where the connections over TCP that fail in their handshake are counted; None is nowhere.

    Raises:
        InvalidEndpoint: see `check_endpoint` and `prepare_endpoint`.
        InsecureEndpoint: other machines could reach it, and there are no keys.
        AddressInUse: another broker, or another program, has it.
        InternalError: the guard's self-test let a stranger in.
    """

    addressing = staticmethod(two_connections)

    def __init__(
        self, endpoint: str, context: zmq.Context[zmq.Socket[bytes]], *, security: CurveGuard | None = None,
        insecure: bool = False, refusals: RefusalLog | None = None,
    ) -> None:  # fmt: skip
        check_endpoint(endpoint)
        self.guard = security if endpoint.startswith("tcp://") else None
        """Who says whose a message is; None where nobody has to."""
        if self.guard is None and not insecure and is_exposed(endpoint):
            raise InsecureEndpoint(
                f"Other machines could reach {endpoint}, and there are no keys: make some with `ether keys new` and give "
                "them with --keys, or say --insecure if you trust the whole network (in Python keys=, insecure=True)."
            )
        prepare_endpoint(endpoint)
        _refuse_living_ipc(endpoint)
        self._socket = context.socket(zmq.ROUTER)
        for option, value in _OPTIONS:
            self._socket.setsockopt(option, value)
        if self.guard is None:
            # A node whose connection broke connects again under its routing id, often before we notice the break, and what
            # the old connection still had is sent again. With keys the id must stay with the connection that proved its
            # key; there a node reconnects until we have noticed.
            self._socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        self._failed: HandshakeMonitor | None = None
        if refusals is not None and endpoint.startswith("tcp://"):
            self._failed = HandshakeMonitor(self._socket, refusals)
        try:
            self.endpoint = self._bind(endpoint, context)
        except BaseException:
            self._close_socket(0)
            raise
        self._waker = self._make_waker(context)
        self._wake_lock = threading.Lock()
        self._timeout = 0
        self.is_blocked: bool = False
        """Whether a peer had no room in the last `transmit`."""

    def _bind(self, endpoint: str, context: zmq.Context[zmq.Socket[bytes]]) -> str:
        if self.guard is not None:
            return self.guard.bind(self._socket, endpoint, context)
        try:
            self._socket.bind(endpoint)
        except zmq.ZMQError as error:
            raise bind_error(endpoint, error) from error
        return self._socket.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\0")

    def _make_waker(self, context: zmq.Context[zmq.Socket[bytes]]) -> zmq.Socket[bytes]:
        """A socket of our own to the ROUTER: a blocking recv ends when it speaks, and no poll is needed."""
        endpoint = f"inproc://ether-wake-{next(_numbers)}"  # libzmq lets go of a closed socket's name later
        self._socket.bind(endpoint)
        waker = context.socket(zmq.DEALER)
        waker.setsockopt(zmq.IDENTITY, _WAKE)
        waker.setsockopt(zmq.LINGER, 0)
        waker.connect(endpoint)
        return waker

    def receive(self, timeout: float) -> list[tuple[Address, bytes]]:
        """Wait for messages and take what is there: (routing id, message).

        Args:
            timeout: seconds to wait when nothing is there.

        Returns:
            Nothing, when the time was up, or `wake` was called and nothing had come.

        It reads on behind a wake: as long as each read finds something, libzmq looks only at every hundredth for who began to
        speak, and a journal that is busy wakes in every step.
        """
        recv: Callable[[int], Any] = partial(_recv, self._socket)
        get = partial(_get, self._socket)
        guard = self.guard
        if guard is not None:
            guard.renew(self._socket)
        flags = _DONTWAIT
        if timeout > 0:
            flags = 0
            milliseconds = ceil(timeout * 1000 / _WAIT_STEP) * _WAIT_STEP
            if milliseconds != self._timeout:
                self._timeout = milliseconds
                self._socket.setsockopt(zmq.RCVTIMEO, milliseconds)
        taken: list[tuple[Address, bytes]] = []
        size = 0
        try:
            for _ in range(_TURN):
                routing_id = recv(flags)
                message = recv(_DONTWAIT) if guard is None else guard.take(self._socket, routing_id)
                while get(_MORE):  # surplus frames of a broken peer would be read as the next peer's routing id
                    recv(_DONTWAIT)
                    message = b""
                if message is not None and routing_id != _WAKE:
                    taken.append((routing_id, message))
                    size += len(message)
                if size > _TURN_BYTES or (not flags and not int(get(_EVENTS)) & _POLLIN):
                    break  # the first is often alone, and to ask whether it is costs less than a recv that finds nothing
                flags = _DONTWAIT
        except zmq.Again:
            pass
        return taken

    def transmit(self, session_table: SessionTable) -> None:
        """Send what waits in the session table's outboxes; never blocks.

        What a peer has no room for goes back to its outbox; a peer that is gone is reported to the session table.
        """
        self.is_blocked = False
        send = partial(_send, self._socket)
        for routing_id, frame in session_table.outgoing():
            try:
                send(routing_id, _DONTWAIT_MORE)
                send(frame, _DONTWAIT)
            except zmq.Again:
                session_table.undelivered(routing_id, frame)
                self.is_blocked = True
            except zmq.ZMQError as error:
                if error.errno != zmq.EHOSTUNREACH:
                    raise
                session_table.unreachable(routing_id)

    def wake(self) -> None:
        """Make a waiting `receive` return; any thread may call it."""
        with self._wake_lock, contextlib.suppress(zmq.ZMQError):
            self._waker.send(b"", zmq.NOBLOCK)

    def close(self, linger: float = 1.0) -> None:
        """Unbind, and wait at most `linger` seconds for what was sent to leave."""
        self._close_socket(int(linger * 1000))
        if self.guard is not None:
            self.guard.close()
        with self._wake_lock:
            self._waker.close(0)
        if self.endpoint.startswith("ipc://"):
            from pathlib import Path

            Path(self.endpoint.removeprefix("ipc://")).unlink(missing_ok=True)

    def _close_socket(self, linger: int) -> None:
        if self._failed is not None:
            self._failed.close()
        self._socket.close(linger)


_OPTIONS: Final = (
    (zmq.ROUTER_MANDATORY, 1),
    (zmq.SNDHWM, _HIGH_WATER),
    (zmq.RCVHWM, _READ_AHEAD),
    (zmq.MAXMSGSIZE, MAX_MESSAGE),
    (zmq.LINGER, 0),
    *KEEPALIVE,
    (zmq.HANDSHAKE_IVL, 3000),
    (zmq.IPV6, 1),
)


def _refuse_living_ipc(endpoint: str) -> None:
    """Libzmq takes over the socket file of a living broker without a word; look first whether somebody answers."""
    if not endpoint.startswith("ipc://"):
        return
    import socket

    with contextlib.closing(socket.socket(socket.AF_UNIX)) as probe, contextlib.suppress(OSError):
        probe.settimeout(1.0)
        probe.connect(endpoint.removeprefix("ipc://"))
        raise AddressInUse(f"{endpoint} is taken: a broker listens there.")
