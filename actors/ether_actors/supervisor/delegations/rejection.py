"""The rejection of a delegation: what its delegator is told, what is journaled, and whether it is a dead letter."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from ether_actors.supervisor.delegations.delivery import Delivery
from ether_actors.supervisor.registry.hint_cost import hint
from ether_actors.supervisor.registry.registration import Registration
from ether_actors.supervisor.state.broker_state import BrokerState
from ether_actors.supervisor.state.ids_ahead import FAR_AHEAD, MOST_FAR_AHEAD
from ether_actors.supervisor.state.ledger import Entry, Ledger
from ether_broker.dead_letters import Reason
from ether_broker.envelope.ids import made_at
from ether_broker.envelope.names import BUS_PREFIX
from ether_broker.envelope.response import ErrorInfo
from ether_broker.envelope.status import Status
from ether_broker.transport.sessions.account import Account
from ether_broker.transport.sessions.cost import ANSWER
from ether_broker.transport.sessions.session import Session
from ether_broker.wire.frame import Flag, Header, name_of

__all__ = ["Rejection", "RejectionPolicy", "broker_full", "cycle", "forged", "id_ahead", "overload", "too_deep"]

_NO_BODY: Final = b"\x80"
"""The empty map that stands for a rejected body in the tap and the journal; else a peer without any right could fill the
disk."""


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


class RejectionPolicy:
    """The part of the supervisor that answers delegations that are not accepted, and keeps them as dead letters."""

    def __init__(self, state: BrokerState, delivery: Delivery) -> None:
        self._state = state
        self._delivery = delivery

    def answer(
        self, session: Session, header: Header, envelope: bytes, rejection: Rejection, *, is_anothers: bool
    ) -> None:  # fmt: skip
        """Answer what is not accepted; what has another's request id, or is not to be remembered, is not journaled."""
        session.input.spend(rejection.hint())
        state, status, error = self._state, rejection.status, rejection.error
        is_kept = rejection.is_remembered and not is_anothers
        is_question = header.capability.startswith(BUS_PREFIX)
        if is_kept:
            state.pass_on(session, envelope[: header.body] + _NO_BODY)
        is_listed = rejection.is_remembered or rejection.reason is not None  # in the journal, or among the dead letters
        if rejection.reason is Reason.FORBIDDEN or not is_listed:
            state.session_table.refusals.note(session.node, error.code, error.message)
        if rejection.reason is not None:
            state.keep_dead_letter(rejection.reason, envelope, session, error.message)
        if not is_kept:
            session.input.spend(ANSWER)
            state.tell(session, header.request_id, status, error, b"", **rejection.fields)
            return
        state.answer(
            session, envelope, status, error, Flag.REFUSED, payer=session, asked_from=session.life, **rejection.fields
        )
        if not is_question:
            self._delivery.count(status, None)


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
        f"two clocks is wrong, and {MOST_FAR_AHEAD:,} processes are more than {FAR_AHEAD / 3600:g} hours ahead already. Set it "
        "right; then restart the delegator's process if it was its clock, as its ids only rise."
    )
    return Rejection(Status.REJECTED_CONTEXT, "id_ahead", message, is_remembered=False)


def cycle(parent: Entry, agent: Registration) -> Rejection:
    """An agent would wait for itself."""
    message = (
        f"{_path(parent)} → {agent.manifest.agent} is a cycle: {agent.manifest.agent} waits for this very work. "
        "Delegate to another agent, or raise its max_concurrency, which is 1 if it has a state."
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


def broker_full(ledger: Ledger, account: Account) -> Rejection:
    """The broker has no room for more of an owner's delegations (G8)."""
    message = (
        f"The broker keeps {ledger.size:,} bytes of delegations, {account.size:,} of them for you, and you may have as much as "
        "is free: let some of them end, or raise `total_bytes`."
    )
    return Rejection(
        Status.REJECTED_OVERLOAD, "broker_full", message, reason=Reason.OVERLOAD, retryable=True, retry_after=1.0
    )  # fmt: skip


def _path(parent: Entry) -> str:
    chain = list(parent.ancestors())
    return " → ".join(name_of(name) for name in (chain[-1].source, *(entry.agent.name for entry in reversed(chain))))
