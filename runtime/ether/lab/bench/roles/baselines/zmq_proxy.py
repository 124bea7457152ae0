"""`zmq.proxy`, libzmq's own loop in C: a ROUTER for the clients and a DEALER for the workers, and no look at a message."""

from __future__ import annotations

import threading

import zmq

from ether.lab.bench.roles.baselines.zmq_raw import bind, echo_until_closed
from ether.lab.harness.role import Info

__all__ = ["Proxy", "Worker"]


class Proxy:
    """The process in the middle."""

    def __init__(self, options: Info) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._front = self._context.socket(zmq.ROUTER)
        self._back = self._context.socket(zmq.DEALER)
        self._transport = options["transport"]
        self._thread = threading.Thread(target=self._forward)

    def start(self) -> Info:
        """Bind both sides."""
        endpoint, back = bind(self._front, self._transport), bind(self._back, self._transport)
        self._thread.start()
        return {"endpoint": endpoint, "back": back}

    def _forward(self) -> None:
        try:
            zmq.proxy(self._front, self._back)
        except zmq.ContextTerminated:
            self._front.close(0)
            self._back.close(0)

    def run(self, order: Info) -> Info:
        """Take no orders."""
        return order

    def stop(self) -> None:
        """Close."""
        self._context.term()
        if self._thread.ident is not None:
            self._thread.join()


class Worker:
    """The end that answers: a DEALER, to which the proxy gives each message behind its sender's id."""

    def __init__(self, options: Info) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._back = options["back"]
        self._thread = threading.Thread(target=echo_until_closed, args=(self._socket,))

    def start(self) -> Info:
        """Connect and answer."""
        self._socket.connect(self._back)
        self._thread.start()
        return {}

    def run(self, order: Info) -> Info:
        """Take no orders."""
        return order

    def stop(self) -> None:
        """Close."""
        self._context.term()
        if self._thread.ident is not None:
            self._thread.join()
