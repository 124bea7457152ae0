"""Peers without the right key, and peers with one that use it on others, against a real broker over TCP."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest
import zmq

from ether import Agent, Runtime, capability
from ether_broker.envelope.ids import new_id
from ether_broker.envelope.payload import pack
from ether_broker.security.keyring import Keyring
from ether_broker.security.keys import KeyPair
from ether_broker.transport.zeromq.curve_server import secure_client
from ether_broker.wire.frame import Kind, join_frame, pack_envelope, read_frame
from tests.support import wait_until


class Greeter(Agent):
    """Greets."""

    @capability("people.greet")
    def greet(self, name: str) -> str:
        return f"Hello, {name}."


@pytest.fixture
def office(tmp_path: Path) -> Keyring:
    return Keyring.create(tmp_path / "office", "office")


@pytest.fixture
def mallory(office: Keyring) -> KeyPair:
    """A pair that is allowed, for the node `mallory`."""
    pair = KeyPair.new("mallory")
    office.allow(pair.public, "mallory")
    return pair


@pytest.fixture
def bus(office: Keyring, mallory: KeyPair) -> Iterator[Runtime]:
    with Runtime(bind="tcp://127.0.0.1:*", keys=office.folder, drain=0.0) as made:
        made.start(Greeter)
        yield made


@pytest.fixture
def context() -> Iterator[zmq.Context[Any]]:
    with zmq.Context() as made:
        yield made


class Keyed:
    """A DEALER with any routing id and any mechanism."""

    def __init__(
        self, context: zmq.Context[Any], url: str, routing_id: bytes, pair: KeyPair | None = None, server: str = ""
    ):
        self.socket = context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.IDENTITY, routing_id)
        if pair is not None:
            secure_client(self.socket, pair, server)
        self.url = url

    def connect(self) -> Keyed:
        self.socket.connect(self.url)
        return self

    def say(self, *envelopes: bytes) -> None:
        self.socket.send(join_frame(envelopes))

    def hello(self, node: str) -> None:
        self.say(pack_envelope(Kind.HELLO, request_id=new_id(), body=pack({"node": node})))

    def hears(self, seconds: float = 5.0) -> int:
        """The kind of what comes next; 0 for nothing."""
        if not self.socket.poll(int(seconds * 1000)):
            return 0
        return read_frame(self.socket.recv()).envelopes[0][0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


def greeting(bus: Runtime) -> object:
    return bus.delegate("people.greet", {"name": "Ada"}, timeout=10).result().unwrap().data


def incarnation(bus: Runtime) -> bytes:
    """The incarnation of the bus's own node, as if it had leaked."""
    supervisor = bus._broker.supervisor
    (session,) = supervisor.ask(lambda running: running.state.session_table.sessions)
    return session.incarnation


def test_an_incarnation_that_leaked_is_of_no_use_to_another_key(bus, office, mallory, context):
    known = incarnation(bus)
    server = office.own.public
    for prefix in (b"x", b"q"):
        with Keyed(context, bus.url, prefix + known, mallory, server).connect() as thief:
            thief.say(pack_envelope(Kind.BYE))
            wait_until(lambda: bus.statistics()["refused"].get("wrong_key", 0), 5.0)
            assert thief.hears(0.1) == 0
    assert greeting(bus) == "Hello, Ada."
    assert [node["node"] for node in bus.nodes()] == [bus.name]


def test_a_routing_id_that_lives_is_not_taken_by_a_second_connection(bus, office, mallory, context):
    known, server = incarnation(bus), office.own.public
    with (
        Keyed(context, bus.url, b"t" + known, mallory, server).connect() as talks,
        Keyed(context, bus.url, b"r" + known, mallory, server).connect() as listens,
    ):
        for _ in range(5):
            talks.say(pack_envelope(Kind.BYE))
            assert greeting(bus) == "Hello, Ada."
        assert listens.hears(0.2) == 0
    assert [node["node"] for node in bus.nodes()] == [bus.name]


def test_a_key_names_its_node_and_no_other(bus, office, mallory, context):
    with Keyed(context, bus.url, b"r" + b"m" * 16, mallory, office.own.public).connect() as peer:
        peer.hello(bus.name)
        assert peer.hears() == Kind.ERROR
        peer.hello("mallory")
        assert peer.hears() == Kind.WELCOME
    assert bus.statistics()["refused"]["node_refused"] >= 1


@pytest.mark.parametrize("case", ["no keys", "plain", "stranger", "wrong server key"])
def test_who_cannot_prove_an_allowed_key_gets_no_message_through(bus, office, mallory, context, case):
    pair, server = mallory, office.own.public
    if case == "stranger":
        pair = KeyPair.new("stranger")
    if case == "wrong server key":
        server = KeyPair.new("other").public
    with Keyed(
        context, bus.url, b"r" + b"s" * 16, pair if case in ("stranger", "wrong server key") else None, server
    ) as peer:
        if case == "plain":
            peer.socket.setsockopt(zmq.PLAIN_USERNAME, b"mallory")
            peer.socket.setsockopt(zmq.PLAIN_PASSWORD, b"x")
        peer.connect()
        peer.socket.setsockopt(zmq.SNDTIMEO, 500)
        with_hello = time.monotonic() + 0.5
        while time.monotonic() < with_hello:
            try:
                peer.hello("mallory")
            except zmq.Again:
                break
            assert peer.hears(0.1) == 0
        assert greeting(bus) == "Hello, Ada."
    assert [node["node"] for node in bus.nodes()] == [bus.name]
    reason = "unknown_key" if case == "stranger" else "handshake_failed"
    refused = wait_until(lambda: bus.statistics()["refused"], 5.0)
    assert refused.keys() == {reason}


def test_a_key_that_is_revoked_in_mid_connection_is_not_heard_any_more(bus, office, mallory, context, caplog):
    server = office.own.public
    with (
        Keyed(context, bus.url, b"r" + b"m" * 16, mallory, server).connect() as listens,
        Keyed(context, bus.url, b"t" + b"m" * 16, mallory, server).connect() as talks,
    ):
        listens.hello("mallory")
        assert listens.hears() == Kind.WELCOME
        talks.say(pack_envelope(Kind.REGISTER, request_id=new_id(), source=b"mallory", body=pack({})))
        assert listens.hears() in (Kind.REGISTERED, Kind.HEARTBEAT)

        office.revoke("mallory")
        wait_until(lambda: len(bus.nodes()) == 1, 2.0)
        for _ in range(200):
            talks.say(
                pack_envelope(Kind.DELEGATION, request_id=new_id(), source=b"mallory", capability=b"people.greet")
            )
        wait_until(lambda: bus.statistics()["refused"]["revoked_key"] >= 200, 5.0)

    assert len([record for record in caplog.records if "revoked_key" in record.getMessage()]) <= 10
    assert greeting(bus) == "Hello, Ada."


def test_a_flood_of_one_key_does_not_shut_the_door_for_another(bus, office, mallory, context):
    server = office.own.public
    with Keyed(context, bus.url, b"r" + b"m" * 16, mallory, server).connect() as flooding:
        for _ in range(3_000):
            flooding.say(pack_envelope(Kind.MONITOR))
        wait_until(lambda: bus.statistics()["refused"].get("no_session", 0) > 1_000, 10.0)
        with Runtime.connect(bus.url, keys=office.folder, timeout=2.0) as near:
            assert greeting(near) == "Hello, Ada."


def test_a_message_over_four_mebibytes_costs_its_sender_the_connection(bus, office, mallory, context):
    with Keyed(context, bus.url, b"r" + b"m" * 16, mallory, office.own.public).connect() as peer:
        peer.hello("mallory")
        assert peer.hears() == Kind.WELCOME
        monitor = peer.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        peer.socket.send(bytes((4 << 20) + 1))
        assert monitor.poll(5_000)
        peer.socket.disable_monitor()
        monitor.close()
    assert greeting(bus) == "Hello, Ada."


def test_a_message_of_several_parts_is_refused_and_the_next_is_read(bus, office, mallory, context):
    with Keyed(context, bus.url, b"r" + b"m" * 16, mallory, office.own.public).connect() as peer:
        peer.socket.send_multipart([b"a", b"b" * 1_000, *[b"c"] * 2_000])
        assert peer.hears() == Kind.ERROR
        peer.hello("mallory")
        assert peer.hears() == Kind.WELCOME
    assert bus.statistics()["refused"] == {"malformed_frame": 1}
