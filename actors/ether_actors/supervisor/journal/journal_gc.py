"""The service of `ether.journal-gc`: it ends when the old part of the journal has been removed. Sans-IO.

Administration ── collect ──► JournalGc ── collect ──► JournalMaintenance, in its thread
                              JournalGc ◄── done ───────┘ in the supervisor's step ──► Delivery
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

from ether_actors.supervisor.delegations.delivery import Delivery
from ether_actors.supervisor.state.broker_state import BrokerState
from ether_actors.supervisor.state.ledger import Entry
from ether_broker.envelope.payload import Payload
from ether_broker.envelope.response import ErrorInfo
from ether_broker.envelope.status import Status
from ether_broker.errors import EtherError, InvalidEnvelope, JournalUnavailable
from ether_broker.number import is_number
from ether_broker.text import brief

if TYPE_CHECKING:
    from ether_actors.supervisor.journal.journal_maintenance import JournalMaintenance
    from ether_broker.journal.journal import Removed

__all__ = ["JournalGc"]


class JournalGc:
    """The service of `ether.journal-gc`; a delegation of it whose deadline passes is done all the same."""

    def __init__(self, state: BrokerState, delivery: Delivery) -> None:
        self._state = state
        self._delivery = delivery
        self._maintenance: JournalMaintenance | None = None
        self._asked: list[tuple[float, Entry]] = []

    def attach(self, maintenance: JournalMaintenance) -> None:
        """Have this do it, also what an earlier broker had been asked; without it a broker keeps no journal."""
        self._maintenance = maintenance
        for older_than, entry in self._asked:
            maintenance.collect(older_than, partial(self._done, entry))
        self._asked.clear()

    def collect(self, entry: Entry, params: dict[str, Any]) -> None:
        """Begin to give up what passed before `older_than`, a Unix time; `journal` has to be the journal's identity, if given.

        Raises:
            InvalidEnvelope: the params do not fit.
            JournalUnavailable: this broker has no such journal.
        """
        state = self._state
        older_than, wanted = params.get("older_than"), params.get("journal")
        if not is_number(older_than) or not math.isfinite(older_than):
            msg = f"params.older_than is {brief(older_than)} and has to be a Unix time."
            raise InvalidEnvelope(msg)
        if not state.journal.identity:
            raise JournalUnavailable("This broker keeps no journal: there is nothing to give up.")
        if wanted is not None and wanted != state.journal.identity:
            raise JournalUnavailable(f"This broker's journal is {state.journal.identity}, and not {brief(wanted)}.")
        if self._maintenance is None:
            self._asked.append((float(older_than), entry))
        else:
            self._maintenance.collect(float(older_than), partial(self._done, entry))

    def _done(self, entry: Entry, result: Removed | EtherError) -> None:
        if entry.is_over:
            return
        if isinstance(result, EtherError):
            error = ErrorInfo(code=result.code, message=str(result), retryable=result.retryable)
            self._delivery.answer(entry, Status.FAILED_EXECUTION, error)
        else:
            self._delivery.answer(entry, Status.COMPLETED, data=Payload.of(result._asdict()))
