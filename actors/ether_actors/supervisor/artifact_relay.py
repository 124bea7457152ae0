"""The relay of artifacts' bytes between nodes: FETCH to the node that has them, CHUNK to the one that asked. Sans-IO.

    node ── FETCH ──► fetch ──► waits ──► the target's node    of a node 32 are without an answer, and 32 at the node it asks
    node ◄── CHUNK ── chunk ◄──────────── the target's node

What waits for a node is passed on in turn for each node that asks. A node that asks may have as many of those 32 as are free,
half if it is alone, so that the next one has room at once; those whose last FETCH had no valid key count as one together. The
broker keeps no bytes but those under way. They are no messages of agents: neither the journal nor an observer gets them.
Whose file may be read is said by the key that the file's own node made; see docs/protocol.md, Artifacts.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from ether_actors.supervisor.state.broker_state import BrokerState
from ether_broker.envelope.payload import pack
from ether_broker.envelope.status import Status
from ether_broker.errors import ArtifactUnavailable, EtherError, InvalidEnvelope, TooMuch
from ether_broker.transport.sessions.cost import REFUSAL
from ether_broker.transport.sessions.session import Fetch, Session
from ether_broker.wire.chunk import MOST_CHUNK, MOST_FETCH, MOST_OPEN
from ether_broker.wire.frame import Header, Kind, name_of, pack_envelope

__all__ = ["ArtifactRelay"]

_TWICE: Final = "A FETCH with this request id waits already."
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
            self._take_back(session, request_id)
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
            raise InvalidEnvelope(_TWICE)
        session.fetches[request_id] = Fetch(request_id, session, server)
        server.fetched.setdefault(session, {})[request_id] = envelope
        self._pass_on(server)

    def chunk(self, session: Session, header: Header, envelope: bytes) -> None:
        """Pass a CHUNK on to the node that asked; what nobody asked, or not any more, is dropped."""
        fetch = session.serves.pop(header.request_id, None)
        if fetch is None:
            return
        if header.status != Status.COMPLETED.code:
            fetch.asking.input.spend(REFUSAL)
        fetch.asking.has_no_key = header.status == Status.REJECTED_CONTEXT.code
        if fetch.is_wanted:
            del fetch.asking.fetches[fetch.request_id]
            if len(envelope) - header.body > MOST_CHUNK:
                self._refuse(fetch.asking, fetch.request_id, TooMuch(_TOO_LARGE))
            else:
                self._table.send_aside(fetch.asking, envelope)
        self._pass_on(session)

    def lost(self, session: Session) -> None:
        """Tell those that wait for a node that is gone, and forget what it waited for."""
        for request_id in list(session.fetches):
            self._take_back(session, request_id)
        gone = ArtifactUnavailable(f"The node {session.node!r}, which offered the artifact, is gone from the bus.")
        waiting = [asking.fetches[request_id] for asking, waits in session.fetched.items() for request_id in waits]
        for fetch in (*session.serves.values(), *waiting):
            if fetch.is_wanted:
                del fetch.asking.fetches[fetch.request_id]
                self._refuse(fetch.asking, fetch.request_id, gone)
        session.serves.clear()
        session.fetched.clear()

    def _take_back(self, asking: Session, request_id: bytes) -> None:
        """Forget what a node asked; the node that it was passed on to has no room for another until it has answered it."""
        fetch = asking.fetches.pop(request_id, None)
        if fetch is None:
            return
        fetch.is_wanted = False
        waiting = fetch.server.fetched.get(asking, {})
        if waiting.pop(request_id, None) is not None and not waiting:
            del fetch.server.fetched[asking]

    def _pass_on(self, server: Session) -> None:
        """Give a node what waits for it, as far as it has room: one of each node that asks, and again."""
        if not server.fetched or len(server.serves) >= MOST_OPEN:
            return
        given = Counter(_share(fetch.asking) for fetch in server.serves.values())
        while True:
            free = MOST_OPEN - len(server.serves)
            asking = next((session for session in server.fetched if given[_share(session)] < free), None)
            if asking is None:
                return
            waiting = server.fetched.pop(asking)
            request_id = next(iter(waiting))
            envelope = waiting.pop(request_id)
            if waiting:
                server.fetched[asking] = waiting  # behind the others
            if request_id in server.serves:  # of another node's, which was passed on before
                del asking.fetches[request_id]
                self._refuse(asking, request_id, InvalidEnvelope(_TWICE))
                continue
            given[_share(asking)] += 1
            server.serves[request_id] = asking.fetches[request_id]
            self._table.send_aside(server, envelope)

    def _refuse(self, asking: Session, request_id: bytes, error: EtherError) -> None:
        asking.input.spend(REFUSAL)
        body = pack({"code": error.code, "message": str(error)})
        self._table.send_aside(asking, pack_envelope(Kind.ERROR, request_id=request_id, body=body))


def _share(asking: Session) -> Session | None:
    """Whose share of a node's room an asker uses: its own, or that of all who have no key."""
    return None if asking.has_no_key else asking
