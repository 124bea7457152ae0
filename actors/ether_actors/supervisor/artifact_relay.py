"""The relay of artifacts' bytes between nodes: FETCH to the node that has them, CHUNK to the one that asked. Sans-IO.

    node ── FETCH ──► fetch ──► the target's node          at most 32 of a node are without an answer
    node ◄── CHUNK ── chunk ◄── the target's node

The broker keeps who asked whom and no bytes but those under way. They are no messages of agents: neither the journal nor an
observer gets them. Whose file may be read is said by the key that the file's own node made; see docs/protocol.md, Artifacts.
"""

from __future__ import annotations

from typing import Final

from ether_actors.supervisor.state.broker_state import BrokerState
from ether_broker.envelope.payload import pack
from ether_broker.errors import ArtifactUnavailable, EtherError, InvalidEnvelope, TooMuch
from ether_broker.transport.session import Session
from ether_broker.wire.chunk import MOST_CHUNK, MOST_FETCH, MOST_OPEN
from ether_broker.wire.frame import Header, Kind, name_of, pack_envelope

__all__ = ["ArtifactRelay"]

_TOO_LARGE: Final = f"The node that has the artifact sent more bytes than a CHUNK may have: {MOST_CHUNK:,}."


class ArtifactRelay:
    """The part of the supervisor that passes the bytes of artifacts from node to node."""

    def __init__(self, state: BrokerState) -> None:
        self._table = state.session_table

    def fetch(self, session: Session, header: Header, envelope: bytes) -> None:
        """Pass a FETCH on to the node that is its target; one without a body takes back an earlier one.

        Raises:
            TooMuch: it is too large, or too many of the node's wait.
            InvalidEnvelope: its request id is that of another that waits.
        """
        request_id = header.request_id
        if len(envelope) == header.body:
            self._forget(session, request_id)
            return
        if len(envelope) - header.body > MOST_FETCH:
            raise TooMuch(f"FETCH has {len(envelope) - header.body:,} bytes, and {MOST_FETCH:,} is the most.")
        if len(session.fetches) >= MOST_OPEN:
            raise TooMuch(f"{MOST_OPEN} FETCHes of this node have no answer yet: say the next when one has.")
        node = name_of(header.target)
        server = self._table.find(node)
        if server is None:  # which is no fault of who asks, and so not counted as a refusal
            absent = ArtifactUnavailable(f"The node {node!r}, which offered the artifact, is not on the bus.")
            self._refuse(session, request_id, absent)
            return
        if request_id in session.fetches or request_id in server.serves:
            raise InvalidEnvelope("A FETCH with this request id waits already.")
        session.fetches[request_id] = server
        server.serves[request_id] = session
        self._table.send_aside(server, envelope)

    def chunk(self, session: Session, header: Header, envelope: bytes) -> None:
        """Pass a CHUNK on to the node that asked; what nobody asked, or not any more, is dropped."""
        asking = session.serves.get(header.request_id)
        if asking is None:
            return
        self._forget(asking, header.request_id)
        if len(envelope) - header.body > MOST_CHUNK:
            self._refuse(asking, header.request_id, TooMuch(_TOO_LARGE))
        else:
            self._table.send_aside(asking, envelope)

    def lost(self, session: Session) -> None:
        """Tell those that wait for a node that is gone, and forget what it waited for."""
        gone = ArtifactUnavailable(f"The node {session.node!r}, which offered the artifact, is gone from the bus.")
        for request_id, asking in list(session.serves.items()):
            self._forget(asking, request_id)
            self._refuse(asking, request_id, gone)
        for request_id in list(session.fetches):
            self._forget(session, request_id)

    def _forget(self, asking: Session, request_id: bytes) -> None:
        server = asking.fetches.pop(request_id, None)
        if server is not None:
            server.serves.pop(request_id, None)

    def _refuse(self, asking: Session, request_id: bytes, error: EtherError) -> None:
        body = pack({"code": error.code, "message": str(error)})
        self._table.send_aside(asking, pack_envelope(Kind.ERROR, request_id=request_id, body=body))
