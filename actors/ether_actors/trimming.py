"""How the supervisor answers `ether.journal-gc`: when the journal's old part has been given up. Sans-IO.

Administration ── asked ──► Trimming ── collect ──► Upkeep, in its thread
Supervisor     ── due ────► Trimming ◄── done ─────┘ in the supervisor's turn
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ether_actors.deadlines import DEFAULT_TIMEOUT
from ether_actors.records import Records
from ether_broker.dead_letters import Reason
from ether_broker.errors import EtherError, InvalidEnvelope, JournalUnavailable
from ether_broker.payload import Payload
from ether_broker.response import ErrorInfo
from ether_broker.router import Session
from ether_broker.status import Status
from ether_broker.wire import Flag, Header

if TYPE_CHECKING:
    from ether_actors.upkeep import Upkeep
    from ether_broker.journal.retention import Removed

__all__ = ["Trimming"]

_NEVER: Final = float("inf")


class Trimming:
    """Delegations of `ether.journal-gc` between being asked and being answered."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._asking: dict[bytes, tuple[Session, Header, float]] = {}
        self.upkeep: Upkeep | None = None
        """Does it; None where the broker keeps no journal."""

    def ask(self, session: Session, header: Header, envelope: bytes, params: dict[str, Any]) -> None:
        """Begin to give up what passed before `older_than`, a Unix time; `journal` has to be the journal's identity, if given.

        Raises:
            InvalidEnvelope: the params do not fit.
            JournalUnavailable: this broker has no such journal.
        """
        records = self._records
        if header.request_id in self._asking:
            if not header.flags & Flag.RESENT:
                records.bury(Reason.DUPLICATE, envelope, session, "the same request is being done")
            return
        older_than, wanted = params.get("older_than"), params.get("journal")
        if isinstance(older_than, bool) or not isinstance(older_than, (int, float)) or not math.isfinite(older_than):
            msg = f"params.older_than is {older_than!r} and has to be a Unix time."
            raise InvalidEnvelope(msg)
        if self.upkeep is None:
            raise JournalUnavailable("This broker keeps no journal: there is nothing to give up.")
        if wanted not in {None, records.journal.identity}:
            raise JournalUnavailable(f"This broker's journal is {records.journal.identity}, and not {wanted}.")
        deadline = header.deadline or records.now + DEFAULT_TIMEOUT
        self._asking[header.request_id] = session, header, deadline
        self.upkeep.collect(float(older_than), partial(self._done, header.request_id))

    def _done(self, request_id: bytes, result: Removed | EtherError) -> None:
        asked = self._asking.pop(request_id, None)
        if asked is None:
            return  # its deadline has passed
        session, header, _ = asked
        if isinstance(result, EtherError):
            error = ErrorInfo(code=result.code, message=str(result), retryable=result.retryable)
            self._records.answer(session, header, Status.FAILED_EXECUTION, error)
        else:
            self._records.answer(session, header, Status.COMPLETED, None, data=Payload.of(result._asdict()))

    def due(self) -> None:
        """Answer what has taken too long; it is done all the same."""
        late = [request_id for request_id, asked in self._asking.items() if asked[2] <= self._records.now]
        for request_id in late:
            session, header, _ = self._asking.pop(request_id)
            message = "The journal's old part is still being given up."
            self._records.answer(session, header, Status.TIMEOUT, ErrorInfo(code="deadline", message=message))

    def next_due(self) -> float:
        """When to look again, in seconds by the broker's clock."""
        return min((deadline for _, _, deadline in self._asking.values()), default=_NEVER)
