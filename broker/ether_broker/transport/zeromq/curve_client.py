"""The node's side of a handshake: tries the broker's keys in turn, tries again later, and says why none succeeds.

A client of libzmq that is turned away by name (ZAP 400), or finds another mechanism at the other end, never tries
again by itself, and tells its user nothing; its monitor does.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from enum import Enum, unique
from typing import Any, Final

import zmq

from ether_broker.errors import AuthenticationFailed, BrokerUnavailable, EtherError, InvalidKey
from ether_broker.security.credentials import Credentials
from ether_broker.security.keys import fingerprint
from ether_broker.transport.zeromq.curve_server import secure_client
from ether_broker.transport.zeromq.handshake_monitor import read_event

__all__ = ["CurveClient", "Failure"]

_numbers: Final = itertools.count(1)
_FIRST: Final = 0.2
_LONGEST: Final = 5.0
"""Seconds between two attempts after a refusal: the first doubles up to this."""
_MISMATCH: Final = int(zmq.Event.PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)


@unique
class Failure(Enum):
    """The failure of the last handshake."""

    KEY = "ours is not allowed"
    SERVER_KEY = "the broker's is not what we expect"
    HUNG_UP = "the broker hung up, and we have no keys"
    MECHANISM = "one side has keys and the other has not"


class CurveClient:
    """The handshakes of one DEALER socket over TCP; belongs to whoever owns the socket at the moment.

    Args:
        endpoint: the broker's.
        credentials: None connects in the clear.
    """

    def __init__(self, endpoint: str, credentials: Credentials | None) -> None:
        self._endpoint = endpoint
        self._credentials = credentials
        self._socket: zmq.Socket[Any] | None = None
        self._monitor: zmq.Socket[Any] | None = None
        self._keys: tuple[str, ...] = () if credentials is None else credentials.server_keys()
        self._turn = 0
        self._pause = _FIRST
        self._again_at: float | None = None
        self.failure: Failure | None = None
        """How the last handshake failed; None when none has, or one has succeeded since."""

    def connect(self, socket: zmq.Socket[Any]) -> None:
        """Connect a new socket with the key whose turn it is; after `close`, if there was one before."""
        self._socket = socket
        # A name of its own: libzmq lets go of a closed socket's later.
        self._monitor = socket.get_monitor_socket(addr=f"inproc://ether-handshake-{next(_numbers)}")
        if self._credentials is not None:
            secure_client(socket, self._credentials.pair, self._keys[self._turn % len(self._keys)])
        socket.connect(self._endpoint)

    def look(self) -> bool:
        """Take note of how handshakes went; returns whether it is time to try again, with a new socket."""
        while self._monitor is not None and self._monitor.poll(0):
            self._note(*read_event(self._monitor))
        if self._again_at is None or time.monotonic() < self._again_at:
            return False
        self._again_at = None
        return True

    def _note(self, event: zmq.Event, value: int) -> None:
        if event == zmq.Event.HANDSHAKE_SUCCEEDED:
            self.failure, self._pause, self._again_at = None, _FIRST, None
        elif event == zmq.Event.HANDSHAKE_FAILED_AUTH:
            self._failed(Failure.KEY)
        elif event == zmq.Event.HANDSHAKE_FAILED_PROTOCOL and value == _MISMATCH:
            self._failed(Failure.MECHANISM)
        elif event == zmq.Event.HANDSHAKE_FAILED_NO_DETAIL:
            if self._credentials is not None:
                if self._again_at is None:  # else libzmq itself has tried the same key once more before we looked
                    self._next_key(self._credentials)
            else:  # perhaps it wants keys, and closed the connection before we had read that: look once more, soon
                self._pause = _FIRST
                self._failed(Failure.HUNG_UP)

    def _next_key(self, credentials: Credentials) -> None:
        """The broker hung up without a word, as one does that has another key; libzmq itself tries the same again."""
        with contextlib.suppress(InvalidKey):  # a file that is being replaced: what it said before still holds
            self._keys = credentials.server_keys()
        self._turn += 1
        self._failed(Failure.SERVER_KEY, at_once=self._turn % len(self._keys) != 0)

    def _failed(self, failure: Failure, *, at_once: bool = False) -> None:
        if self.failure is not Failure.MECHANISM:  # who sees that first hangs up, and it need not be we: it stays so
            self.failure = failure
        if self._again_at is None:
            self._again_at = time.monotonic() + (0.0 if at_once else self._pause)
            if not at_once:
                self._pause = min(2 * self._pause, _LONGEST)

    def explain(self) -> EtherError | None:
        """Why there is no connection, with the fix; None when the handshake is not known to be the reason."""
        where, credentials = self._endpoint, self._credentials
        match self.failure:
            case Failure.KEY if credentials is not None:
                pair = credentials.pair
                return AuthenticationFailed(
                    f"The broker at {where} does not let the key {pair.fingerprint} in: on its machine, "
                    f"`ether keys allow '{pair.public}' --name {pair.name or 'NAME'}`."
                )
            case Failure.SERVER_KEY:
                keys = ", ".join(map(fingerprint, self._keys))
                is_own = credentials is not None and self._keys == (credentials.pair.public,)
                what = (
                    f"the key {keys}, which is your own and was tried for the broker's" if is_own else f"the key {keys}"
                )
                return AuthenticationFailed(
                    f"The broker at {where} does not have {what}: give the one that `ether keys show` prints on its "
                    "machine, as --server-key or server_key."
                )
            case Failure.HUNG_UP:
                return BrokerUnavailable(
                    f"What listens at {where} hangs up during the handshake: is it a broker? If it wants keys, give --keys "
                    "and --server-key (in Python keys and server_key)."
                )
            case Failure.MECHANISM if credentials is None:
                return AuthenticationFailed(
                    f"The broker at {where} wants keys: `ether keys new`, have yours allowed there, and give --keys and "
                    "--server-key (in Python keys and server_key)."
                )
            case Failure.MECHANISM:
                return AuthenticationFailed(
                    f"The broker at {where} has no keys, so nothing would be encrypted: start it with --keys, or "
                    "connect without keys."
                )
            case _:
                return None

    def close(self) -> None:
        """Look no more; before the socket is closed, since libzmq's threads wait for ever on a monitor that nobody reads."""
        if self._monitor is not None and self._socket is not None:
            self._socket.disable_monitor()
            self._monitor.close(0)
            self._monitor = None
