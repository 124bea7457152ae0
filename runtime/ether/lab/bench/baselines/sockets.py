"""Raw sockets: a DEALER and a ROUTER in pyzmq, one frame a message, nothing joined, nothing packed, nothing checked.

It is what the two ends cost without a bus. The body is the same 1 KB of opaque bytes for every message. Between them there may
be `zmq.proxy`, libzmq's own loop in C: a ROUTER for the clients and a DEALER for the workers, and no look at a message.
"""

from __future__ import annotations

import threading
import time
from typing import ClassVar

import zmq

from ether.lab.harness.role import CHUNK, Info, Role, serial
from ether.lab.harness.workload import OPAQUE, body_of

__all__ = ["Client", "Proxy", "ProxyWorker", "Worker"]

_IO_WAIT = 30_000


class _Sockets(Role):
    """Some sockets, and a thread that serves them until the context is terminated."""

    kinds: ClassVar[tuple[int, ...]]

    def __init__(self, options: Info) -> None:
        super().__init__(options)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._sockets = [self._context.socket(kind) for kind in self.kinds]
        self.callback(self._context.destroy, linger=0)

    def _bind(self, socket: zmq.Socket[bytes]) -> str:
        """Bind to a free address of the transport."""
        socket.bind("ipc://*" if self.options["transport"] == "ipc" else "tcp://127.0.0.1:*")
        return socket.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\0")

    def _start_serving(self) -> None:
        thread = threading.Thread(target=self._run)
        thread.start()
        self.callback(thread.join)
        self.callback(self._context.term)

    def _run(self) -> None:
        try:
            self._serve()
        except zmq.ContextTerminated:
            for socket in self._sockets:
                socket.close(0)

    def _serve(self) -> None:
        """Send back what comes, to whom it came from."""
        (socket,) = self._sockets
        send, recv, more = socket.send, socket.recv, zmq.SNDMORE
        while True:
            sender = recv()
            body = recv()
            send(sender, more)
            send(body)


class Worker(_Sockets):
    """The end that answers: a ROUTER."""

    kinds: ClassVar[tuple[int, ...]] = (zmq.ROUTER,)

    def start(self) -> Info:
        """Bind and answer."""
        endpoint = self._bind(self._sockets[0])
        self._start_serving()
        return {"endpoint": endpoint}


class Proxy(_Sockets):
    """The process in the middle."""

    kinds: ClassVar[tuple[int, ...]] = (zmq.ROUTER, zmq.DEALER)

    def start(self) -> Info:
        """Bind both sides."""
        endpoint, back = map(self._bind, self._sockets)
        self._start_serving()
        return {"endpoint": endpoint, "back": back}

    def _serve(self) -> None:
        zmq.proxy(*self._sockets)


class ProxyWorker(_Sockets):
    """The end that answers: a DEALER, to which the proxy gives each message behind its sender's id."""

    kinds: ClassVar[tuple[int, ...]] = (zmq.DEALER,)

    def start(self) -> Info:
        """Connect and answer."""
        self._sockets[0].connect(self.options["back"])
        self._start_serving()
        return {}


class Client(_Sockets):
    """The end that asks: a DEALER."""

    kinds: ClassVar[tuple[int, ...]] = (zmq.DEALER,)

    def start(self) -> Info:
        """Connect, and make sure that somebody answers."""
        self._socket, self._body = self._sockets[0], body_of(OPAQUE)
        self._socket.setsockopt(zmq.RCVTIMEO, _IO_WAIT)
        self._socket.connect(self.options["endpoint"])
        self._round_trip()
        return {}

    def _round_trip(self) -> None:
        self._socket.send(self._body)
        self._socket.recv()

    def work(self, window: int, seconds: float, **_options: object) -> Info:
        """Ask for so many seconds with so many questions open."""
        if window == 1:
            return serial(self._round_trip, seconds)
        send, recv, body, clock = self._socket.send, self._socket.recv, self._body, time.perf_counter
        count = 0
        start = clock()
        for _ in range(window):
            send(body)
        while (now := clock()) < start + seconds:
            for _ in range(CHUNK):
                recv()
                send(body)
            count += CHUNK
        for _ in range(window):
            recv()
        return {"count": count, "seconds": now - start}
