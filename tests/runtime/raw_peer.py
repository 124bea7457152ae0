"""A peer of the bus made of bare sockets, which can say what no well-behaved node would."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, Self

import zmq

from ether_broker.envelope.ids import new_id
from ether_broker.envelope.payload import pack, unpack
from ether_broker.wire.frame import Header, Kind, join_frame, pack_envelope, read_frame, read_header


class RawPeer:
    """Two DEALER sockets and no manners."""

    def __init__(self, endpoint: str) -> None:
        self._context = zmq.Context()
        incarnation = os.urandom(16)
        self.listen, self.talk = (self._socket(endpoint, role + incarnation) for role in (b"r", b"t"))

    def _socket(self, endpoint: str, identity: bytes) -> zmq.Socket[bytes]:
        socket = self._context.socket(zmq.DEALER)
        socket.setsockopt(zmq.IDENTITY, identity)
        socket.setsockopt(zmq.LINGER, 1000)
        socket.connect(endpoint)
        return socket

    def hello(self, node: str, **info: Any) -> Header:
        body = pack({"node": node, **info})
        self.listen.send(join_frame([pack_envelope(Kind.HELLO, request_id=new_id(), body=body)]))
        return self.expect(Kind.WELCOME, Kind.ERROR)[0]

    def register(self, agent: str, *capabilities: str) -> Header:
        body = pack({"capabilities": [{"name": name} for name in capabilities]})
        self.send(pack_envelope(Kind.REGISTER, request_id=new_id(), source=agent.encode(), body=body))
        return self.expect(Kind.REGISTERED, Kind.ERROR)[0]

    def send(self, *envelopes: bytes) -> None:
        self.talk.send(join_frame(envelopes))

    def expect(self, *kinds: Kind) -> tuple[Header, dict[str, Any]]:
        """The next envelope of one of the kinds, and its body."""
        while self.listen.poll(5000):
            for envelope in read_frame(self.listen.recv()).envelopes:
                header = read_header(envelope)
                if header.kind in kinds:
                    body = envelope[header.body :]
                    return header, unpack(body) if body else {}
        msg = f"nothing of {kinds} came within 5 s"
        raise AssertionError(msg)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.listen.close()
        self.talk.close()
        self._context.term()
