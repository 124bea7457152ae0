"""The authenticator of libzmq's connections (ZAP, ZeroMQ RFC 27), in a thread of its own.

It fails closed. libzmq is told to ask for every handshake (`ZAP_ENFORCE_DOMAIN`), so where nobody answers nobody gets in;
and what here raises, or finds the keyring unreadable, is answered "later" (300), which lets nobody in either.
pyzmq's own authenticator runs an event loop in its thread and says 400 to what is only a trouble of the moment, after
which a client of libzmq never tries again.
"""

from __future__ import annotations

import logging
import threading
from typing import Final

import zmq
from zmq.utils import z85

from ether_broker.errors import UsageError
from ether_broker.security.keyring import Keyring
from ether_broker.security.keys import fingerprint
from ether_broker.transport.refusal_log import RefusalLog

__all__ = ["DOMAIN", "Authenticator"]

logger = logging.getLogger("ether.security")

DOMAIN: Final = b"ether"
_ENDPOINT: Final = "inproc://zeromq.zap.01"
_VERSION: Final = b"1.0"
_TURN: Final = 100
"""Milliseconds after which it looks whether it is to end."""
_FRAMES: Final = 7
"""Version, request id, domain, address, routing id, mechanism, the client's key."""
_KEY: Final = 32
_Ruling = tuple[bytes, str, str]


class Authenticator:
    """The ZAP handler of one context; runs from when it is made until `close`.

    Args:
        context: whose sockets ask it.
        keyring: which keys may connect.
        refusals: counts the others.

    Raises:
        UsageError: the context has a handler already.
    """

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], keyring: Keyring, refusals: RefusalLog) -> None:
        self._keyring = keyring
        self._refusals = refusals
        self._closing = False
        self.expected = ""
        """A key that is refused without a word: that of the self-test."""
        self._socket = context.socket(zmq.REP)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.RCVTIMEO, _TURN)
        try:
            self._socket.bind(_ENDPOINT)
        except zmq.ZMQError as error:
            self._socket.close(0)
            raise UsageError("This ZeroMQ context has an authenticator already: give each broker its own.") from error
        self._thread = threading.Thread(target=self._run, name="ether-authenticator", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._closing:
                try:
                    frames = self._socket.recv_multipart()
                except zmq.Again:
                    continue
                self._socket.send_multipart(self._answer(frames))
        except zmq.ZMQError as error:  # the context was destroyed under us
            logger.debug("the authenticator ends: %s", error)
        finally:
            self._socket.close(0)

    def _answer(self, frames: list[bytes]) -> list[bytes]:
        try:
            status, text, user = self._rule(frames)
        except Exception:
            logger.exception("the authenticator has a bug; the connection is refused")
            status, text, user = b"300", "internal error", ""
        request = frames[1] if len(frames) > 1 else b""
        return [_VERSION, request, status, text.encode(), user.encode(), b""]

    def _rule(self, frames: list[bytes]) -> _Ruling:
        if len(frames) != _FRAMES or frames[0] != _VERSION:
            return b"500", "not understood", ""
        _, _, domain, address, _, mechanism, key = frames
        if domain != DOMAIN or mechanism != b"CURVE" or len(key) != _KEY:
            return b"400", "not this domain", ""
        text = z85.encode(key).decode()
        if self._keyring.find(text) is None:
            if text != self.expected:
                self._note(text, address)
            return (b"300", "later", "") if self._keyring.trouble else (b"400", "unknown key", "")
        if self._keyring.trouble:
            self._refusals.note("", "keyring_unreadable", self._keyring.trouble)
            return b"300", "later", ""
        return b"200", "OK", text

    def _note(self, key: str, address: bytes) -> None:
        detail = f"the key {fingerprint(key)} ({key}) is not allowed: `ether keys allow` lets it in"
        self._refusals.note(address.decode(errors="replace"), "unknown_key", detail)

    def close(self) -> None:
        """End the thread; nobody new gets in afterwards."""
        self._closing = True
        self._thread.join(2.0)
