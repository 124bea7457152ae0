"""The supervisor: one step takes what arrived, rules on it, and leaves the answers in the outboxes. Sans-IO.

who calls whom       SupervisorActor ── step(arrivals, now) ──► Supervisor
                                                                   │ by the envelope's kind
                     Rulings         delegations, responses  ◄─────┤
                     Membership      nodes, agents, watchers ◄─────┤
                     Administration  `ether.*`               ◄─────┘
                     all of them     ──► Records: Router, Registry, Ledger, DeadLetters, Tap
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from ether_actors.administration import PREFIX, Administration
from ether_actors.membership import Membership
from ether_actors.records import Records
from ether_actors.rulings import Rulings
from ether_broker.errors import EtherError, MalformedFrame, PayloadTooLarge
from ether_broker.ids import NO_ID, new_id, to_text
from ether_broker.mailbox import Limits
from ether_broker.payload import MAX_PAYLOAD
from ether_broker.router import Session, topic_of
from ether_broker.tap import Tap
from ether_broker.wire import BATCH, Header, Kind, pack_envelope, read_header

__all__ = ["Supervisor"]

logger = logging.getLogger("ether.supervisor")

_NEVER: Final = float("inf")
_DELEGATION: Final = int(Kind.DELEGATION)
_RESPONSE: Final = int(Kind.RESPONSE)


class Supervisor:
    """Holds every delegation to its contract (G1, G3, G4, G6, G8, G9, G10).

    Args:
        limits: bounds of each agent's mailbox.
        tap_count: envelopes that observers can still catch up on.
        tap_size: bytes that are kept for that.
        tap_interval: seconds that observers may be behind while fewer than 64 envelopes wait for them.
    """

    def __init__(
        self, *, limits: Limits | None = None, tap_count: int = 65_536, tap_size: int = 64 << 20, tap_interval: float = 0.0
    ) -> None:  # fmt: skip
        self.records = Records(limits or Limits(), Tap(count=tap_count, size=tap_size))
        self._rulings = Rulings(self.records)
        self._membership = Membership(self.records, self._rulings, to_text(new_id()))
        self._administration = Administration(self.records)
        self._tap_interval = tap_interval
        self._fed = 1
        self._feed_at = _NEVER
        self._must_feed = False

    def step(self, arrivals: Iterable[tuple[bytes, bytes]], now: float, wall: float) -> None:
        """Rule on everything that arrived, and on everything that is due.

        Args:
            arrivals: (routing id, message).
            now: seconds by the broker's clock; never less than in the last step.
            wall: seconds since 1970 in UTC, for people.
        """
        records = self.records
        records.now, records.wall = now, wall
        for routing_id, message in arrivals:
            session, envelopes = records.router.arrive(routing_id, message, now)
            for envelope in envelopes:
                self._take(session, routing_id, envelope)
        self._rulings.due()
        self._membership.beat()
        if records.passing:
            records.tap.append(records.passing, now)
            records.passing = []
            if self._feed_at == _NEVER:
                self._feed_at = now + self._tap_interval
        if now >= self._feed_at or records.tap.next - self._fed >= BATCH:
            self._fed = records.tap.next
            self._feed_at = _NEVER
            self._feed_observers()
        elif self._must_feed:
            self._feed_observers()

    def next_wake(self) -> float:
        """When to step again even if nothing arrives, in seconds by the broker's clock."""
        if self.records.router.has_lost:  # a peer was found gone while the last answers left
            return self.records.now
        deadline = self.records.ledger.deadlines.next()
        beat = min(self._membership.next_beat, self._feed_at)
        return beat if deadline is None else min(beat, deadline)

    def _take(self, session: Session | None, routing_id: bytes, envelope: bytes) -> None:
        request_id = NO_ID
        try:
            header = read_header(envelope)
            request_id, kind = header.request_id, header.kind
            if session is None:
                self._greet(routing_id, header, envelope)
            elif len(envelope) > MAX_PAYLOAD:  # whoever it were passed on to would be cut off for its size
                self.records.router.refuse(routing_id, PayloadTooLarge(len(envelope), MAX_PAYLOAD), request_id)
            elif kind == _RESPONSE:
                self._rulings.response(session, header, envelope)
            elif kind == _DELEGATION:
                if header.capability.startswith(PREFIX):
                    self._administration.handle(session, header, envelope)
                else:
                    self._rulings.delegation(session, header, envelope)
            else:
                self._control(session, routing_id, header, envelope)
        except EtherError as error:
            self.records.router.refuse(routing_id, error, request_id)
        except Exception:
            logger.exception("an envelope of %s broke the supervisor's step; it is dropped", routing_id[:8].hex())

    def _greet(self, routing_id: bytes, header: Header, envelope: bytes) -> None:
        if header.kind != Kind.HELLO:
            msg = "The first envelope of a peer is HELLO."
            raise MalformedFrame(msg, envelope)
        self._membership.hello(routing_id, header, envelope)

    def _control(self, session: Session, routing_id: bytes, header: Header, envelope: bytes) -> None:  # noqa: C901  a case a row
        membership = self._membership
        match header.kind:
            case Kind.CANCEL:
                self._rulings.cancel(session, header, envelope)
            case Kind.HEARTBEAT:
                membership.heartbeat(session, header, envelope)
            case Kind.TAP_ACK:
                cursor = session.cursors.get(header.request_id)
                if cursor is not None:
                    self._must_feed |= not cursor.has_credit
                    cursor.acknowledge(int.from_bytes(envelope[header.body : header.body + 8]))
            case Kind.REGISTER:
                membership.register(session, header, envelope)
            case Kind.UNREGISTER:
                membership.unregister(session, header, envelope)
            case Kind.OBSERVE:
                membership.observe(session, header, envelope)
                self._must_feed = True
            case Kind.MONITOR:
                membership.monitor(session, header)
            case Kind.HELLO:
                membership.hello(routing_id, header, envelope)
            case Kind.BYE:
                membership.bye(session)
            case _:
                msg = f"An envelope of kind {header.kind} is not for the broker."
                raise MalformedFrame(msg, envelope)

    def _feed_observers(self) -> None:
        self._must_feed = False
        router, tap = self.records.router, self.records.tap
        for session in router.sessions:
            for token, cursor in session.cursors.items():
                while (body := tap.read(cursor, topic_of)) is not None:
                    router.send(session, pack_envelope(Kind.TAP, request_id=token, body=body))
