"""Links with keys, and without those that it would take."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import zmq

from ether_broker.errors import AuthenticationFailed, InvalidKey
from ether_broker.security.credentials import Credentials
from ether_broker.security.keyring import Keyring
from ether_broker.security.keys import KeyPair
from ether_broker.transport.zeromq.curve_client import CurveClient
from ether_broker.transport.zeromq.curve_server import CurveGuard
from ether_broker.transport.zeromq.link import ZmqLink
from ether_broker.transport.zeromq.reconnect_policy import PAUSE
from ether_broker.transport.zeromq.server import ZmqServer
from tests.support import wait_until


@contextmanager
def linked(endpoint: str, credentials: Credentials | None) -> Iterator[ZmqLink]:
    with zmq.Context() as context:
        link = ZmqLink(endpoint, context, security=credentials)
        try:
            yield link
        finally:
            link.close(0.0)


def arrives(link: ZmqLink, broker: ZmqServer) -> bool:
    """Whether a greeting comes through now."""
    link.first(0.01)
    link.greet(b"hello")
    return bool(broker.receive(0.05))


def told(link: ZmqLink, part: str) -> str:
    """Wait until the link knows why it has no connection, in words that have this part."""

    def known() -> str:
        link.first(0.01)
        error = link.explain()
        return str(error) if isinstance(error, AuthenticationFailed) and part in str(error) else ""

    return wait_until(known, 40.0, part)


class Nobody:
    """A receiver that nothing comes to."""

    def received(self, envelopes: list[bytes]) -> None:
        raise AssertionError(envelopes)

    def ticked(self) -> float:
        return 0.1


def test_a_link_with_an_allowed_key_gets_through(broker, alice, ring):
    with linked(broker.endpoint, Credentials.of(alice, ring.own.public)) as link:
        wait_until(lambda: arrives(link, broker), 40.0)

        assert link.explain() is None


def test_a_server_key_that_fails_twice_before_that_is_seen_passes_no_other_over(alice):
    keys = [KeyPair.new().public for _ in range(4)]
    client = CurveClient("tcp://127.0.0.1:1", Credentials.of(alice, keys))
    tried = []
    for _ in keys:
        tried.append(client._keys[client._turn % len(keys)])
        for _ in range(2):  # libzmq tries again by itself
            client._note(zmq.Event.HANDSHAKE_FAILED_NO_DETAIL, 0)
        client._again_at = None  # as when it is tried anew

    assert tried == keys


@pytest.mark.parametrize("role", [b"r", b"t"])
def test_a_connection_is_looked_at_no_more_before_its_socket_is_closed(broker, alice, ring, role, monkeypatch):
    """A thread of libzmq that tells a monitor something which nobody reads waits for ever, and no other connection is made."""
    closed = []
    close = CurveClient.close

    def noting(client: CurveClient) -> None:
        if client._socket is not None:
            closed.append(client._socket.closed)
        close(client)

    monkeypatch.setattr(CurveClient, "close", noting)
    with linked(broker.endpoint, Credentials.of(alice, ring.own.public)) as link:
        renewing = threading.Thread(target=link._renew, args=(role, PAUSE))
        renewing.start()
        while (
            renewing.is_alive()
        ):  # a broker that does not read learns that the old one has gone after it has refused the new one
            broker.receive(0.01)
        assert closed == [False]
        wait_until(lambda: arrives(link, broker), 40.0)


def test_of_several_server_keys_the_one_that_fits_is_found(broker, alice, ring):
    others = [KeyPair.new().public for _ in range(3)]
    with linked(broker.endpoint, Credentials.of(alice, [*others, ring.own.public])) as link:
        wait_until(lambda: arrives(link, broker), 40.0)


def test_a_wrong_server_key_is_told_with_its_fingerprint(broker, alice):
    other = KeyPair.new()
    with linked(broker.endpoint, Credentials.of(alice, other.public)) as link:
        told(link, other.fingerprint)


def test_a_key_that_is_not_allowed_is_told_with_the_command_that_allows_it(broker, ring):
    pair = KeyPair.new("mallory")
    with linked(broker.endpoint, Credentials.of(pair, ring.own.public)) as link:
        said = told(link, f"ether keys allow '{pair.public}' --name mallory")

    assert pair.secret not in said


def test_a_key_that_is_allowed_later_gets_through_by_itself(broker, ring):
    pair = KeyPair.new("late")
    with linked(broker.endpoint, Credentials.of(pair, ring.own.public)) as link:
        told(link, "ether keys allow")
        ring.allow(pair.public, "late")

        wait_until(lambda: arrives(link, broker), 40.0)
        assert link.explain() is None


def test_no_keys_where_the_broker_wants_some_are_told(broker):
    with linked(broker.endpoint, None) as link:
        told(link, "wants keys")


def test_keys_where_the_broker_has_none_are_told(context, alice):
    plain = ZmqServer("tcp://127.0.0.1:*", context)
    with linked(plain.endpoint, Credentials.of(alice, alice.public)) as link:
        told(link, "nothing would be encrypted")
    plain.close(0.0)


def test_where_nobody_listens_keys_are_not_blamed(alice):
    with linked("tcp://127.0.0.1:1", Credentials.of(alice, alice.public)) as link:
        link.first(0.3)

        assert link.explain() is None


def test_something_that_hangs_up_may_be_a_broker_that_wants_keys():
    """A listener that closes each connection, as a broker with keys may before its greeting was read."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            with contextlib.suppress(OSError):
                while True:
                    listener.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        with linked(f"tcp://127.0.0.1:{listener.getsockname()[1]}", None) as link:

            def known() -> str:
                link.first(0.01)
                return str(link.explain() or "")

            assert "If it wants keys" in wait_until(known, 40.0)
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5.0)


def test_keys_are_ignored_where_no_network_is(tmp_path, context, alice):
    broker = ZmqServer(f"ipc://{tmp_path}/b.sock", context)
    with linked(broker.endpoint, Credentials.of(alice, alice.public)) as link:
        wait_until(lambda: arrives(link, broker), 40.0)
    broker.close(0.0)


def test_an_open_link_finds_the_new_key_of_a_broker_that_came_back(ring, alice, tmp_path):
    """The server key is a file, which is replaced meanwhile; the broker ends and comes back with another key."""
    file = tmp_path / "broker.key"
    file.write_text(ring.own.shared.file_text())
    with zmq.Context() as first:
        broker = ZmqServer("tcp://127.0.0.1:*", first, security=CurveGuard(ring))
        endpoint = broker.endpoint
        with linked(endpoint, Credentials.of(alice, file)) as link:
            wait_until(lambda: arrives(link, broker), 40.0)
            link.begin(1, lambda left: left)
            link.open(Nobody())
            broker.close(0.0)
            file.write_text(ring.switch().shared.file_text())
            with zmq.Context() as second:
                again = ZmqServer(endpoint, second, security=CurveGuard(Keyring(ring.folder)))

                def sent() -> bool:
                    link.send(b"hello")
                    return bool(again.receive(0.05))

                wait_until(sent, 40.0)
                again.close(0.0)


def test_a_plain_link_watches_no_handshakes_once_it_is_open(context):
    broker = ZmqServer("tcp://127.0.0.1:*", context)
    with linked(broker.endpoint, None) as link:
        wait_until(lambda: arrives(link, broker), 40.0)
        link.open(Nobody())

        assert link._handshakes == {}
    broker.close(0.0)


# -- credentials -------------------------------------------------------------------------------------------------


def test_credentials_of_a_folder_believe_its_own_key_and_the_next(ring):
    credentials = Credentials.of(ring.folder)
    prepared = ring.prepare()

    assert credentials.pair == ring.own
    wait_until(lambda: credentials.server_keys() == (ring.own.public, prepared.public), 1.0)


def test_server_keys_are_texts_or_files_in_a_list_or_with_commas(ring: Keyring, tmp_path: Path):
    one, two = KeyPair.new(), KeyPair.new()
    file = tmp_path / "two.key"
    file.write_text(two.shared.file_text())
    wanted = (one.public, two.public)

    for given in ([one.public, file], (one.public, str(file)), f"{one.public}, {file}"):
        assert Credentials.of(ring, given).server_keys() == wanted
    assert Credentials.of(ring, file).server_keys() == (two.public,)


@pytest.mark.parametrize("given", ["nonsense", "/no/such/file.key"])
def test_a_server_key_that_is_none_is_refused_at_once(ring, given):
    with pytest.raises(InvalidKey):
        Credentials.of(ring, given)


def test_a_pair_alone_does_not_say_which_broker_to_believe(alice: Any):
    with pytest.raises(InvalidKey, match="server_key"):
        Credentials.of(alice)


def test_what_is_shown_of_credentials_has_no_secret(alice):
    credentials = Credentials.of(alice, alice.public)

    assert alice.fingerprint in repr(credentials)
    assert alice.secret not in repr(credentials)
