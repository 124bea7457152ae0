"""What delegators that are back ask for: they get it a little at a time, because looking it up must hold up nobody. Sans-IO."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from ether_actors.records import Records

if TYPE_CHECKING:
    from ether_actors.rulings import Rulings
    from ether_broker.router import Session

__all__ = ["SHARE", "Collecting"]

SHARE: Final = 32
"""Outcomes that one step looks up. Each may be a question to the journal's file, of some 0.15 ms; thousands of them in
one step would make every deadline late (G4)."""


class Collecting:
    """The queue of those that have ended; what is still open is given to its delegator at once."""

    def __init__(self, records: Records, rulings: Rulings) -> None:
        self._records = records
        self._rulings = rulings
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
            self._rulings.awaited(session, still_open)
        if len(still_open) < len(request_ids):
            self._asked.append((session, deque(id_ for id_ in request_ids if ledger.get(id_) is None)))

    def serve(self) -> None:
        """Give out the next of them; what a session asked for that was lost since stays where it is."""
        if not self._asked:
            return
        session, waiting = self._asked.popleft()
        if session.lost:
            return
        self._rulings.awaited(session, [waiting.popleft() for _ in range(min(SHARE, len(waiting)))])
        if waiting:
            self._asked.append((session, waiting))
