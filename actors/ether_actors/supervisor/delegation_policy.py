"""The supervisor's rulings on delegations, responses, cancellations and deadlines. Sans-IO.

DelegationPolicy ──► Selection       whom a delegation goes to
                 ──► Reassignment    what is handed back
                 ──► Delivery        what leaves for specialists and delegators

docs/guarantees.md says what holds after each ruling.
"""

from __future__ import annotations

from typing import Final

from ether_actors.supervisor.capabilities.administration import Administration
from ether_actors.supervisor.delegations.delivery import Delivery
from ether_actors.supervisor.delegations.progress import Progress
from ether_actors.supervisor.delegations.reassignment import Reassignment
from ether_actors.supervisor.delegations.rejection import Rejection, broker_full, forged, id_ahead, overload
from ether_actors.supervisor.delegations.selection import Selection
from ether_actors.supervisor.membership.outcome_replay import OutcomeReplay
from ether_actors.supervisor.state.broker_state import BrokerState
from ether_actors.supervisor.state.ledger import Entry, State, owner_of
from ether_actors.supervisor.state.round_robin import RoundRobin
from ether_actors.supervisor.state.schedule import Job
from ether_broker.dead_letters import Reason
from ether_broker.envelope.delegation import DEFAULT_TIMEOUT, LONGEST_TIMEOUT
from ether_broker.envelope.ids import NO_ID, to_text
from ether_broker.envelope.manifest import ANY
from ether_broker.envelope.names import BUS_PREFIX, check_names
from ether_broker.envelope.response import ErrorInfo
from ether_broker.envelope.status import INTERIM, Status
from ether_broker.errors import JournalCorrupt, JournalUnavailable
from ether_broker.mailbox import Offer
from ether_broker.transport.cost import ANSWER, LOOK_UP
from ether_broker.transport.session import Session
from ether_broker.wire.frame import Flag, Header, name_of, read_header, rehead

__all__ = ["DelegationPolicy"]

_QUEUED: Final = State.QUEUED  # a member of an Enum costs a look-up each time that it is named
_RUNNING: Final = State.RUNNING
_SEND: Final = Offer.SEND
_FULL: Final = Offer.FULL
_CANCELLED: Final = Status.CANCELLED
_RELEASE: Final = b"ether.release"
"""What may be done while the journal cannot be written: it lets others go on."""
_ANOTHERS: Final = (
    "Another delegator has a delegation of this id, or had one: to send that request again, connect under the name that it "
    "was sent from, as in Runtime.connect(url, name=…); for other work choose another request id."
)
_UNREAD: Final = "Whether it came before, and how it ended then, cannot be read."
_NOTICED: Final = 4_096
"""Deadlines that one step notices; ending them takes longer."""
_DUE: Final = 128
"""Deadlines that one step ends: what else waits is not held up by a hundred thousand of them."""
_UNWRITTEN: Final = 192
"""Envelopes of such endings that are not in the journal yet, beyond which a step ends only `_BEHIND` more."""
_BEHIND: Final = 4
"""For whoever has few: the first of those who had none come first."""
_HANDED_BACK: Final = int(Flag.HANDED_BACK)  # an IntFlag's & costs ten times an int's
_RESENT: Final = int(Flag.RESENT)
_VOLATILE: Final = int(Flag.VOLATILE)
_FALLTHROUGH: Final = int(Flag.FALLTHROUGH)
_NO_BODY: Final = b"\x80"
"""The empty map that the tap and the journal have for a refused body, or who may do nothing would fill the disk with them."""
_BROKER_LOST: Final = "Its broker was lost, and it did not wait for the journal: nobody knows whether it ran."
_ROUTED: Final = int(Flag.ROUTED)
_DELEGATORS: Final = int(Flag.RESENT | Flag.VOLATILE | Flag.FALLTHROUGH)
"""What a delegator may set; the others only the broker says."""
_ENDING: Final = int(Flag.UNCOLLECTED | Flag.REFUSED)
"""What only the broker says of an outcome."""
_STATUSES: Final = {status.value: status for status in Status if status is not Status.TIMEOUT}


class DelegationPolicy:
    """The supervisor's rulings on work."""

    def __init__(
        self, state: BrokerState, delivery: Delivery, selection: Selection, reassignment: Reassignment,
        *, administration: Administration, replay: OutcomeReplay,
    ) -> None:  # fmt: skip
        self._state = state
        self._delivery = delivery
        self._selection = selection
        self._reassignment = reassignment
        self._administration = administration
        self._replay = replay
        self.progress = Progress(state, delivery)
        """Signs of running work."""
        self._overdue: RoundRobin[str, Entry] = RoundRobin(_DUE)
        """What has passed its deadline and has not been ended yet, by whose it is (`owner_of`)."""
        self.job: Job = Job(state.schedule, self._end_overdue)
        state.ledger.deadlines.on_earlier = self.job.wake

    # -- delegations ---------------------------------------------------------------------------------------------

    def delegation(self, session: Session, header: Header, envelope: bytes) -> None:
        """Accept a delegation, or answer it at once."""
        state = self._state
        request_id = header.request_id
        may_be_known = state.ledger.get(request_id) is not None or state.ended.may_know(request_id)
        is_known = may_be_known and self._is_known(session, header, envelope)
        if is_known:
            return
        if state.journal.trouble is not None and header.capability != _RELEASE:
            state.refuse_unwritten(session, header, state.journal.trouble)
            return
        if header.attempt != 1 or header.flags & ~_DELEGATORS:
            flags = header.flags & _DELEGATORS
            envelope = rehead(header, envelope, attempt=1, flags=flags)
            header = header._replace(attempt=1, flags=flags)
        try:
            self._accept(session, header, envelope)
        except Rejection as refusal:
            self._refuse(session, header, envelope, refusal, is_anothers=is_known is None)

    def _refuse(
        self, session: Session, header: Header, envelope: bytes, refusal: Rejection, *, is_anothers: bool
    ) -> None:  # fmt: skip
        """Answer what is not accepted; what has another's request id, or is not to be remembered, is not journaled."""
        session.input.spend(refusal.hint())
        state, status, error = self._state, refusal.status, refusal.error
        is_kept = refusal.is_remembered and not is_anothers
        is_question = header.capability.startswith(BUS_PREFIX)
        if is_kept:
            state.passing.append(envelope[: header.body] + _NO_BODY)
        if refusal.reason is Reason.FORBIDDEN or not (refusal.is_remembered or refusal.reason):  # no other list has it
            state.session_table.refusals.note(session.node, error.code, error.message)
        if refusal.reason is not None:
            state.bury(refusal.reason, envelope, session, error.message)
        if not is_kept:
            session.input.spend(ANSWER)
            self._state.tell(session, header.request_id, status, error, b"", **refusal.fields)
            return
        state.answer(session, envelope, status, error, Flag.REFUSED, payer=session, **refusal.fields)
        if not is_question:
            self._delivery.count(status, None)

    def _is_known(self, session: Session, header: Header, envelope: bytes) -> bool | None:
        """As `_came_before`; where the journal cannot be read that tells it, this request is refused."""
        try:
            return self._came_before(session, header, envelope)
        except JournalUnavailable as error:
            self._state.refuse_unwritten(session, header, error)
        except JournalCorrupt as error:
            self._state.session_table.refusals.note(session.node, error.code, error)
            unread = ErrorInfo(code=error.code, message=f"{_UNREAD} {error}")
            self._state.tell(session, header.request_id, Status.FAILED_EXECUTION, unread)
        return True

    def _came_before(  # noqa: C901  each way to know of it
        self, session: Session, header: Header, envelope: bytes
    ) -> bool | None:  # fmt: skip
        """Fold a request that came before into the first: its delegator gets the same outcome, if it has one (G1, G2).

        The same is what has its id and asks for the same capability, as far as the first one's is still known.

        Returns:
            Whether it came before; None if it was refused to another, whom it is not to be taken from.
        """
        state, request_id, resent = self._state, header.request_id, header.flags & _RESENT
        is_own, first, capability = header.source in session.agents, header.source, b""
        entry = state.ledger.get(request_id)
        if entry is not None:
            first, capability = entry.source, entry.capability
            if is_own and _is_same(header, first, capability):
                self._replay.go_on(session, request_id)
        elif self._is_free(header):
            return None
        elif request_id in state.ended or state.journal.trouble is None:
            outcome = state.outcome(request_id)
            session.input.spend(LOOK_UP)
            if outcome is None and request_id not in state.ended:
                if not (resent and state.may_be_removed(request_id)):
                    return False
                self._tell_removed(session, request_id)
                return True
            if outcome is not None:
                said = read_header(outcome)
                first, capability = said.target, said.capability
            if is_own and _is_same(header, first, capability):
                self._answer_again(session, request_id, outcome)
        else:
            return False
        what = "the same" if _is_same(header, first, capability) else "another"
        if is_own and what == "another":
            self._refuse_id(session, header, first, capability)
        if not resent:
            state.bury(Reason.DUPLICATE, envelope, session, f"{what} request came before")
        return True

    def _refuse_id(self, session: Session, header: Header, first: bytes, capability: bytes) -> None:
        yours = f"This id is that of your {name_of(capability)}: choose another request id."
        error = ErrorInfo(code="duplicate_request", message=yours if first == header.source else _ANOTHERS)
        self._state.tell(session, header.request_id, Status.REJECTED_CONTEXT, error)

    def _is_free(self, header: Header) -> bool:
        """Whether a request of this id was refused to another, who has heard that: it is in nobody's way."""
        ended, request_id = self._state.ended, header.request_id
        ending = ended.get(request_id)
        was_refused = ending is not None and not ending.by and ending.source not in {header.source, b""}
        return was_refused and not ended.is_uncollected(request_id)

    def _answer_again(self, session: Session, request_id: bytes, outcome: bytes | None) -> None:
        state = self._state
        ending = state.ended.get(request_id)
        if outcome is not None:
            self._replay.again(session, request_id, outcome)
        elif ending is not None and ending.number < state.durable:  # else it is not in the journal yet
            self._tell_removed(session, request_id)

    def _tell_removed(self, session: Session, request_id: bytes) -> None:
        error = ErrorInfo(code="outcome_removed", message="It has ended, and its outcome is not kept any more.")
        self._state.tell(session, request_id, Status.FAILED_EXECUTION, error)

    def _accept(self, session: Session, header: Header, envelope: bytes) -> None:  # noqa: C901  on each one's way
        state = self._state
        now = state.now
        if header.source not in session.agents:
            raise forged(header)
        if header.request_id > state.ended.near and not state.ended.takes(header.request_id, state.wall):
            raise id_ahead(header, state.wall)
        if header.flags & _RESENT and header.flags & _VOLATILE and self._may_have_run(session, header):
            raise Rejection(Status.FAILED_EXECUTION, "broker_lost", _BROKER_LOST)
        parent = self._selection.parent(header) if header.parent != NO_ID else None
        deadline = header.deadline
        if parent is not None or not now < deadline <= now + LONGEST_TIMEOUT:
            deadline = _deadline(header, parent, now)
        is_question = header.capability.startswith(BUS_PREFIX)
        if is_question:
            choice = self._administration.choose(session, header, envelope)
        else:
            choice = self._selection.choose(session.node, header, parent)
        agent = choice.agent
        is_named = header.target == agent.name
        if not is_named or header.capability != choice.name or header.deadline != deadline:
            flags = header.flags if is_named else header.flags | _ROUTED
            envelope = rehead(
                header, envelope, target=agent.name, capability=choice.name, deadline=deadline, flags=flags
            )  # fmt: skip
        entry = Entry(
            header, envelope, session, choice, parent=parent, pinned=is_named and not header.flags & _FALLTHROUGH,
            deadline=deadline, now=now,
        )  # fmt: skip
        if state.ledger.size + entry.size > agent.mailbox.limits.total:
            raise broker_full(state.ledger.size)
        if is_question:
            state.ledger.open(entry)
            state.passing.append(envelope)
            self._administration.do(entry)
            return
        offer = agent.mailbox.offer(entry)
        if offer is _FULL:
            raise overload(agent)
        state.ledger.open(entry)
        state.accepted += 1
        state.passing.append(envelope)
        if not is_named and (header.target or choice.capability.name == ANY):
            state.event(
                "fell_through", request_id=to_text(header.request_id), named=name_of(header.target) or None,
                found="fallback" if choice.capability.name == ANY else "capability", agent=agent.manifest.agent,
                capability=name_of(choice.name),
            )  # fmt: skip
        if offer is _SEND:
            self._delivery.send(entry)

    def _may_have_run(self, session: Session, header: Header) -> bool:
        """Whether a broker before this one may have given it out: what did not wait for the journal may not be in there."""
        state = self._state
        return state.has_recovered and not state.ended.is_new(header.request_id, session.incarnation)

    # -- responses -----------------------------------------------------------------------------------------------

    def response(self, session: Session, header: Header, envelope: bytes) -> None:
        """Take a specialist's response; what is illegal, twice or late becomes a dead letter and changes nothing."""
        entry = self._state.ledger.get(header.request_id)
        status = _STATUSES.get(header.status)
        if entry is None:
            check_names(header.source, header.target, header.capability)
            self._late(session, header, envelope, status)
            return
        agent = entry.agent
        if header.target != entry.source or header.capability != entry.capability or header.flags & _ENDING:
            envelope = _addressed(header, envelope, entry)
        if header.source != agent.name or session is not agent.session or header.attempt != entry.attempt:
            check_names(header.source, header.target, header.capability)
            self._stray(session, header, envelope, entry, status)
        elif status is None or entry.state is _QUEUED:
            detail = f"status {header.status} for a delegation that is {entry.state.name}"
            self._state.bury(Reason.ILLEGAL, envelope, session, detail)
        elif status in INTERIM:
            self.progress.take(entry, status, envelope)
        elif header.flags & _HANDED_BACK:
            if entry.state is _RUNNING:
                self._state.bury(Reason.ILLEGAL, envelope, session, "handed back after it was started")
            else:
                self._reassignment.handed_back(entry)
        else:
            if entry.progress is not None:
                self.progress.flush(entry)
            self._delivery.finish(entry, status, envelope)

    def _stray(
        self, session: Session, header: Header, envelope: bytes, entry: Entry, status: Status | None
    ) -> None:  # fmt: skip
        """What is not from the specialist that works on a delegation now."""
        if status is _CANCELLED and header.attempt < entry.attempt:
            return  # confirms the CANCEL of an earlier attempt
        if header.source == entry.agent.name and session is entry.agent.session:
            reason, detail = Reason.LATE, f"attempt {entry.attempt} is under way"
        else:
            detail = f"the delegation was given to {entry.agent.manifest.agent}"
            reason = Reason.NOT_THE_SPECIALIST if header.source in session.agents else Reason.FORGED
            if reason is not Reason.FORGED and header.attempt < entry.attempt:
                reason = Reason.LATE  # it was given to that one too, whose node was lost
        self._state.bury(reason, envelope, session, detail)

    def _late(self, session: Session, header: Header, envelope: bytes, status: Status | None) -> None:
        state = self._state
        if status in INTERIM:
            return  # progress that crossed the outcome on its way
        agent = state.registry.get(header.source)
        held = agent.held.get(header.request_id) if agent is not None else None
        if held is not None and held.agent.session is session:
            state.ledger.forget(held)
            held.agent.mailbox.release()
            self._delivery.pump(held.agent)
            if status is not _CANCELLED and not header.flags & _HANDED_BACK:
                state.bury(Reason.LATE, envelope, session, "the delegation had ended")
            return
        ending = state.ended.get(header.request_id)
        is_again = ending is not None and ending.by == header.source
        if is_again and header.flags & _RESENT:
            return  # it arrived the first time; only its receipt was lost
        reason = Reason.UNKNOWN_REQUEST
        if ending is not None:  # its own answer once more; or somebody else ended it, as when a node is lost
            reason = Reason.DUPLICATE if is_again else Reason.LATE
        if ending is not None and status is _CANCELLED:
            return  # confirms a CANCEL that crossed the answer on its way
        if header.source not in session.agents:
            reason = Reason.FORGED
        state.bury(reason, envelope, session)

    # -- endings without an answer -------------------------------------------------------------------------------

    def cancel(self, session: Session, header: Header, envelope: bytes) -> None:
        """Call a delegation off for its delegator; one that has ended stays as it is."""
        entry = self._state.ledger.get(header.request_id)
        if entry is None:
            return
        if entry.source != header.source or header.source not in session.agents:
            self._state.bury(Reason.FORGED, envelope, session, "only the delegator may cancel")
            return
        self._delivery.rule(entry, Status.CANCELLED, "cancelled", "The delegator called it off.")

    def _end_overdue(self) -> float:
        """End a share of what has passed its deadline."""
        state, job, overdue = self._state, self.job, self._overdue
        for entry in state.ledger.deadlines.due(state.now, _NOTICED):
            overdue.put(owner_of(entry), entry)
        is_ahead = job.unwritten > _UNWRITTEN and state.journal.trouble is None
        for entry in overdue.take(_BEHIND if is_ahead else None):
            if entry.is_over:
                continue  # it ended with its parent, a moment ago
            if entry.agent is state.bus:
                self._administration.late(entry)
            elif entry.state is _QUEUED:
                self._delivery.expire(entry)
            else:
                message = f"{entry.agent.manifest.agent} had not answered after {state.now - entry.opened:.1f} s."
                self._delivery.rule(entry, Status.TIMEOUT, "deadline", message)
        if overdue.owners and not is_ahead:
            return 0.0
        if overdue.owners:
            job.pause()
        return state.ledger.deadlines.next()


def _is_same(header: Header, source: bytes, capability: bytes) -> bool:
    """Whether a request may be the one that this delegator's delegation of this capability was (`Manifest.resolve`).

    An empty capability is one that is not known any more.
    """
    asked = header.capability
    return header.source == source and (
        asked == capability or not capability or b"*" in (asked, capability)
        or capability.startswith(asked + b".") or capability.endswith(b"." + asked)
    )  # fmt: skip


def _deadline(header: Header, parent: Entry | None, now: float) -> float:
    deadline = header.deadline or now + DEFAULT_TIMEOUT
    if parent is not None:
        deadline = min(deadline, parent.deadline)
    deadline = min(deadline, now + LONGEST_TIMEOUT)
    if not deadline > now:  # NaN is no deadline that could be kept either
        message = "The deadline had passed when the delegation reached the broker; it was not started."
        raise Rejection(Status.TIMEOUT, "expired", message, reason=Reason.EXPIRED)
    return deadline


def _addressed(header: Header, envelope: bytes, entry: Entry) -> bytes:
    """A response as it goes on: observers choose by its names and the journal believes its flags, so they are the ledger's."""
    flags = header.flags & ~_ENDING
    return rehead(header, envelope, target=entry.source, capability=entry.capability, flags=flags)
