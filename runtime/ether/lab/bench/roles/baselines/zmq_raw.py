"""Raw sockets: a DEALER and a ROUTER in pyzmq, one frame a message, nothing joined, nothing packed, nothing checked.

It is what the two ends cost without a bus. The body is the same 1 KB of opaque bytes for every message.
"""

from __future__ import annotations

import threading
import time

import zmq

from ether.lab.harness.role import CHUNK, Info, serial
from ether.lab.harness.workload import OPAQUE, body_of

__all__ = ["Client", "Worker", "bind", "echo_until_closed"]

_IO_WAIT = 30_000


def bind(socket: zmq.Socket[bytes], transport: str) -> str:
    """Bind to a free address of that transport."""
    socket.bind("ipc://*" if transport == "ipc" else "tcp://127.0.0.1:*")
    return socket.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\0")


def echo_until_closed(socket: zmq.Socket[bytes]) -> None:
    """Send back what comes, to whom it came from, until the context is terminated; then close the socket."""
    send, recv, more = socket.send, socket.recv, zmq.SNDMORE
    try:
        while True:
            sender = recv()
            body = recv()
            send(sender, more)
            send(body)
    except zmq.ContextTerminated:
        socket.close(0)


class Worker:
    """The end that answers: a ROUTER."""

    def __init__(self, options: Info) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._transport = options["transport"]
        self._thread = threading.Thread(target=echo_until_closed, args=(self._socket,))

    def start(self) -> Info:
        """Bind and answer."""
        endpoint = bind(self._socket, self._transport)
        self._thread.start()
        return {"endpoint": endpoint}

    def run(self, order: Info) -> Info:
        """Take no orders."""
        return order

    def stop(self) -> None:
        """Close."""
        self._context.term()
        if self._thread.ident is not None:
            self._thread.join()


class Client:
    """The end that asks: a DEALER."""

    def __init__(self, options: Info) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.RCVTIMEO, _IO_WAIT)
        self._endpoint = options["endpoint"]
        self._body = body_of(OPAQUE)

    def start(self) -> Info:
        """Connect, and make sure that somebody answers."""
        self._socket.connect(self._endpoint)
        self._round_trip()
        return {}

    def _round_trip(self) -> None:
        self._socket.send(self._body)
        self._socket.recv()

    def run(self, order: Info) -> Info:
        """Ask for so many seconds with so many questions open."""
        if order["window"] == 1:
            return serial(self._round_trip, order["seconds"])
        return self._pipelined(order["window"], order["seconds"])

    def _pipelined(self, window: int, seconds: float) -> Info:
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

    def stop(self) -> None:
        """Close."""
        self._context.destroy(linger=0)
