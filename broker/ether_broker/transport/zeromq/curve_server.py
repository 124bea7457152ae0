"""The guard of a broker's socket: encrypts its TCP connections, and knows whose each is.

libzmq, at a handshake ──► Authenticator     may this key connect?
ZmqServer.receive   ──► CurveGuard.take        is this message of the key that its session belongs to?
the supervisor, HELLO  ──► CurveGuard.identify    whose connection is it, and which node may it be?
ZmqServer.receive   ──► CurveGuard.renew       has the broker a new key of its own?
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import OrderedDict
from typing import Any, Final

import zmq

from ether_broker.errors import EtherError, InternalError
from ether_broker.security.identity import Identity
from ether_broker.security.keyring import RELOAD, Keyring
from ether_broker.security.keys import KeyPair, fingerprint
from ether_broker.transport.refusal_log import RefusalLog
from ether_broker.transport.zeromq.authenticator import DOMAIN, Authenticator
from ether_broker.transport.zeromq.handshake_monitor import read_event
from ether_broker.transport.zeromq.listener import listen

__all__ = ["CurveGuard"]

logger = logging.getLogger("ether.security")

_Socket = zmq.Socket[Any]
_MOST_INCARNATIONS: Final = 65_536
"""Incarnations whose keys are remembered; the one that was silent longest makes room, and is learnt again."""
_SELF_TEST: Final = 5.0
_USER: Final = "User-Id"
_EVERYWHERE: Final = {"*": "127.0.0.1", "0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104  only looked up


class CurveGuard:
    """The guard of a broker's ZeroMQ socket: CURVE keys and the identity of each connection; in the socket's thread.

    Promises: nobody whose key is not allowed gets a message through, from the moment in which the keyring says so;
    a message counts only if it came over a connection with the key that its incarnation had first. What was taken
    away here is counted in `refusals`.

    Args:
        keyring: the broker's own pair, and whom it lets in.
        refusals: where refusals are counted; shared with the session table.
    """

    def __init__(self, keyring: Keyring, refusals: RefusalLog | None = None) -> None:
        self.keyring = keyring
        self.refusals: RefusalLog = refusals or RefusalLog()
        self._keys: OrderedDict[bytes, str] = OrderedDict()
        self._authenticator: Authenticator | None = None
        self._host = ""
        self._port = 0
        self._listeners = 0
        self._served = ""
        self._renew_at = 0.0

    # -- the socket's life ---------------------------------------------------------------------------------------

    def bind(self, socket: _Socket, endpoint: str, context: zmq.Context[Any]) -> str:
        """Bind a TCP endpoint so that only allowed keys get in, prove it, and return the address with its port.

        Raises:
            AddressInUse, InvalidEndpoint: as `listen`.
            UsageError: the context is guarded already.
            InternalError: a key that nobody has allowed was let in, or there was no answer: the broker must not start.
        """
        self._authenticator = Authenticator(context, self.keyring, self.refusals)
        try:
            host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
            self._host, self._port = host, 0 if port == "*" else int(port)
            bound = self._listen(socket)
            self._port = int(bound.rpartition(":")[2])
            self._prove(context)
        except BaseException:
            self.close()
            raise
        return bound

    def _listen(self, socket: _Socket) -> str:
        own = self.keyring.own
        _secure(socket, own)
        with contextlib.closing(listen(self._host, self._port, before=self._listeners)) as listener:
            port = listener.getsockname()[1]
            socket.setsockopt(zmq.USE_FD, listener.fileno())
            socket.bind(f"tcp://{self._host}:{port}")
            listener.detach()  # it is libzmq's now
            socket.setsockopt(zmq.USE_FD, -1)
        self._listeners += 1
        self._served = own.public
        bound: str = socket.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\0")
        return bound

    def _prove(self, context: zmq.Context[Any]) -> None:
        """Knock with a key that nobody knows: it must be turned away."""
        assert self._authenticator is not None
        stranger = KeyPair.new()
        self._authenticator.expected = stranger.public
        with context.socket(zmq.DEALER) as knocking:
            knocking.setsockopt(zmq.LINGER, 0)
            knocking.setsockopt(zmq.IPV6, 1)
            secure_client(knocking, stranger, self._served)
            with contextlib.closing(knocking.get_monitor_socket()) as monitor:
                knocking.connect(f"tcp://{_EVERYWHERE.get(self._host, self._host)}:{self._port}")
                answer = _handshake(monitor)
                knocking.disable_monitor()
        if answer is not zmq.Event.HANDSHAKE_FAILED_AUTH:
            found = "was let in" if answer is zmq.Event.HANDSHAKE_SUCCEEDED else "got no answer"
            raise InternalError(f"The broker does not start: in its self-test a key that nobody has allowed {found}.")

    def renew(self, socket: _Socket) -> None:
        """Take up a new key of the broker's own: new connections need it, those that are there go on."""
        now = time.monotonic()
        if now < self._renew_at:
            return
        self._renew_at = now + RELOAD
        if self.keyring.own.public == self._served:
            return
        try:
            self._listen(socket)
        except (EtherError, zmq.ZMQError) as error:
            self._renew_at = now + 10.0
            logger.error("the broker's new key cannot be used yet (%s); it goes on with the former one", error)  # noqa: TRY400
        else:
            logger.info("the broker's key is %s now", fingerprint(self._served))

    def close(self) -> None:
        """End the authenticator."""
        if self._authenticator is not None:
            self._authenticator.close()
            self._authenticator = None

    # -- messages ------------------------------------------------------------------------------------------------

    def take(self, socket: _Socket, routing_id: bytes) -> bytes | None:
        """Receive the frame behind a routing id; None for one that does not count.

        The key is that of the connection, which the peer has proved in its handshake; nothing that the peer writes is
        believed.
        """
        frame = socket.recv(zmq.NOBLOCK, copy=False)
        try:
            key: str = frame.get(_USER)  # type: ignore[assignment]
        except zmq.ZMQError:  # came over inproc: the broker's own waker
            return frame.bytes
        incarnation = routing_id[1:]
        known = self._keys.get(incarnation)
        if self.keyring.find(key) is None:
            self.refusals.note(fingerprint(key), "revoked_key", "its key was revoked")
            return None
        if known is None:
            if len(self._keys) >= _MOST_INCARNATIONS:
                self._keys.popitem(last=False)
            self._keys[incarnation] = key
        elif known != key:
            self.refusals.note(fingerprint(key), "wrong_key", "the message is in the name of another key's session")
            return None
        else:
            self._keys.move_to_end(incarnation)
        return frame.bytes

    def key_of(self, routing_id: bytes) -> str:
        """The key of a connection; "" when no message of it has counted."""
        return self._keys.get(routing_id[1:], "")

    def identify(self, routing_id: bytes) -> Identity | None:
        """Whose connection it is; None when no message of it has counted."""
        key = self._keys.get(routing_id[1:])
        return None if key is None else Identity(key, self.keyring)


def secure_client(socket: _Socket, pair: KeyPair, server_key: str) -> None:
    """Make what the socket connects next encrypted, with this key at the other end."""
    socket.setsockopt(zmq.CURVE_PUBLICKEY, pair.public.encode())
    socket.setsockopt(zmq.CURVE_SECRETKEY, pair.secret.encode())
    socket.setsockopt(zmq.CURVE_SERVERKEY, server_key.encode())


def _secure(socket: _Socket, pair: KeyPair) -> None:
    """Make what the socket binds next encrypted; what it has bound keeps its key."""
    socket.setsockopt(zmq.ZAP_DOMAIN, DOMAIN)
    socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
    socket.setsockopt(zmq.CURVE_SERVER, 1)
    socket.setsockopt(zmq.CURVE_PUBLICKEY, pair.public.encode())
    socket.setsockopt(zmq.CURVE_SECRETKEY, pair.secret.encode())


def _handshake(monitor: _Socket) -> zmq.Event | None:
    """How the first handshake of a monitored socket ends; None when nothing was said of it in time."""
    wanted = (zmq.Event.HANDSHAKE_FAILED_AUTH, zmq.Event.HANDSHAKE_SUCCEEDED)
    limit = time.monotonic() + _SELF_TEST
    while (left := limit - time.monotonic()) > 0 and monitor.poll(int(left * 1000) + 1):
        event, _ = read_event(monitor)
        if event in wanted:
            return event
    return None
