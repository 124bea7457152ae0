"""The rejection of a delegation: what the delegator is told, and what observers see of it."""

from __future__ import annotations

import time
from collections.abc import Iterable

from ether_actors.supervisor.registry.hint_cost import hint
from ether_actors.supervisor.registry.registration import Registration
from ether_actors.supervisor.state.ids_ahead import FAR_AHEAD, MOST_AHEAD
from ether_actors.supervisor.state.ledger import Entry
from ether_broker.dead_letters import Reason
from ether_broker.envelope.ids import made_at
from ether_broker.envelope.response import ErrorInfo
from ether_broker.envelope.status import Status
from ether_broker.wire.frame import Header, name_of

__all__ = ["Rejection", "broker_full", "cycle", "forged", "id_ahead", "overload", "too_deep"]


class Rejection(Exception):
    """The exception that a delegation is not accepted: with which status, code and message.

    Args:
        status: how it ends.
        code: its error's.
        message: its error's.
        reason: why it is a dead letter; None where it is none.
        retryable: its error's.
        is_remembered: whether its request id stands for it from now on, also in the journal.
        asked: a name that there is not.
        known: such names as there are; none is looked at before `hint`.
        fields: of the response.
    """

    def __init__(
        self, status: Status, code: str, message: str, *, reason: Reason | None = None, retryable: bool = False,
        is_remembered: bool = True, asked: str = "", known: Iterable[str] = (), **fields: object,
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.status = status
        self.error = ErrorInfo(code=code, message=message, retryable=retryable)
        self.reason = reason
        self.is_remembered = is_remembered
        self.fields = fields
        self._asked = asked
        self._known = known

    def hint(self) -> int:
        """Add to the error which name may be meant; returns the points. Costs time, so only if the rejection is sent."""
        text, points = hint(self._asked, self._known)
        if text:
            self.error = self.error.model_copy(update={"message": f"{self.error.message}{text}"})
        return points


def forged(header: Header) -> Rejection:
    """It comes from an agent that its connection has not registered (G6)."""
    message = f"The connection has not registered {name_of(header.source)!r}, so it cannot delegate in its name."
    return Rejection(
        Status.REJECTED_CAPABILITY, "forged_sender", message, reason=Reason.FORGED, is_remembered=False
    )  # fmt: skip


def id_ahead(header: Header, wall: float) -> Rejection:
    """Its id is far ahead of the broker's clock, in Unix time, as are ids of too many other processes (`IdsAhead.takes`)."""
    days = ((made_at(header.request_id) or 0.0) - wall) / 86_400
    shows = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(wall))
    message = (
        f"Its request id says that it was made {days:,.1f} days after what the broker's clock shows, {shows} UTC: one of the "
        f"two clocks is wrong, and {MOST_AHEAD:,} processes are more than {FAR_AHEAD / 3600:g} hours ahead already. Set it "
        "right; then restart the delegator's process if it was its clock, as its ids only rise."
    )
    return Rejection(Status.REJECTED_CONTEXT, "id_ahead", message, is_remembered=False)


def cycle(parent: Entry, agent: Registration) -> Rejection:
    """An agent would wait for itself."""
    message = (
        f"{_path(parent)} → {agent.manifest.agent} is a cycle: {agent.manifest.agent} waits for this very work. "
        "Delegate to another agent, or raise its max_concurrency."
    )
    return Rejection(Status.FAILED_EXECUTION, "call_cycle", message)


def too_deep(parent: Entry) -> Rejection:
    """The chain of delegations that it would lengthen is as long as one may be."""
    message = f"The chain of delegations is {parent.chain_length} deep: {_path(parent)}. Is it a recursion without end?"
    return Rejection(Status.FAILED_EXECUTION, "too_deep", message)


def overload(agent: Registration) -> Rejection:
    """An agent's mailbox has no room (G8)."""
    mailbox = agent.mailbox
    recent = agent.recent
    pace = sum(recent) / len(recent) if recent else 1.0
    wait = min(max(pace, 0.05), 30.0)
    message = (
        f"{agent.manifest.agent} has {mailbox.waiting_count:,} delegations and {mailbox.waiting_bytes:,} bytes waiting, "
        "its mailbox's bound."
    )
    return Rejection(
        Status.REJECTED_OVERLOAD, "mailbox_full", message, reason=Reason.OVERLOAD, retryable=True, retry_after=wait
    )


def broker_full(size: int) -> Rejection:
    """All mailboxes together have no room (G8)."""
    message = f"The broker keeps {size:,} bytes of delegations that have not ended, its bound."
    return Rejection(
        Status.REJECTED_OVERLOAD, "broker_full", message, reason=Reason.OVERLOAD, retryable=True, retry_after=1.0
    )  # fmt: skip


def _path(parent: Entry) -> str:
    chain = list(parent.ancestors())
    return " → ".join(name_of(name) for name in (chain[-1].source, *(entry.agent.name for entry in reversed(chain))))
