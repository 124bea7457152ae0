"""How the supervisor gives leases (G5): `ether.lease` and `ether.release`, answered when their time has come. Sans-IO.

    Administration ── claim, release ──► Leasing ──► Leases       decides
    Ledger ── a delegation left ────────►   │
    Supervisor ── due, cancel ──────────►   └──────► Records      answers, events `lease_granted` and `lease_released`

A delegation of `ether.lease` is made for the delegation that is to hold the lease: its parent.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from ether_actors.deadlines import DEFAULT_TIMEOUT, LONGEST_TIMEOUT
from ether_actors.leases import Claim, Effect, Granted, Held, Leases, Released, Withdrawn
from ether_actors.ledger import Entry, State
from ether_actors.records import Records
from ether_broker.codec import read_delegation
from ether_broker.dead_letters import Reason
from ether_broker.errors import EtherError, InvalidEnvelope, LeaseDeadlock, LeaseHeld, TooManyLeases
from ether_broker.ids import NO_ID, to_text
from ether_broker.names import MAX_RESOURCE, is_resource
from ether_broker.payload import Payload
from ether_broker.response import ErrorInfo
from ether_broker.router import Session
from ether_broker.status import Status
from ether_broker.wire import Header, read_header

__all__ = ["Leasing"]

_SHOWN: Final = 100
"""Claims that are shown of those that wait for a lease."""
_NEVER: Final = float("inf")
_REFUSALS: Final = {
    LeaseHeld: Status.REJECTED_OVERLOAD,
    TooManyLeases: Status.REJECTED_OVERLOAD,
    LeaseDeadlock: Status.FAILED_EXECUTION,
}


class _NotHolder(Exception):
    """Who asks cannot hold the lease."""

    def __init__(self, status: Status, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.error = ErrorInfo(code=code, message=message)


class Leasing:
    """The supervisor's giving and taking of leases."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._asking: dict[bytes, tuple[Session | None, Header]] = {}
        self.leases: Final = Leases(self._parent_of)
        records.ledger.bound = self.leases.stakes
        records.ledger.on_left = self._left
        records.claims = self._asking.keys()

    def _parent_of(self, holder: bytes) -> bytes | None:
        entry = self._records.ledger.get(holder)
        return None if entry is None or entry.parent is None else entry.parent.request_id

    # -- asked ---------------------------------------------------------------------------------------------------

    def claim(self, session: Session, header: Header, envelope: bytes, params: dict[str, Any]) -> None:
        """Answer `ether.lease`: at once, or when the lease is granted, late or called off.

        Raises:
            InvalidEnvelope: the params do not fit.
        """
        records = self._records
        if header.request_id in self._asking:
            records.bury(Reason.DUPLICATE, envelope, session, "the same request waits for its lease")
            return
        resource, wait = _resource(params), _wait(params)
        try:
            entry = self._holder(session, header, params)
            deadline = self._deadline(header, entry)
            claim = _claim(header, resource, min(deadline, records.now + wait))
            self._asking[header.request_id] = (session, header)
            if (
                not self.leases.token
            ):  # microseconds since 1970, so that tokens rise over restarts without a journal too
                self.leases.begin_above(int(records.wall * 1e6))
            self._apply(self.leases.claim(claim, records.now, may_wait=wait > 0))
        except _NotHolder as refusal:
            records.answer(session, header, refusal.status, refusal.error)
        except (LeaseHeld, TooManyLeases, LeaseDeadlock) as refused:
            del self._asking[header.request_id]
            error = ErrorInfo(code=refused.code, message=str(refused), retryable=refused.retryable)
            records.answer(session, header, _REFUSALS[type(refused)], error)

    def release(self, session: Session, header: Header, _envelope: bytes, params: dict[str, Any]) -> None:
        """Answer `ether.release`; a lease that the parent does not hold (any more) is none to release.

        Raises:
            InvalidEnvelope: the params do not fit.
        """
        records = self._records
        token = params.get("token")
        if type(token) is not int:
            msg = f"params.token is {token!r} and has to be a lease's token."
            raise InvalidEnvelope(msg)
        entry = records.ledger.get(header.parent)
        effects: list[Effect] = []
        if entry is not None and entry.agent.name == header.source and entry.agent.session is session:
            effects = self.leases.release(header.parent, token, records.now)
        self._apply(effects)
        records.answer(session, header, Status.COMPLETED, None, data=Payload.of({"released": bool(effects)}))

    def _holder(self, session: Session, header: Header, params: dict[str, Any]) -> Entry:
        """The delegation that is to hold the lease; in the hands of who asks, and of no earlier attempt."""
        records = self._records
        if header.parent == NO_ID:
            message = "A lease belongs to a delegation: ask for it in its handler, with task.lease(...)."
            raise _NotHolder(Status.REJECTED_CONTEXT, "no_parent", message)
        entry = records.ledger.get(header.parent)
        if entry is None or params.get("attempt", entry.attempt) != entry.attempt:
            message = "The delegation that is to hold the lease has ended, or runs elsewhere by now."
            raise _NotHolder(Status.CANCELLED, "parent_ended", message)
        if entry.agent.name != header.source or entry.agent.session is not session or entry.state is State.QUEUED:
            message = "The delegation that is to hold the lease was not given to who asks for it."
            raise _NotHolder(Status.REJECTED_CONTEXT, "not_your_parent", message)
        return entry

    def _deadline(self, header: Header, entry: Entry) -> float:
        now = self._records.now
        deadline = min(header.deadline or now + DEFAULT_TIMEOUT, entry.deadline)
        if not deadline > now:  # NaN is no deadline that could be kept either
            message = "The deadline had passed when the claim reached the broker."
            raise _NotHolder(Status.TIMEOUT, "expired", message)
        return deadline

    # -- endings -------------------------------------------------------------------------------------------------

    def cancel(self, session: Session, header: Header) -> bool:
        """Call a claim off for who made it; False if the request id is not that of one that waits."""
        if self.leases.waiting(header.request_id) is None:
            return False
        asked, claimed = self._asking[header.request_id]
        if claimed.source == header.source and header.source in session.agents and asked in (None, session):
            self._apply(self.leases.withdraw(header.request_id))
        return True

    def due(self) -> None:
        """End what has waited too long."""
        self._apply(self.leases.due(self._records.now))

    def next_due(self) -> float:
        """When to look again, in seconds by the broker's clock."""
        due = self.leases.next()
        return _NEVER if due is None else due

    def _left(self, entry: Entry) -> None:
        """A delegation has ended, or waits in a mailbox again: what it held goes to the next in line."""
        reason = "ended" if entry.is_over else "redelivered"
        self._apply(self.leases.left(entry.request_id, reason, self._records.now), entry)

    # -- what comes of it ----------------------------------------------------------------------------------------

    def _apply(self, effects: list[Effect], left: Entry | None = None) -> None:
        records = self._records
        for effect in effects:
            match effect:
                case Granted(claim, held):
                    records.event("lease_granted", **_named(held))
                    data = {"resource": held.resource, "token": held.token}
                    self._answer(claim, left, Status.COMPLETED, None, data=Payload.of(data))
                case Released(held, reason):
                    records.event("lease_released", **_named(held), reason=reason)
                case Withdrawn(claim, reason):
                    self._withdrawn(claim, reason, left)

    def _withdrawn(self, claim: Claim, reason: str, left: Entry | None) -> None:
        if reason == "late":
            held = self.leases.holder(claim.resource)
            by = f"; {held.agent} holds it" if held is not None else ""
            message = f"Waited {self._records.now - claim.since:.1f} s for the lease on {claim.resource!r}{by}."
            error = ErrorInfo(code=LeaseHeld.code, message=message, retryable=True)
            self._answer(claim, left, Status.TIMEOUT, error)
        elif reason == "cancelled":
            error = ErrorInfo(code="cancelled", message="The delegator called it off.")
            self._answer(claim, left, Status.CANCELLED, error)
        else:
            error = ErrorInfo(code="parent_ended", message="The delegation that was to hold the lease has ended.")
            self._answer(claim, left, Status.CANCELLED, error)

    def _answer(
        self, claim: Claim, left: Entry | None, status: Status, error: ErrorInfo | None, **fields: object
    ) -> None:  # fmt: skip
        session, header = self._asking.pop(claim.ask)
        if session is None:  # the claim was made before a restart: its holder's node has come back since, or is gone
            entry = self._records.ledger.get(claim.holder) or left
            session = entry.agent.session if entry is not None else None
        if session is not None:
            self._records.answer(session, header, status, error, **fields)

    def tell(self, resource: str | None, after: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """The leases with tokens above one, the oldest first, or that on one resource: who holds it, and who waits."""
        held = self.leases.after(after)
        if resource is not None:
            one = self.leases.holder(resource)
            held = iter([] if one is None or one.token <= after else [one])
        return ((lease.token, self._describe(lease)) for lease in held)

    def _describe(self, held: Held) -> dict[str, Any]:
        now = self._records.now
        entry = self._records.ledger.get(held.holder)
        line = list(islice(self.leases.line(held.resource), _SHOWN + 1))
        return {
            **_named(held),
            "node": entry.agent.session.node if entry is not None else "",
            "held_for": round(now - held.since, 3),
            "waiting": [
                {"agent": claim.agent, "request_id": to_text(claim.holder), "waits_for": round(now - claim.since, 3)}
                for claim in line[:_SHOWN]
            ],
            "more_wait": len(line) > _SHOWN,
        }

    # -- recovery ------------------------------------------------------------------------------------------------

    def reopen(self, envelope: bytes) -> None:
        """Enter an `ether.lease` that had no answer before the restart; after those that held one, in the journal's order."""
        header = read_header(envelope)
        records = self._records
        params = read_delegation(header, envelope).params or {}
        deadline = min(header.deadline or records.now + DEFAULT_TIMEOUT, records.now + _wait(params))
        claim = _claim(header, _resource(params), deadline)
        self._asking[claim.ask] = (None, header)
        if records.ledger.get(claim.holder) is None:
            self._apply([Withdrawn(claim, "ended")])
            return
        try:
            self._apply(self.leases.claim(claim, records.now))
        except EtherError:
            self._apply([Withdrawn(claim, "late")])


def _claim(header: Header, resource: str, deadline: float) -> Claim:
    return Claim(header.request_id, resource, header.source.decode(errors="replace"), header.parent, deadline)


def _named(held: Held) -> dict[str, Any]:
    request_id = to_text(held.holder)
    return {"resource": held.resource, "agent": held.agent, "request_id": request_id, "token": held.token}


def _resource(params: dict[str, Any]) -> str:
    resource = params.get("resource")
    if not isinstance(resource, str) or not is_resource(resource):
        shown = repr(resource)[:80]
        msg = f"params.resource is {shown} and has to be a printable text of 1 to {MAX_RESOURCE:,} bytes."
        raise InvalidEnvelope(msg)
    return resource


def _wait(params: dict[str, Any]) -> float:
    wait = params.get("wait")
    if wait is None:
        return LONGEST_TIMEOUT
    if isinstance(wait, bool) or not isinstance(wait, (int, float)) or not wait >= 0:
        msg = f"params.wait is {wait!r} and has to be seconds, 0 or more; without it the delegation's deadline decides."
        raise InvalidEnvelope(msg)
    return min(float(wait), LONGEST_TIMEOUT)
