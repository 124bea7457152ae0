"""Raw peers with keys, for tests of the guard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import zmq
from zmq.utils.monitor import recv_monitor_message

from ether_broker.security.keys import KeyPair
from ether_broker.transport.address import INCARNATION
from ether_broker.transport.zeromq.server import ZmqServer

__all__ = ["INCARNATION", "Peer", "peer", "receive"]

PATIENCE = 5.0


class Peer:
    """A DEALER with a key."""

    def __init__(self, context: zmq.Context[Any], routing_id: bytes, pair: KeyPair | None, server_key: str) -> None:
        self.socket = context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.IDENTITY, routing_id)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.IMMEDIATE, 1)
        self.socket.setsockopt(zmq.SNDTIMEO, int(PATIENCE * 1000))
        self.socket.setsockopt(zmq.RCVTIMEO, int(PATIENCE * 1000))
        if pair is not None:
            self.socket.curve_publickey = pair.public.encode()
            self.socket.curve_secretkey = pair.secret.encode()
            self.socket.curve_serverkey = server_key.encode()
        self.monitor = self.socket.get_monitor_socket()

    def connect(self, endpoint: str) -> zmq.Event:
        """How the first handshake ends."""
        self.socket.connect(endpoint)
        while self.monitor.poll(int(PATIENCE * 1000)):
            event = recv_monitor_message(self.monitor)["event"]
            if "HANDSHAKE" in zmq.Event(event).name:
                return zmq.Event(event)
        raise AssertionError("no handshake ended")

    def close(self) -> None:
        self.socket.disable_monitor()
        self.monitor.close(0)
        self.socket.close(0)


@contextmanager
def peer(
    broker: ZmqServer, context: zmq.Context[Any], routing_id: bytes, pair: KeyPair | None, server_key: str = ""
) -> Iterator[Peer]:
    """A peer whose handshake has succeeded."""
    assert broker.guard is not None
    made = Peer(context, routing_id, pair, server_key or broker.guard.keyring.own.public)
    try:
        assert made.connect(broker.endpoint) is zmq.Event.HANDSHAKE_SUCCEEDED
        yield made
    finally:
        made.close()


def receive(broker: ZmqServer, count: int) -> list[tuple[bytes, bytes]]:
    """Take messages until there are so many, or nothing comes for a while."""
    taken: list[tuple[bytes, bytes]] = []
    for _ in range(100):
        taken += broker.receive(PATIENCE / 10)
        if len(taken) >= count:
            break
    return taken
