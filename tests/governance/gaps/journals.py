"""Journals with the traffic of days, written by the real journal with envelopes as they pass a broker."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Final

from ether.governance.gaps.outcomes import Outcome
from ether_broker.envelope.delegation import Delegation
from ether_broker.envelope.ids import new_id, to_text
from ether_broker.envelope.response import ErrorInfo, Response
from ether_broker.envelope.status import Status
from ether_broker.journal.sqlite.journal import SqliteJournal
from ether_broker.wire.codec import pack_delegation, pack_response

DAY: Final = 86_400.0


def write_traffic(path: Path, outcomes: Iterable[Outcome]) -> Path:
    """Write a delegation and its outcome for each, in their order; an agent `holder` has all that is held, of weight 1."""
    with closing(SqliteJournal(path)) as journal:
        for number, outcome in enumerate(outcomes):
            ended = outcome.day * DAY + 3600.0 + number * 0.001
            began = ended - (outcome.pace or 0.0)
            asked, answered = _envelopes(outcome)
            journal.append(journal.next, began, began, [asked])
            journal.append(journal.next, ended, ended, [answered])
    return path


def _envelopes(outcome: Outcome) -> tuple[bytes, bytes]:
    request_id = to_text(new_id())
    asked = pack_delegation(
        Delegation(request_id=request_id, from_agent=outcome.delegator, capability=outcome.capability, params={})
    )
    error = None
    if outcome.status is not Status.COMPLETED:
        error = ErrorInfo(code="no_holder" if not outcome.is_held else "other", message="as it is")
    by_bus = not outcome.is_held or outcome.is_own or outcome.status is Status.TIMEOUT
    response = Response(
        request_id=request_id, status=outcome.status, from_agent="ether" if by_bus else "holder", error=error
    )
    answered = pack_response(response, capability=outcome.capability.encode(), target=outcome.delegator.encode())
    return asked, answered
