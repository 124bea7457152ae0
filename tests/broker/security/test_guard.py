"""A broker's socket with keys, and raw peers with real sockets at the other end."""

from __future__ import annotations

import time
from typing import Any

import pytest
import zmq

from ether_broker.errors import AddressInUse, InsecureEndpoint, InternalError, UsageError
from ether_broker.security.keys import KeyPair
from ether_broker.transport.zeromq import curve_server as module
from ether_broker.transport.zeromq.authenticator import Authenticator
from ether_broker.transport.zeromq.curve_server import CurveGuard
from ether_broker.transport.zeromq.server import ZmqServer
from tests.broker.security.support import INCARNATION, Peer, peer, receive
from tests.support import wait_until

ONE, TWO = b"1" * INCARNATION, b"2" * INCARNATION


def handshake(broker: ZmqServer, context: zmq.Context[Any], pair: KeyPair | None, server_key: str = "") -> zmq.Event:
    made = Peer(context, b"r" + ONE, pair, server_key or broker.guard.keyring.own.public)
    try:
        return made.connect(broker.endpoint)
    finally:
        made.close()


def knows(broker: ZmqServer, pair: KeyPair, *, allowed: bool) -> None:
    wait_until(lambda: (broker.guard.keyring.find(pair.public) is not None) is allowed, 2.0)


def test_an_allowed_key_gets_in_and_is_known_by_its_connection(broker, context, alice):
    with peer(broker, context, b"r" + ONE, alice) as one:
        one.socket.send(b"hello")

        assert receive(broker, 1) == [(b"r" + ONE, b"hello")]
        identity = broker.guard.identify(b"r" + ONE)

    assert identity.key == alice.public
    assert (identity.may_be("alice"), identity.may_be("bob")) == (True, False)


def test_a_key_that_nobody_allowed_is_turned_away_and_counted(broker, context):
    assert handshake(broker, context, KeyPair.new("mallory")) is zmq.Event.HANDSHAKE_FAILED_AUTH

    assert broker.guard.refusals.by_reason["unknown_key"] == 1
    assert broker.receive(0.05) == []


def test_a_peer_without_keys_is_turned_away(broker, context):
    assert handshake(broker, context, None) is zmq.Event.HANDSHAKE_FAILED_PROTOCOL


def test_a_peer_that_expects_another_broker_is_turned_away(broker, context, alice):
    event = handshake(broker, context, alice, KeyPair.new().public)

    assert event is zmq.Event.HANDSHAKE_FAILED_NO_DETAIL


def test_without_an_authenticator_nobody_gets_in(broker, context, alice):
    broker.guard.close()
    made = Peer(context, b"r" + ONE, alice, broker.guard.keyring.own.public)
    try:
        made.socket.connect(broker.endpoint)
        made.socket.setsockopt(zmq.SNDTIMEO, 300)
        with pytest.raises(zmq.Again):
            made.socket.send(b"hello")
    finally:
        made.close()

    assert broker.receive(0.05) == []


@pytest.mark.alone
def test_a_revoked_key_is_mute_within_a_second_on_a_connection_that_lives(broker, context, alice, ring):
    with peer(broker, context, b"r" + ONE, alice) as one:
        one.socket.send(b"before")
        receive(broker, 1)
        identity = broker.guard.identify(b"r" + ONE)

        ring.revoke("alice")
        started = time.monotonic()
        knows(broker, alice, allowed=False)
        one.socket.send(b"after")

        assert broker.receive(0.3) == []
        assert time.monotonic() - started < 1.0
        assert broker.guard.refusals.by_reason["revoked_key"] == 1
        assert not identity.is_allowed
        assert identity.nodes == ()


def test_a_message_in_the_name_of_another_keys_incarnation_does_not_count(broker, context, alice, ring):
    bob = KeyPair.new("bob")
    ring.allow(bob.public, "bob")
    knows(broker, bob, allowed=True)
    with peer(broker, context, b"r" + ONE, alice) as one, peer(broker, context, b"t" + ONE, bob) as two:
        one.socket.send(b"hello")
        receive(broker, 1)
        two.socket.send(b"I am alice")
        one.socket.send(b"last")

        assert receive(broker, 1) == [(b"r" + ONE, b"last")]
        assert broker.guard.identify(b"t" + ONE).key == alice.public
    assert broker.guard.refusals.by_reason["wrong_key"] == 1


def test_who_comes_back_under_a_routing_id_needs_the_key_that_it_had(broker, context, alice, ring):
    bob = KeyPair.new("bob")
    ring.allow(bob.public, "bob")
    knows(broker, bob, allowed=True)
    with peer(broker, context, b"r" + ONE, alice) as one:
        one.socket.send(b"hello")
        receive(broker, 1)
    with peer(broker, context, b"r" + ONE, bob) as thief:
        thief.socket.send(b"stolen")

        assert broker.receive(0.3) == []


def test_of_the_incarnations_that_are_remembered_the_most_silent_makes_room(broker, context, alice, monkeypatch):
    monkeypatch.setattr(module, "_MOST_INCARNATIONS", 2)
    with peer(broker, context, b"r" + ONE, alice) as one, peer(broker, context, b"r" + TWO, alice) as two:
        one.socket.send(b"1")
        receive(broker, 1)
        two.socket.send(b"2")
        receive(broker, 1)
        one.socket.send(b"3")
        receive(broker, 1)
        with peer(broker, context, b"r" + b"3" * INCARNATION, alice) as three:
            three.socket.send(b"4")
            receive(broker, 1)

            assert broker.guard.identify(b"r" + TWO) is None
            assert broker.guard.identify(b"r" + ONE) is not None
            two.socket.send(b"5")
            receive(broker, 1)
    assert broker.guard.identify(b"r" + TWO) is not None


def test_surplus_frames_of_a_peer_with_a_key_cost_no_other_message(broker, context, alice):
    with peer(broker, context, b"r" + ONE, alice) as one:
        one.socket.send_multipart([b"a", b"b", b"c"])
        one.socket.send(b"d")

        assert receive(broker, 2) == [(b"r" + ONE, b""), (b"r" + ONE, b"d")]


def test_a_guarded_broker_can_be_woken(broker):
    broker.wake()

    assert broker.receive(5.0) == []


def test_what_is_sent_to_a_peer_arrives_and_is_encrypted_on_the_way(context, ring, alice):
    """A proxy that listens in sees neither the message nor its key."""
    from tests.broker.security.wiretap import Wiretap

    broker = ZmqServer("tcp://127.0.0.1:*", context, security=CurveGuard(ring))
    with Wiretap(broker.endpoint) as tap:
        made = Peer(context, b"r" + ONE, alice, ring.own.public)
        assert made.connect(tap.endpoint) is zmq.Event.HANDSHAKE_SUCCEEDED
        made.socket.send(b"a very secret message")
        assert receive(broker, 1) == [(b"r" + ONE, b"a very secret message")]
        made.close()
    broker.close(0.0)

    assert len(tap.seen) > 100
    assert b"secret" not in tap.seen


# -- starting ----------------------------------------------------------------------------------------------------


class Credulous(Authenticator):
    """Lets everybody in."""

    def _rule(self, frames: list[bytes]) -> tuple[bytes, str, str]:
        return b"200", "OK", "anybody"


def test_a_broker_whose_authenticator_lets_strangers_in_does_not_start(context, ring, monkeypatch):
    monkeypatch.setattr(module, "Authenticator", Credulous)

    with pytest.raises(InternalError, match="was let in"):
        ZmqServer("tcp://127.0.0.1:*", context, security=CurveGuard(ring))


def test_a_broker_whose_authenticator_does_not_answer_does_not_start(context, ring, monkeypatch):
    monkeypatch.setattr(module, "_SELF_TEST", 0.3)
    monkeypatch.setattr(
        Authenticator, "_answer", lambda _self, _frames: time.sleep(0.5) or [b"", b"", b"", b"", b"", b""]
    )

    with pytest.raises(InternalError, match="got no answer"):
        ZmqServer("tcp://127.0.0.1:*", context, security=CurveGuard(ring))


def test_the_self_test_is_no_refusal(broker):
    assert broker.guard.refusals.total == 0


def test_one_context_has_one_guard(broker, context, ring):
    with pytest.raises(UsageError, match="authenticator already"):
        ZmqServer("tcp://127.0.0.1:*", context, security=CurveGuard(ring))


def test_a_second_broker_is_told_that_the_address_is_taken(broker, ring):
    with zmq.Context() as other, pytest.raises(AddressInUse):
        ZmqServer(broker.endpoint, other, security=CurveGuard(ring))


def test_keys_are_for_tcp_and_other_endpoints_do_without(context, ring):
    broker = ZmqServer("inproc://here", context, security=CurveGuard(ring))

    assert broker.guard is None
    broker.close(0.0)


@pytest.mark.parametrize("endpoint", ["tcp://*:*", "tcp://0.0.0.0:*", "tcp://[::]:7421", "tcp://192.168.1.10:7421"])
def test_an_address_that_others_reach_needs_keys(context, endpoint):
    with pytest.raises(InsecureEndpoint, match=r"ether keys new.*--insecure"):
        ZmqServer(endpoint, context)


def test_whoever_says_insecure_gets_it(context):
    ZmqServer("tcp://*:*", context, insecure=True).close(0.0)


def test_a_guarded_broker_listens_on_every_address(context, ring, alice):
    broker = ZmqServer("tcp://*:*", context, security=CurveGuard(ring))
    port = broker.endpoint.rpartition(":")[2]
    for host in ("127.0.0.1", "[::1]"):
        made = Peer(context, b"r" + ONE, alice, ring.own.public)
        made.socket.setsockopt(zmq.IPV6, 1)
        try:
            assert made.connect(f"tcp://{host}:{port}") is zmq.Event.HANDSHAKE_SUCCEEDED
        finally:
            made.close()
    broker.close(0.0)


# -- a new key ---------------------------------------------------------------------------------------------------


def test_a_new_key_takes_over_the_port_and_connections_under_the_former_one_go_on(broker, context, alice, ring):
    former = ring.own.public
    with peer(broker, context, b"r" + ONE, alice) as one:
        one.socket.send(b"before")
        receive(broker, 1)
        for _ in range(3):  # each rotation adds a listener, and the newest gets what comes
            ring.switch()
            wait_until(lambda: broker.receive(0.01) == [] and broker.guard._served == ring.own.public, 3.0)

            for _ in range(5):
                assert handshake(broker, context, alice) is zmq.Event.HANDSHAKE_SUCCEEDED
            assert handshake(broker, context, alice, former) is zmq.Event.HANDSHAKE_FAILED_NO_DETAIL
        one.socket.send(b"after")

        assert receive(broker, 1) == [(b"r" + ONE, b"after")]


def test_a_new_key_that_cannot_listen_leaves_the_former_in_use(broker, context, alice, monkeypatch, caplog):
    ring = broker.guard.keyring
    former = ring.own.public

    def fail(*_: object, **__: object) -> None:
        raise AddressInUse("taken")

    monkeypatch.setattr(module, "listen", fail)
    ring.switch()
    wait_until(lambda: broker.receive(0.01) == [] and "goes on with the former one" in caplog.text, 3.0)

    assert handshake(broker, context, alice, former) is zmq.Event.HANDSHAKE_SUCCEEDED


def test_while_the_keyring_cannot_be_read_nobody_new_gets_in_and_nobody_is_thrown_out(broker, context, alice, ring):
    keyring = broker.guard.keyring
    with peer(broker, context, b"r" + ONE, alice) as one:
        ring.folder.chmod(0o755)
        wait_until(lambda: keyring.find(alice.public) and keyring.trouble, 2.0)
        one.socket.send(b"still")
        assert receive(broker, 1) == [(b"r" + ONE, b"still")]

        late = Peer(context, b"r" + TWO, alice, ring.own.public)
        assert late.connect(broker.endpoint) is zmq.Event.HANDSHAKE_FAILED_NO_DETAIL
        ring.folder.chmod(0o700)
        late.socket.send(b"let in by libzmq's own next attempt")
        assert receive(broker, 1) == [(b"r" + TWO, b"let in by libzmq's own next attempt")]
        late.close()


def test_an_authenticator_that_has_a_bug_lets_nobody_in(broker, context, alice, monkeypatch, caplog):
    def fail(_key: str) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(broker.guard.keyring, "find", fail)

    assert handshake(broker, context, alice) is zmq.Event.HANDSHAKE_FAILED_NO_DETAIL
    assert "a bug" in caplog.text


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({0: b"2.0"}, b"500"),
        ({2: b"global"}, b"400"),
        ({2: b""}, b"400"),
        ({5: b"NULL"}, b"400"),
        ({5: b"PLAIN"}, b"400"),
        ({6: b"short"}, b"400"),
        ({6: b"x" * 32}, b"400"),
    ],
)  # fmt: skip
def test_the_authenticator_refuses_whatever_is_not_an_allowed_key_of_its_domain(broker, context, alice, change, status):
    from zmq.utils import z85

    frames = [b"1.0", b"7", b"ether", b"127.0.0.1", b"", b"CURVE", z85.decode(alice.public)]
    with context.socket(zmq.REQ) as asking:
        asking.setsockopt(zmq.LINGER, 0)
        asking.connect("inproc://zeromq.zap.01")
        asking.send_multipart(frames)
        allowed = asking.recv_multipart()
        asking.send_multipart([change.get(index, frame) for index, frame in enumerate(frames)])
        refused = asking.recv_multipart()
        asking.send(b"alone")
        alone = asking.recv_multipart()

    assert allowed[:3] == [b"1.0", b"7", b"200"]
    assert allowed[4] == alice.public.encode()
    assert refused[:3] == [b"1.0", b"7", status]
    assert refused[4] == b""
    assert alone[2] == b"500"
