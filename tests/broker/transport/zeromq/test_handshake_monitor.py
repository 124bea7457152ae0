"""Connections that are none of a node, against a real listening socket."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import zmq

from ether_broker.discovery.listening import is_listening
from ether_broker.security.keys import KeyPair
from ether_broker.transport.refusal_log import RefusalLog
from ether_broker.transport.zeromq.handshake_monitor import HandshakeMonitor
from tests.support import wait_until

BROKER = KeyPair.new()
Plug = Callable[["zmq.Socket[Any]"], None]


class Door:
    """A ROUTER, watched."""

    def __init__(self, context: zmq.Context[Any], *, keys: bool) -> None:
        self.context = context
        self.refusals = RefusalLog()
        self.router = context.socket(zmq.ROUTER)
        self.router.setsockopt(zmq.LINGER, 0)
        self.router.setsockopt(zmq.HANDSHAKE_IVL, 100)
        if keys:
            self.router.setsockopt(zmq.CURVE_SERVER, 1)
            self.router.setsockopt(zmq.CURVE_SECRETKEY, BROKER.secret.encode())
        self.watch = HandshakeMonitor(self.router, self.refusals)
        self.port = self.router.bind_to_random_port("tcp://127.0.0.1")

    @property
    def failed(self) -> int:
        return self.refusals.by_reason["handshake_failed"]

    def knock(self, plug: Plug) -> None:
        """Connect, until it has failed once or a message is through."""
        before = self.failed
        with self.context.socket(zmq.DEALER) as knocking:
            knocking.setsockopt(zmq.LINGER, 0)
            knocking.setsockopt(zmq.RECONNECT_IVL, 60_000)
            plug(knocking)
            knocking.connect(f"tcp://127.0.0.1:{self.port}")
            knocking.send(b"hello")
            wait_until(lambda: self.failed > before or self.router.poll(0), 5.0)

    def close(self) -> None:
        self.watch.close()
        self.router.close()


@pytest.fixture
def context() -> Iterator[zmq.Context[Any]]:
    with zmq.Context() as made:
        yield made


@pytest.fixture(params=[True, False], ids=["keys", "no keys"])
def door(request: pytest.FixtureRequest, context: zmq.Context[Any]) -> Iterator[Door]:
    made = Door(context, keys=request.param)
    yield made
    made.close()


def curve(server: str) -> Plug:
    def plug(knocking: zmq.Socket[Any]) -> None:
        pair = KeyPair.new()
        knocking.setsockopt(zmq.CURVE_PUBLICKEY, pair.public.encode())
        knocking.setsockopt(zmq.CURVE_SECRETKEY, pair.secret.encode())
        knocking.setsockopt(zmq.CURVE_SERVERKEY, server.encode())

    return plug


def plain(knocking: zmq.Socket[Any]) -> None:
    knocking.setsockopt(zmq.PLAIN_USERNAME, b"mallory")
    knocking.setsockopt(zmq.PLAIN_PASSWORD, b"x")


def clear(_knocking: zmq.Socket[Any]) -> None:
    pass


@pytest.mark.parametrize(
    "said", [b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n", b"", bytes(range(256))], ids=["http", "nothing", "bytes"]
)
def test_who_speaks_no_zeromq_is_counted_once_a_connection(door: Door, said: bytes):
    for number in (1, 2, 3):
        with socket.create_connection(("127.0.0.1", door.port)) as connection:
            connection.sendall(said)
        wait_until(lambda number=number: door.failed >= number, 5.0)

    assert door.failed == door.refusals.total == 3


def test_who_only_looks_whether_somebody_listens_is_counted_without_a_warning(
    door: Door, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("DEBUG")
    for number in (1, 2):
        assert is_listening(f"tcp://127.0.0.1:{door.port}")
        wait_until(lambda number=number: len(caplog.records) >= number, 5.0)  # it is counted before it is logged
    with socket.create_connection(("127.0.0.1", door.port)):
        wait_until(lambda: len(caplog.records) >= 3, 5.0)

    assert door.failed == 3
    said = [(record.levelname, record.getMessage().rpartition(": ")[2]) for record in caplog.records]
    assert said == [("DEBUG", "it hung up"), ("DEBUG", "it hung up"), ("WARNING", "it took too long")]


@pytest.mark.parametrize("said", [b"", b"\xff\0\0\0\0\0\0\0\1\x7f"], ids=["nothing", "half a greeting"])
def test_who_is_slow_is_hung_up_on_and_counted(door: Door, said: bytes):
    with socket.create_connection(("127.0.0.1", door.port)) as connection:
        connection.sendall(said)
        wait_until(lambda: door.failed, 5.0)

        connection.settimeout(5.0)
        while connection.recv(1_000):  # the broker's greeting comes before the end
            pass


@pytest.mark.parametrize("plug", [clear, plain, curve(KeyPair.new().public)], ids=["null", "plain", "another key"])
def test_another_mechanism_is_counted(context: zmq.Context[Any], plug: Plug, caplog: pytest.LogCaptureFixture):
    door = Door(context, keys=True)
    for _ in range(3):
        door.knock(plug)
    door.close()

    assert door.failed == 3
    assert len([record for record in caplog.records if "handshake_failed" in record.getMessage()]) == 2


def test_who_gets_in_is_not_counted_also_when_it_leaves(door: Door):
    right = curve(BROKER.public) if door.router.getsockopt(zmq.CURVE_SERVER) else clear
    for _ in range(3):
        door.knock(right)
        assert door.router.recv_multipart()[1] == b"hello"
    door.knock(plain)

    assert door.failed == 1


def test_a_bound_socket_is_let_go_of_while_connections_fail(context: zmq.Context[Any]):
    door = Door(context, keys=True)
    connections = [socket.create_connection(("127.0.0.1", door.port)) for _ in range(200)]
    for connection in connections:
        connection.sendall(b"GET / HTTP/1.1\r\n")
    door.close()
    for connection in connections:
        connection.close()

    assert not door.watch._thread.is_alive()
