"""The feed of observers: batches from the ring or from the journal, a share of each step.

    step ── feed() ──► a batch for each node in turn, for each of its observers in turn, until 128 points are spent

What is left over follows after an interval. All of it is charged to the session whose observers they are. Sans-IO.
"""

from __future__ import annotations

from math import inf
from typing import Final

from ether_actors.supervisor.state.broker_state import BrokerState
from ether_actors.supervisor.state.job_schedule import Job
from ether_broker.envelope.payload import pack
from ether_broker.errors import JournalCorrupt, JournalUnavailable
from ether_broker.observer_cursor import ObserverCursor
from ether_broker.tap import Batch
from ether_broker.transport.sessions.cost import (
    JOURNAL_READ,
    MATCH,
    MATCHES_SHIFT,
    OBSERVERS_SHIFT,
    PASSED_SHIFT,
    PER_8_KIB,
    TAP_BATCH,
)
from ether_broker.transport.sessions.session import Session
from ether_broker.transport.sessions.session_table import capability_of
from ether_broker.wire.frame import BATCH, Header, Kind, pack_envelope

__all__ = ["ObserverFeed"]

_POINTS_PER_STEP: Final = 128
"""Points of one step, and what the last batch is above them; see `ether_broker.transport.sessions.cost`."""
_RETRY: Final = 0.5
"""Seconds until the journal is read again that could not be."""


class ObserverFeed:
    """Sends observers what passed, each as far as it has acknowledged enough.

    Args:
        state: of the broker.
        interval: seconds that observers may be behind while fewer than 64 envelopes wait for them, and between two shares.
    """

    def __init__(self, state: BrokerState, interval: float) -> None:
        self._state = state
        self._interval = interval
        self._fed = state.tap.next
        self.job: Job = Job(state.schedule, self._feed)
        self.watching: dict[Session, None] = {}
        """Sessions with observers; some of those that had any may be among them."""
        self._not_before = 0.0
        self._waiting: dict[Session, None] = {}
        """Sessions of which an observer may get more, the next to be served first."""
        self._pause = 0.0
        """Before when nobody is fed: a share has just been spent."""

    def watch(self, session: Session) -> None:
        """Note that a session has an observer more, or one less."""
        self.watching[session] = None
        self.job.wake(self._pause)

    def passed(self) -> None:
        """Note that envelopes were added to the ring, and that somebody watches."""
        is_much = self._state.tap.next - self._fed >= BATCH
        self.job.wake(self._pause if is_much else self._state.now + self._interval)

    def acknowledge(self, session: Session, header: Header, envelope: bytes) -> None:
        """Note how far an observer has read."""
        cursor = session.cursors.get(header.request_id)
        if cursor is not None:
            if not cursor.has_credit:
                self.job.wake(self._pause)
            cursor.acknowledge(int.from_bytes(envelope[header.body : header.body + 8]))

    def _feed(self) -> float:
        """Send what is due, as much as one step may."""
        tap, now = self._state.tap, self._state.now
        self._fed = tap.next
        for session in list(self.watching):
            if session.cursors and not session.lost:
                self._waiting.setdefault(session)
            else:
                del self.watching[session]
        left = _POINTS_PER_STEP
        while self._waiting and left > 0:
            session = next(iter(self._waiting))
            del self._waiting[session]
            points, is_fed = self._serve(session)
            session.input.spend(points)
            left -= points
            if is_fed:
                self._waiting[session] = None  # behind the others
        if not self._waiting:
            return inf
        self._pause = now + self._interval
        return self._pause

    def _serve(self, session: Session) -> tuple[int, bool]:
        """Send the next batch of that observer of a session that has waited longest: (points, whether there was one)."""
        looks = 0
        for token in list(session.cursors) if not session.lost else ():
            cursor = session.cursors[token] = session.cursors.pop(token)
            looks += 1
            if points := self._from_journal(session, token, cursor) or self._send(session, token, cursor):
                return points + (looks >> OBSERVERS_SHIFT), True
        return 1 + (looks >> OBSERVERS_SHIFT), False

    def _send(self, session: Session, token: bytes, cursor: ObserverCursor, batch: Batch | None = None) -> int:
        """Send the next batch, or this one; returns its points, 0 if there is none to send."""
        state, position = self._state, cursor.position
        if position < state.tap.first and batch is None and state.journal.identity and cursor.has_credit:
            self.job.pause()  # not in the ring any more, and not in the journal yet or not to be read now
            return 0
        body = state.tap.read(cursor, capability_of, batch)
        if body is None:
            return 0
        state.session_table.send(session, pack_envelope(Kind.TAP, request_id=token, body=body))
        prefixes, count = len(cursor.capabilities), cursor.position - position
        matching = 1 + (count * (MATCH + prefixes) >> MATCHES_SHIFT) if prefixes else count >> PASSED_SHIFT
        return TAP_BATCH + (len(body) >> PER_8_KIB) + matching

    def _from_journal(self, session: Session, token: bytes, cursor: ObserverCursor) -> int:
        """Send what has left the ring and is in the journal, if that is what an observer gets next; its points, or 0."""
        state = self._state
        is_in_ring = cursor.position >= state.tap.first or not state.journal.identity
        if is_in_ring or not cursor.has_credit or cursor.position >= state.durable or state.now < self._not_before:
            return 0
        try:
            batch = state.journal.read(cursor.position)
            if batch is None:  # its old part was removed, and nothing is left below what the ring has
                cursor.position = max(cursor.position + 1, state.journal.first)
                return JOURNAL_READ
            return JOURNAL_READ + (batch.size >> PER_8_KIB) + self._send(session, token, cursor, batch)
        except JournalUnavailable as error:
            self._not_before = state.now + _RETRY
            state.session_table.refusals.note(session.node, error.code, error)
        except JournalCorrupt as error:
            self._leave_out(session, token, cursor, error)
        return JOURNAL_READ

    def _leave_out(self, session: Session, token: bytes, cursor: ObserverCursor, error: JournalCorrupt) -> None:
        """Go on behind what is damaged, and say so: the numbers of what comes next show the gap, too (G7)."""
        state, first = self._state, cursor.position
        following = error.following if first < error.following < state.tap.first else state.tap.first
        cursor.position = following
        message = f"The messages {first} to {following - 1} cannot be read and are left out. {error}"
        state.session_table.refusals.note(session.node, error.code, message)
        body = pack({"code": error.code, "message": message, "first": first, "next": following})
        state.session_table.send(session, pack_envelope(Kind.ERROR, request_id=token, body=body))
