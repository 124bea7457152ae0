"""What delegators that are back ask for: they get it a little at a time, because looking it up must hold up nobody. Sans-IO."""

from __future__ import annotations

from collections import deque
from typing import Final

from ether_actors.delivery import Delivery
from ether_actors.records import Records
from ether_broker.response import ErrorInfo
from ether_broker.router import Session
from ether_broker.status import RUNNING, Status
from ether_broker.wire import Header, Kind, read_header

__all__ = ["SHARE", "Collecting"]

SHARE: Final = 32
"""Outcomes that one step looks up. Each may be a question to the journal's file, of some 0.15 ms; thousands of them in
one step would make every deadline late (G4)."""


class Collecting:
    """The queue of those that have ended; what is still open is given to its delegator at once."""

    def __init__(self, records: Records, delivery: Delivery) -> None:
        self._records = records
        self._delivery = delivery
        self._asked: deque[tuple[Session, deque[bytes]]] = deque()

    @property
    def has_more(self) -> bool:
        """Whether the next step should come at once."""
        return bool(self._asked)

    def ask(self, session: Session, request_ids: list[bytes]) -> None:
        """Take what a delegator waits for."""
        ledger = self._records.ledger
        still_open = [request_id for request_id in request_ids if ledger.get(request_id) is not None]
        if still_open:
            self._give(session, still_open)
        if len(still_open) < len(request_ids):
            self._asked.append((session, deque(id_ for id_ in request_ids if ledger.get(id_) is None)))

    def serve(self) -> None:
        """Give out the next of them; what a session asked for that was lost since stays where it is."""
        if not self._asked:
            return
        session, waiting = self._asked.popleft()
        if session.lost:
            return
        self._give(session, [waiting.popleft() for _ in range(min(SHARE, len(waiting)))])
        if waiting:
            self._asked.append((session, waiting))

    def _give(self, session: Session, request_ids: list[bytes]) -> None:
        """Give a delegator that is back its delegations, or the outcomes that it missed."""
        on_its_way = {header.request_id for header, _ in self._unread(session)}
        for request_id in request_ids:
            entry = self._records.ledger.get(request_id)
            if entry is None:
                if request_id not in on_its_way:
                    self._look_up(session, request_id)
            elif entry.source in session.agents:
                entry.delegator = session

    def _look_up(self, session: Session, request_id: bytes) -> None:
        """Send an outcome from before this session to whom it is for (G6), or say that there is none."""
        records = self._records
        owner = records.uncollected.owner(request_id)
        if owner is None or owner in session.agents:
            outcome = records.uncollected.take(request_id, records.journal.outcome)
            if outcome is not None and read_header(outcome).target in session.agents:
                records.router.send(session, outcome)
                return
        if request_id in records.claims or records.ledger.has_ended(request_id):
            return  # a lease that is waited for; or an outcome that is not lost, but nobody's here (any more)
        message = "The broker that had taken it was lost, and this one knows nothing of it."
        self._delivery.tell(
            session, request_id, Status.FAILED_EXECUTION, ErrorInfo(code="broker_lost", message=message)
        )

    def keep_unread(self, session: Session) -> None:
        """Keep the outcomes that a lost node may not have got, until its agents ask for them."""
        for header, envelope in self._unread(session):
            self._records.uncollected.keep(header.target, header.request_id, envelope)

    def _unread(self, session: Session) -> list[tuple[Header, bytes]]:
        """The outcomes on their way to a node, but for what `Delivery.tell` said outside the journal: that is said anew."""
        under_way = (*session.unacknowledged(), *self._records.router.unsealed(session))
        found = ((read_header(envelope), envelope) for envelope in under_way if envelope[0] == Kind.RESPONSE)
        return [(header, envelope) for header, envelope in found if header.target and header.status not in RUNNING]
