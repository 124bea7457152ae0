"""What observers are sent: a share a step of what is in the ring, and less of what only the journal has: it holds up nobody.

    step ── feed() ─┬─ ring     each session its share of points a step; what is left over follows in the next step
                    └─ journal  4 batches a step, each for another session, in turns

All of it is charged to the session whose observers they are. Sans-IO.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from ether_actors.records import Records
from ether_broker.errors import JournalCorrupt, JournalUnavailable
from ether_broker.payload import pack
from ether_broker.router import Session, topic_of
from ether_broker.tap import Batch, Cursor
from ether_broker.wire import BATCH, Kind, pack_envelope

__all__ = ["Feeding"]

_NEVER: Final = float("inf")
_READS: Final = 4
"""Batches that one step reads from the journal's file, for all observers together; each takes some 0.15 ms and, where it
has large bodies, a few."""
_READ: Final = 16
"""Points of one, beside those of what it holds; see `ether_broker.cost`."""
_SHARE: Final = 512
"""Points that one step feeds a session from the ring, and what its last batch is above them."""
_RETRY: Final = 0.5
"""Seconds until the journal is read again that could not be."""


class Feeding:
    """Sends observers what passed, each as far as it has acknowledged enough.

    Args:
        records: of the broker.
        interval: seconds that observers may be behind while fewer than 64 envelopes wait for them.
    """

    def __init__(self, records: Records, interval: float) -> None:
        self._records = records
        self._interval = interval
        self._fed = records.tap.next
        self._at = _NEVER
        self._not_before = 0.0
        self._behind: dict[Session, None] = {}
        """Sessions with an observer that reads from the journal, the next to be served first."""
        self.must_feed = False
        """Whether an observer may get more in the next step, though nothing passes."""
        self.has_more = False
        """Whether the next step should come at once."""

    @property
    def next_feed(self) -> float:
        """When to feed what has passed, in seconds by the broker's clock."""
        return self._at

    def passed(self) -> None:
        """Note that envelopes were added to the ring."""
        if self._at == _NEVER:
            self._at = self._records.now + self._interval

    def feed(self) -> None:
        """Send what is due."""
        tap, now = self._records.tap, self._records.now
        if now >= self._at or tap.next - self._fed >= BATCH:
            self._fed = tap.next
            self._at = _NEVER
        elif not self.must_feed:
            return
        self.must_feed = self.has_more = False
        for session in self._records.router.sessions:
            if session.cursors:
                self._from_ring(session)
        for session in list(islice(self._behind, _READS)) if now >= self._not_before else ():
            del self._behind[session]
            self._from_journal(session)
        self.must_feed = self.must_feed or bool(self._behind)
        self.has_more = self.has_more or (bool(self._behind) and now >= self._not_before)

    def _from_ring(self, session: Session) -> None:
        tap, left = self._records.tap, _SHARE
        for token, cursor in list(session.cursors.items()):
            if self._reads_journal(cursor):
                self._behind.setdefault(session)
                continue
            while left > 0 and (cost := self._send(session, token, cursor)):
                left -= cost
            if left <= 0 and cursor.has_credit and cursor.position < tap.next:
                session.cursors[token] = session.cursors.pop(token)  # behind the others, in the next step
                self.must_feed = self.has_more = True

    def _reads_journal(self, cursor: Cursor) -> bool:
        """Whether what an observer gets next, and may get now, has left the ring and is in the journal."""
        records = self._records
        if cursor.position >= records.tap.first or not records.journal.identity or not cursor.has_credit:
            return False
        return cursor.position < records.durable

    def _send(self, session: Session, token: bytes, cursor: Cursor, batch: Batch | None = None) -> int:
        """Send the next batch, or this one, and charge it; returns its points, 0 if there is none to send."""
        records, position = self._records, cursor.position
        if position < records.tap.first and batch is None and records.journal.identity and cursor.has_credit:
            self.must_feed = True  # not in the ring any more and not in the journal yet
            return 0
        body = records.tap.read(cursor, topic_of, batch)
        if body is None:
            return 0
        records.router.send(session, pack_envelope(Kind.TAP, request_id=token, body=body))
        points = 1 + (cursor.unacknowledged[-1][1] >> 13) + (cursor.position - position >> (3 if cursor.topics else 6))
        session.input.spend(points)
        return points

    def _from_journal(self, session: Session) -> None:
        """Read a batch for that observer of a session that has waited for it longest."""
        records = self._records
        wanted = [(token, cursor) for token, cursor in session.cursors.items() if self._reads_journal(cursor)]
        if session.lost or not wanted:
            return
        token, cursor = wanted[0]
        session.cursors[token] = session.cursors.pop(token)
        session.input.spend(_READ)
        try:
            batch = records.journal.read(cursor.position)
            if batch is None:  # its old part was removed, and nothing is left below what the ring has
                cursor.position = max(cursor.position + 1, records.journal.first)
            else:
                self._send(session, token, cursor, batch)
        except JournalUnavailable as error:
            self._not_before = records.now + _RETRY
            records.router.refusals.note(session.node, error.code, error)
        except JournalCorrupt as error:
            self._leave_out(session, token, cursor, error)
        self._behind.setdefault(session)

    def _leave_out(self, session: Session, token: bytes, cursor: Cursor, error: JournalCorrupt) -> None:
        """Go on behind what is damaged, and say so: the numbers of what comes next show the gap, too (G7)."""
        records, first = self._records, cursor.position
        following = error.following if first < error.following < records.tap.first else records.tap.first
        cursor.position = following
        message = f"The messages {first} to {following - 1} cannot be read and are left out. {error}"
        records.router.refusals.note(session.node, error.code, message)
        body = pack({"code": error.code, "message": message, "first": first, "next": following})
        records.router.send(session, pack_envelope(Kind.ERROR, request_id=token, body=body))
