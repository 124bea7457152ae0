"""The broker's routing: which peer is which node, what waits for it, and whether it still lives. Sans-IO.

A node has two sockets on the broker's one ROUTER: `r` + incarnation, on which it listens and says HELLO, and `t` +
incarnation, on which it talks. The incarnation is random, so a peer cannot take another's place.

    shell                       Router                            supervisor
      |-- arrive(id, frame) ----->| session, envelopes --------------->| rules on them
      |<- outgoing() frames ------|<-------- send(session, envelope) --|
      |-- unreachable(id) ------->| lost sessions: expire() ---------->| ends their work
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from ether_broker.errors import EtherError
from ether_broker.ids import NO_ID
from ether_broker.payload import pack
from ether_broker.tap import Cursor
from ether_broker.wire import Kind, join_frame, pack_envelope, read_header, split_frame, take_frame

__all__ = ["HEARTBEAT", "SILENCE", "Router", "Session"]

logger = logging.getLogger("ether.broker")

HEARTBEAT: Final = 1.0
"""Seconds between signs of life, both ways."""
SILENCE: Final = 3.0
"""Seconds without any sign of life after which a node is lost."""
INCARNATION: Final = 16
"""Bytes of a node's random incarnation."""
_OUTBOX: Final = 128 << 20


@dataclass(eq=False, slots=True)
class Session:
    """One incarnation of a node."""

    node: str
    incarnation: bytes
    heard: float
    """When it last gave a sign of life, in seconds by the broker's clock."""
    info: dict[str, object] = field(default_factory=dict)
    """What it says of itself: host, pid, version."""
    agents: set[bytes] = field(default_factory=set)
    """Agents that it registered; it speaks for no others (G6)."""
    cursors: dict[bytes, Cursor] = field(default_factory=dict)
    """How far each of its observers is: {token: cursor}."""
    draining: bool = False
    lost: str = ""
    """Why it is gone; empty while it is there."""
    outbox: deque[bytes] = field(default_factory=deque)
    outbox_bytes: int = 0
    blocked: bool = False
    """The socket has no room for it at the moment."""

    receiver: bytes = b""
    """Routing id of the socket on which it listens."""

    def __post_init__(self) -> None:
        """Derive the routing id once; it is needed for every envelope."""
        self.receiver = b"r" + self.incarnation


class Router:
    """Sessions and what waits for them."""

    def __init__(self) -> None:
        self._sessions: dict[bytes, Session] = {}
        self._names: dict[str, Session] = {}
        self._ready: dict[bytes, Session] = {}
        self._lost: list[Session] = []
        self._strangers: deque[tuple[bytes, bytes]] = deque(maxlen=1000)
        self.refused = 0
        """Messages that were no frames, or came from peers without a session."""

    @property
    def sessions(self) -> list[Session]:
        """The nodes that are in, in the order in which they came."""
        return list(self._names.values())

    def arrive(self, routing_id: bytes, message: bytes, now: float) -> tuple[Session | None, list[bytes]]:
        """Take a message apart and say whose it is.

        A message that is no frame is counted and answered with ERROR; it changes nothing else.

        Returns:
            The session, or None for a peer that has none yet, with the envelopes.
        """
        session = self._sessions.get(routing_id)
        try:
            envelopes = split_frame(message)
        except EtherError as error:
            self.refuse(routing_id, error)
            return session, []
        if session is not None:
            session.heard = now
        return session, envelopes

    def refuse(self, routing_id: bytes, error: EtherError, request_id: bytes = NO_ID) -> None:
        """Count a message that cannot be taken and tell the peer why, if it listens."""
        self.refused += 1
        if self.refused.bit_count() == 1:
            logger.warning("refused message %d of a peer: %s", self.refused, error)
        body = pack({"code": error.code, "message": str(error)})
        receiver = b"r" + routing_id[1:]
        self._strangers.append((receiver, join_frame([pack_envelope(Kind.ERROR, request_id=request_id, body=body)])))

    def open(self, routing_id: bytes, node: str, info: dict[str, object], now: float) -> Session:
        """Let a node in.

        Raises:
            ValueError: the name is taken, or the routing id is not a node's; the message is for the node.
        """
        incarnation = routing_id[1:]
        if routing_id[:1] != b"r" or len(incarnation) != INCARNATION:
            msg = f"HELLO came on routing id {routing_id[:32]!r}, which is not 'r' and {INCARNATION} random bytes."
            raise ValueError(msg)
        known = self._sessions.get(routing_id)
        if known is not None:
            return known
        same = self._names.get(node)
        if same is not None and same.draining:
            self.close(same, "it left")
        elif same is not None:
            msg = f"A node named {node!r} is in already: choose another name."
            raise ValueError(msg)
        session = Session(node, incarnation, now, info)
        self._sessions[session.receiver] = self._sessions[b"t" + incarnation] = session
        self._names[node] = session
        return session

    def reject(self, routing_id: bytes, envelope: bytes) -> None:
        """Answer a peer that has no session."""
        self._strangers.append((routing_id, join_frame([envelope])))

    def close(self, session: Session, reason: str) -> None:
        """Forget a node; it is among the next `expire()` unless it has been forgotten before."""
        if session.lost:
            return
        session.lost = reason
        for key in (session.receiver, b"t" + session.incarnation):
            self._sessions.pop(key, None)
        self._names.pop(session.node, None)
        self._ready.pop(session.receiver, None)
        session.outbox.clear()
        self._lost.append(session)

    def send(self, session: Session, envelope: bytes) -> None:
        """Put an envelope into a node's outbox; what is sent to a lost node is dropped."""
        if session.lost:
            return
        session.outbox.append(envelope)
        session.outbox_bytes += len(envelope)
        self._ready[session.receiver] = session
        if session.outbox_bytes > _OUTBOX:
            self.close(session, f"does not read: {session.outbox_bytes:,} bytes wait for it")

    def outgoing(self) -> Iterator[tuple[bytes, bytes]]:
        """The frames to send now: (routing id, frame). Give back with `undelivered` what the socket did not take."""
        while self._strangers:
            yield self._strangers.popleft()
        while self._ready:
            receiver, session = self._ready.popitem()
            outbox = session.outbox
            while outbox and not session.blocked:
                envelopes, size = take_frame(outbox)
                session.outbox_bytes -= size
                yield receiver, join_frame(envelopes)

    def undelivered(self, routing_id: bytes, frame: bytes) -> None:
        """Put a frame back that the socket had no room for; it goes first next time."""
        session = self._sessions.get(routing_id)
        if session is None:
            return
        session.blocked = True
        envelopes = split_frame(frame)
        session.outbox.extendleft(reversed(envelopes))
        session.outbox_bytes += sum(map(len, envelopes))

    def retry(self) -> None:
        """Make every session whose outbox waits ready again."""
        for session in self._names.values():
            session.blocked = False
            if session.outbox:
                self._ready[session.receiver] = session

    def unreachable(self, routing_id: bytes) -> None:
        """Note that the socket knows no such peer any more: its process has ended."""
        session = self._sessions.get(routing_id)
        if session is not None:
            self.close(session, "its connection is gone")

    @property
    def has_lost(self) -> bool:
        """Whether a session was lost since the last `expire`."""
        return bool(self._lost)

    def expire(self, now: float) -> list[Session]:
        """The sessions that were lost since the last call, those silent for `SILENCE` seconds included."""
        for session in list(self._names.values()):
            if now - session.heard > SILENCE:
                self.close(session, f"silent for {now - session.heard:.1f} s")
        lost, self._lost = self._lost, []
        return lost


def topic_of(envelope: bytes) -> bytes:
    """The capability that an envelope is about; what observers filter by."""
    return read_header(envelope).capability
