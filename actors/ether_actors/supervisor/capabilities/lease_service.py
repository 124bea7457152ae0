"""The lease service (G5): `ether.lease` and `ether.release`, as work of the agent `ether`. Sans-IO.

    Administration ── claim, release, late ──► LeaseService ──► LeaseTable  decides
    Ledger ── a delegation left ────────────►   │
                                                └──────► Delivery     outcomes; BrokerState: `lease_granted`, `lease_released`

A delegation of `ether.lease` is made for the delegation that is to hold the lease: its parent. It is open until the lease
is granted. So deadlines, cancelling and duplicates are those of every delegation, and a broker that is restarted goes on
with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from math import inf
from typing import Any, Final

from ether_actors.supervisor.delegations.delivery import Delivery
from ether_actors.supervisor.delegations.rejection import Rejection
from ether_actors.supervisor.state.broker_state import BrokerState
from ether_actors.supervisor.state.job_schedule import OWN, Job, StepShare
from ether_actors.supervisor.state.lease_table import Claim, Effect, Granted, Held, LeaseTable, Released, Withdrawn
from ether_actors.supervisor.state.ledger import Entry, State
from ether_broker.envelope.delegation import LONGEST_TIMEOUT
from ether_broker.envelope.ids import NO_ID, to_text
from ether_broker.envelope.names import MAX_RESOURCE, is_resource
from ether_broker.envelope.payload import Payload
from ether_broker.envelope.status import Status
from ether_broker.errors import InvalidEnvelope, LeaseDeadlock, LeaseHeld, TooManyLeases
from ether_broker.number import is_number
from ether_broker.text import brief
from ether_broker.transport.sessions.cost import LEASES_SHIFT
from ether_broker.wire.frame import read_header

__all__ = ["RELEASED_PER_STEP", "LeaseService"]

RELEASED_PER_STEP: Final = 128
"""The budget of a step: leases released and claims ended because their delegations have ended. Half as much is added where what
ended in the step used it up."""
_TURN: Final = 16
"""The part of the budget that one delegation may use before another has its turn."""
_TOLD_SHIFT: Final = 8
"""A point for so many characters of a name that is told, as a power of two."""
_SHOWN: Final = 100
"""Claims that are shown of those that wait for a lease."""
_REFUSALS: Final = {
    LeaseHeld: Status.REJECTED_OVERLOAD,
    TooManyLeases: Status.REJECTED_OVERLOAD,
    LeaseDeadlock: Status.FAILED_EXECUTION,
}
_ENDED: Final = "The delegation that was to hold the lease has ended."


class LeaseService:
    """The part of the supervisor that grants and releases leases."""

    def __init__(self, state: BrokerState, delivery: Delivery) -> None:
        self._state = state
        self._delivery = delivery
        self.leases: Final[LeaseTable] = state.leases
        self.job: Job = Job(state.schedule, self._go_on, most=OWN)
        self._share = StepShare(state.schedule, RELEASED_PER_STEP)
        state.ledger.bound = self.leases.bound
        state.ledger.on_left = self._left

    # -- asked ---------------------------------------------------------------------------------------------------

    def claim(self, entry: Entry, params: dict[str, Any]) -> None:
        """Do `ether.lease`: it ends when the lease is granted, at its deadline, or when the wait is over.

        Raises:
            InvalidEnvelope: the params do not fit.
            Rejection: who asks cannot hold the lease, or not now.
        """
        state = self._state
        resource, wait = _resource(params), _wait(params)
        holder = _holder(entry, params)
        deadline = min(entry.deadline, entry.opened + wait)
        account = holder.agent.session.account
        claim = Claim(entry.request_id, resource, holder.agent.manifest.agent, holder.request_id, deadline, account)
        self._keep_up()
        try:
            effects = self.leases.claim(claim, state.now, may_wait=wait > 0)
        except (LeaseHeld, TooManyLeases, LeaseDeadlock) as refused:
            raise Rejection(
                _REFUSALS[type(refused)], refused.code, str(refused), retryable=refused.retryable
            ) from None  # fmt: skip
        finally:
            told = len(resource) >> _TOLD_SHIFT
            entry.asking_session.input.spend(told + (self.leases.looked_at >> LEASES_SHIFT))
        if not effects:
            state.ledger.shorten_deadline(entry, deadline)
        self._apply(effects)

    def _keep_up(self) -> None:
        """Have the next token be above the microseconds since 1970, and so above those that another bus has granted before."""
        self.leases.begin_above(int(self._state.wall * 1e6))

    def release(self, entry: Entry, params: dict[str, Any]) -> Payload:
        """Do `ether.release`; a lease that the parent does not hold (any more) is none to release.

        Raises:
            InvalidEnvelope: the params do not fit.
        """
        token, holder = params.get("token"), entry.parent
        if type(token) is not int:
            msg = f"params.token is {brief(token)} and has to be a lease's token."
            raise InvalidEnvelope(msg)
        effects: list[Effect] = []
        if holder is not None and holder.agent.session is entry.asking_session:
            self._keep_up()
            effects = self.leases.release(holder.request_id, token, self._state.now)
            entry.asking_session.input.spend(self.leases.looked_at >> LEASES_SHIFT)
        self._apply(effects)
        return Payload.of({"released": bool(effects)})

    # -- endings -------------------------------------------------------------------------------------------------

    def late(self, entry: Entry) -> bool:
        """End a claim whose time is over; False if the delegation is none that waits for a lease."""
        claim = self.leases.waiting(entry.request_id)
        if claim is None:
            return False
        held = self.leases.holder(claim.resource)
        by = f"; {held.agent} holds it" if held is not None else ""
        message = f"Waited {self._state.now - claim.since:.1f} s for the lease on {claim.resource!r}{by}."
        self._delivery.rule(entry, Status.TIMEOUT, LeaseHeld.code, message)
        return True

    def _left(self, entry: Entry) -> None:
        """A delegation has ended, or waits in a mailbox again: what it held goes to the next in line.

        Of one that has ended so much at once as this step may, and the rest later; the specialist's node pays. One that waits
        again has nothing more when it is given out: a restart could not tell what was its earlier run's.
        """
        if not entry.is_over:
            self._keep_up()
            self._apply(self.leases.left(entry.request_id, "redelivered", self._state.now))
            return
        entry.agent.session.input.spend(self.leases.weight(entry.request_id))
        self._take(entry.request_id, self._share.left)
        if self.leases.ending:
            self.job.wake()

    def _go_on(self) -> float:
        """Take more from delegations that have ended, each in its turn."""
        ending, share = self.leases.ending, self._share
        share.keep_half()
        while ending and share.left > 0:
            holder = next(iter(ending))
            ending.move_to_end(holder)
            self._take(holder, min(_TURN, share.left))
        return 0.0 if ending else inf

    def _take(self, holder: bytes, most: int) -> None:
        self._keep_up()
        effects = self.leases.left(holder, "ended", self._state.now, max(most, 0))
        told = sum(len(effect.held.resource) for effect in effects if not isinstance(effect, Withdrawn))
        self._share.spend(len(effects) + (told >> _TOLD_SHIFT) + (self.leases.looked_at >> LEASES_SHIFT))
        self._apply(effects)

    def _apply(self, effects: list[Effect]) -> None:
        state = self._state
        for effect in effects:
            match effect:
                case Granted(claim, held):
                    state.event("lease_granted", **_named(held))
                    asking = state.ledger.get(claim.ask)
                    assert asking is not None
                    data = Payload.of({"resource": held.resource, "token": held.token})
                    self._delivery.answer(asking, Status.COMPLETED, data=data)
                case Released(held, reason):
                    self.tell_released(held, reason)
                case Withdrawn(claim):
                    asking = state.ledger.get(claim.ask)
                    if asking is not None:
                        self._delivery.rule(asking, Status.CANCELLED, "parent_ended", _ENDED)

    def tell_released(self, held: Held, reason: str) -> None:
        """Tell observers and the journal that a lease is not held any more."""
        self._state.event("lease_released", **_named(held), reason=reason)

    def tell(self, resource: str | None, after: int) -> Iterator[tuple[int, dict[str, Any] | None]]:
        """The leases with tokens above one, the oldest first, or that on one resource: who holds it, and who waits.

        None for one whose delegation has ended: it is nobody's any more, and not the next one's yet.
        """
        held = self.leases.after(after)
        if resource is not None:
            one = self.leases.holder(resource)
            held = iter([] if one is None or one.token <= after else [one])
        ending = self.leases.ending
        return ((lease.token, None if lease.holder in ending else self._describe(lease)) for lease in held)

    def _describe(self, held: Held) -> dict[str, Any]:
        now = self._state.now
        entry = self._state.ledger.get(held.holder)
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


def _holder(entry: Entry, params: dict[str, Any]) -> Entry:
    """The delegation that is to hold the lease; in the hands of who asks, and of no earlier attempt."""
    holder = entry.parent
    if holder is None and read_header(entry.envelope).parent != NO_ID:  # it ended while the broker was away
        raise Rejection(Status.CANCELLED, "parent_ended", _ENDED)
    if holder is None:
        message = "A lease belongs to a delegation: ask for it in its handler, with task.lease(...)."
        raise Rejection(Status.REJECTED_CONTEXT, "no_parent", message)
    if params.get("attempt", holder.attempt) != holder.attempt:
        message = "The delegation that is to hold the lease runs elsewhere by now."
        raise Rejection(Status.CANCELLED, "parent_ended", message)
    if holder.agent.session is not entry.asking_session or holder.state is State.QUEUED:
        message = "The delegation that is to hold the lease was not given to who asks for it."
        raise Rejection(Status.REJECTED_CONTEXT, "not_your_parent", message)
    return holder


def _named(held: Held) -> dict[str, Any]:
    request_id = to_text(held.holder)
    return {"resource": held.resource, "agent": held.agent, "request_id": request_id, "token": held.token}


def _resource(params: dict[str, Any]) -> str:
    resource = params.get("resource")
    if not isinstance(resource, str) or not is_resource(resource):
        shown = brief(resource)
        msg = f"params.resource is {shown} and has to be a printable text of 1 to {MAX_RESOURCE:,} bytes."
        raise InvalidEnvelope(msg)
    return resource


def _wait(params: dict[str, Any]) -> float:
    wait = params.get("wait")
    if wait is None:
        return LONGEST_TIMEOUT
    if not is_number(wait) or wait < 0:
        msg = f"params.wait is {brief(wait)} and has to be seconds, 0 or more; without it the deadline decides."
        raise InvalidEnvelope(msg)
    return min(float(wait), LONGEST_TIMEOUT)
