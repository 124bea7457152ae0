"""How the supervisor rules on delegations, responses, cancellations and deadlines. Sans-IO.

Rulings ──► Selection       whom a delegation goes to
        ──► Reassignment    what is handed back
        ──► Delivery        what leaves for specialists and delegators

docs/guarantees.md says what holds after each ruling.
"""

from __future__ import annotations

from typing import Final

from ether_actors.deadlines import DEFAULT_TIMEOUT, LONGEST_TIMEOUT
from ether_actors.delivery import Delivery
from ether_actors.ledger import Entry, State
from ether_actors.reassignment import Reassignment
from ether_actors.records import Records
from ether_actors.refusal import Refusal, broker_full, forged, overload
from ether_actors.selection import Selection
from ether_broker.dead_letters import Reason
from ether_broker.ids import NO_ID
from ether_broker.mailbox import Offer
from ether_broker.router import Session
from ether_broker.status import RUNNING, Status
from ether_broker.wire import Flag, Header, rehead

__all__ = ["Rulings"]

_HANDED_BACK: Final = int(Flag.HANDED_BACK)  # an IntFlag's & costs ten times an int's
_RESENT: Final = int(Flag.RESENT)
_ROUTED: Final = int(Flag.ROUTED)
_STATUSES: Final = {status.value: status for status in Status if status is not Status.TIMEOUT}


class Rulings:
    """The supervisor's rulings on work."""

    def __init__(
        self, records: Records, delivery: Delivery, selection: Selection, reassignment: Reassignment
    ) -> None:  # fmt: skip
        self._records = records
        self._delivery = delivery
        self._selection = selection
        self._reassignment = reassignment

    # -- delegations ---------------------------------------------------------------------------------------------

    def delegation(self, session: Session, header: Header, envelope: bytes) -> None:
        """Accept a delegation, or answer it at once."""
        records = self._records
        ledger = records.ledger
        if ledger.get(header.request_id) is not None or ledger.has_ended(header.request_id):
            if not header.flags & _RESENT:
                records.bury(Reason.DUPLICATE, envelope, session, "the same request came before")
            return
        if header.flags & _RESENT and records.uncollected.owner(header.request_id) is not None:
            return  # refused, and the refusal waits to be collected
        if records.journal.trouble is not None:
            records.refuse_unwritten(session, header)
            return
        try:
            self._accept(session, header, envelope)
        except Refusal as refusal:
            records.passing.append(envelope)
            if refusal.reason is Reason.FORBIDDEN:
                records.router.refusals.note(session.node, refusal.error.code, refusal.error.message)
            if refusal.reason is not None:
                records.bury(refusal.reason, envelope, session, refusal.error.message)
            records.answer(session, header, refusal.status, refusal.error, **refusal.fields)
            self._delivery.count(refusal.status, None)

    def _accept(self, session: Session, header: Header, envelope: bytes) -> None:
        records = self._records
        now = records.now
        if header.source not in session.agents:
            raise forged(header)
        deadline = header.deadline or now + DEFAULT_TIMEOUT
        ancestors = self._selection.ancestors(header) if header.parent != NO_ID else []
        if ancestors:
            deadline = min(deadline, ancestors[0].deadline)
        deadline = min(deadline, now + LONGEST_TIMEOUT)
        if not deadline > now:  # NaN is no deadline that could be kept either
            message = "The deadline had passed when the delegation reached the broker; it was not started."
            raise Refusal(Status.TIMEOUT, "expired", message, reason=Reason.EXPIRED)
        choice = self._selection.choose(session.node, header, ancestors)
        agent = choice.agent
        if header.target != agent.name or header.capability != choice.name or header.deadline != deadline:
            flags = header.flags if header.target else header.flags | _ROUTED
            envelope = rehead(
                header, envelope, target=agent.name, capability=choice.name, deadline=deadline, flags=flags
            )  # fmt: skip
        entry = Entry(header, envelope, session, choice, pinned=bool(header.target), deadline=deadline, now=now)
        if records.ledger.size + entry.size > agent.mailbox.limits.total:
            raise broker_full(records.ledger.size)
        offer = agent.mailbox.offer(entry)
        if offer is Offer.FULL:
            raise overload(agent)
        records.ledger.open(entry)
        records.accepted += 1
        records.passing.append(envelope)
        if offer is Offer.SEND:
            self._delivery.send(entry)

    # -- responses -----------------------------------------------------------------------------------------------

    def response(self, session: Session, header: Header, envelope: bytes) -> None:
        """Take a specialist's response; what is illegal, twice or late becomes a dead letter and changes nothing."""
        records = self._records
        entry = records.ledger.get(header.request_id)
        status = _STATUSES.get(header.status)
        if entry is None:
            self._late(session, header, envelope, status)
            return
        if status is Status.CANCELLED and header.attempt < entry.attempt:
            return  # confirms the CANCEL of an earlier attempt
        if header.source != entry.agent.name or session is not entry.agent.session:
            detail = f"the delegation was given to {entry.agent.manifest.agent}"
            reason = Reason.NOT_THE_SPECIALIST if header.source in session.agents else Reason.FORGED
            if reason is not Reason.FORGED and header.attempt < entry.attempt:
                reason = Reason.LATE  # it was given to that one too, whose node was lost
            records.bury(reason, envelope, session, detail)
        elif header.attempt != entry.attempt:
            records.bury(Reason.LATE, envelope, session, f"attempt {entry.attempt} is under way")
        elif status is None or entry.state is State.QUEUED:
            detail = f"status {header.status} for a delegation that is {entry.state.name}"
            records.bury(Reason.ILLEGAL, envelope, session, detail)
        elif status in RUNNING:
            records.ledger.advance(entry, State.RUNNING)
            self._delivery.forward(entry, envelope)
            records.passing.append(envelope)
        elif header.flags & _HANDED_BACK and entry.state is State.RUNNING:
            records.bury(Reason.ILLEGAL, envelope, session, "handed back after it was started")
        elif header.flags & _HANDED_BACK:
            self._reassignment.handed_back(entry)
        else:
            self._delivery.finish(entry, status, envelope)

    def _late(self, session: Session, header: Header, envelope: bytes, status: Status | None) -> None:
        records = self._records
        if status in RUNNING:
            return  # progress that crossed the outcome on its way
        held = records.ledger.held(header.request_id)
        if held is not None and held.agent.session is session and held.agent.name == header.source:
            records.ledger.forget(held)
            held.agent.mailbox.release()
            self._delivery.pump(held.agent)
            if status is not Status.CANCELLED and not header.flags & _HANDED_BACK:
                records.bury(Reason.LATE, envelope, session, "the delegation had ended")
            return
        known = records.ledger.has_ended(header.request_id)
        if known and header.flags & _RESENT and records.ledger.ended_by(header.request_id) == header.source:
            return  # it arrived the first time; only its receipt was lost
        reason = Reason.UNKNOWN_REQUEST
        if known:  # its own answer once more; or somebody else ended it, as the supervisor does when a node is lost
            is_again = records.ledger.ended_by(header.request_id) == header.source
            reason = Reason.DUPLICATE if is_again else Reason.LATE
        if known and status is Status.CANCELLED:
            return  # confirms a CANCEL that crossed the answer on its way
        if header.source not in session.agents:
            reason = Reason.FORGED
        records.bury(reason, envelope, session)

    # -- endings without an answer -------------------------------------------------------------------------------

    def cancel(self, session: Session, header: Header, envelope: bytes) -> None:
        """Call a delegation off for its delegator; one that has ended stays as it is."""
        entry = self._records.ledger.get(header.request_id)
        if entry is None:
            return
        if entry.source != header.source or header.source not in session.agents:
            self._records.bury(Reason.FORGED, envelope, session, "only the delegator may cancel")
            return
        self._delivery.rule(entry, Status.CANCELLED, "cancelled", "The delegator called it off.")

    def due(self) -> None:
        """End what has passed its deadline."""
        records = self._records
        for entry in records.ledger.deadlines.due(records.now):
            if entry.is_over:
                continue  # it ended with its parent, a moment ago
            if entry.state is State.QUEUED:
                self._delivery.expire(entry)
            else:
                message = f"{entry.agent.manifest.agent} had not answered after {records.now - entry.opened:.1f} s."
                self._delivery.rule(entry, Status.TIMEOUT, "deadline", message)
