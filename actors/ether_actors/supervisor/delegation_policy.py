"""The supervisor's rulings on delegations: which are accepted, which came before, and which are rejected. Sans-IO.

DelegationPolicy ──► RecipientPolicy   whom a delegation goes to, as far as its delegator may reach them
                 ──► Administration    what is asked of the bus itself
                 ──► OutcomeReplay     the outcome of what came before
                 ──► Delivery          what leaves for specialists and delegators
                 ──► RejectionPolicy   the answer to what is not accepted, and whether it is a dead letter

docs/guarantees.md says what holds after each ruling.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ether_actors.supervisor.capabilities.administration import Administration
from ether_actors.supervisor.delegations.delivery import Delivery
from ether_actors.supervisor.delegations.recipient_policy import RecipientPolicy
from ether_actors.supervisor.delegations.rejection import (
    Rejection,
    RejectionPolicy,
    broker_full,
    forged,
    id_ahead,
    overload,
    too_deep,
)
from ether_actors.supervisor.membership.outcome_replay import OutcomeReplay
from ether_actors.supervisor.registry.registration import Condition, Registration
from ether_actors.supervisor.state.broker_state import BrokerState
from ether_actors.supervisor.state.ledger import Entry
from ether_broker.dead_letters import Reason
from ether_broker.envelope.delegation import DEFAULT_TIMEOUT, LONGEST_TIMEOUT
from ether_broker.envelope.ids import NO_ID, to_text
from ether_broker.envelope.manifest.manifest import ANY
from ether_broker.envelope.names import BUS_PREFIX
from ether_broker.envelope.priority import NOT_NORMAL
from ether_broker.envelope.response import ErrorInfo
from ether_broker.envelope.status import Status
from ether_broker.errors import JournalCorrupt, JournalUnavailable
from ether_broker.mailbox.mailbox import Offer
from ether_broker.transport.sessions.cost import LOOK_UP
from ether_broker.transport.sessions.session import Session
from ether_broker.wire.frame import Flag, Header, name_of, read_header, rehead

__all__ = ["MAX_CHAIN", "DelegationPolicy"]

MAX_CHAIN: Final = 128
"""Delegations in a chain; a longer one is taken for a runaway recursion."""
_SEND: Final = Offer.SEND  # a member of an Enum costs a look-up each time that it is named
_FULL: Final = Offer.FULL
_MOVING: Final = Condition.MOVING
_RELEASE: Final = b"ether.release"
"""What may be done while the journal cannot be written: it lets others go on."""
_ANOTHERS: Final = (
    "Another delegator has a delegation of this id, or had one: to send that request again, connect under the name that it "
    "was sent from, as in Runtime.connect(url, name=…); for other work choose another request id."
)
_UNREAD: Final = "Whether it came before, and how it ended then, cannot be read."
_RESENT: Final = int(Flag.RESENT)  # an IntFlag's & costs ten times an int's
_VOLATILE: Final = int(Flag.VOLATILE)
_FALLTHROUGH: Final = int(Flag.FALLTHROUGH)
_BROKER_LOST: Final = "Its broker was lost, and it did not wait for the journal: nobody knows whether it ran."
_ROUTED: Final = int(Flag.ROUTED)
_DELEGATORS: Final = int(Flag.RESENT | Flag.VOLATILE | Flag.FALLTHROUGH) | NOT_NORMAL
"""What a delegator may set; the others only the broker says."""


class DelegationPolicy:
    """The rulings on what delegators ask for."""

    def __init__(
        self, state: BrokerState, delivery: Delivery, recipients: RecipientPolicy, administration: Administration,
        replay: OutcomeReplay,
    ) -> None:  # fmt: skip
        self._state = state
        self._delivery = delivery
        self._recipients = recipients
        self._administration = administration
        self._replay = replay
        self._rejection_policy = RejectionPolicy(state, delivery)
        self.on_given_while_down: Callable[[Registration], None] = lambda _agent: None
        """Told of an agent that moves, and for which work waits now."""

    def delegation(self, session: Session, header: Header, envelope: bytes) -> None:
        """Accept a delegation, or answer it at once."""
        state, ended = self._state, self._state.ended
        request_id = header.request_id
        may_be_known = state.ledger.get(request_id) is not None or ended.may_know(request_id)
        unheard = ended.uncollected.get(request_id)  # perhaps rejected outside the journal
        is_known = (may_be_known or (unheard is not None and unheard[0] != header.source)) and self._is_known(
            session, header, envelope
        )
        if is_known:
            return
        if state.journal.trouble is not None and (header.capability != _RELEASE or state.is_behind):
            state.reject_unwritten(session, header, state.journal.trouble)
            return
        if header.attempt != 1 or header.flags & ~_DELEGATORS:
            flags = header.flags & _DELEGATORS
            envelope = rehead(header, envelope, attempt=1, flags=flags)
            header = header._replace(attempt=1, flags=flags)
        try:
            self._accept(session, header, envelope)
        except Rejection as rejection:
            self._rejection_policy.answer(session, header, envelope, rejection, is_anothers=is_known is None)

    def _is_known(self, session: Session, header: Header, envelope: bytes) -> bool | None:
        """As `_came_before`; if the journal cannot be read, the request is rejected."""
        try:
            return self._came_before(session, header, envelope)
        except JournalUnavailable as error:
            self._state.reject_unwritten(session, header, error)
        except JournalCorrupt as error:
            self._state.session_table.refusals.note(session.node, error.code, error)
            unread = ErrorInfo(code=error.code, message=f"{_UNREAD} {error}")
            self._state.tell(session, header.request_id, Status.FAILED_EXECUTION, unread)
        return True

    def _came_before(
        self, session: Session, header: Header, envelope: bytes
    ) -> bool | None:  # fmt: skip
        """Fold a request that came before into the first: its delegator gets the same outcome, if it has one (G1, G2).

        The same is what has its id and asks for the same capability, as far as the first one's is still known.

        Returns:
            Whether it came before; None if another delegator's rejected request has this id.
        """
        state, request_id, resent = self._state, header.request_id, header.flags & _RESENT
        is_own, first, capability = header.source in session.agents, header.source, b""
        entry = state.ledger.get(request_id)
        if entry is not None:
            first, capability = entry.source, entry.capability
            if is_own and _is_same(header, first, capability):
                self._replay.go_on(session, entry)
        elif self._is_free(session, header):
            return None
        else:
            outcome = state.outcome(request_id)
            session.input.spend(LOOK_UP)
            is_unheard = state.was_rejected_aside(request_id, outcome)
            if is_unheard and state.ended.uncollected[request_id][0] == first:
                return False  # it is taken now
            if outcome is None and request_id not in state.ended:
                return self._is_lost(session, header, envelope)
            if outcome is not None:
                said = read_header(outcome)
                first, capability = said.target, said.capability
            if is_own and _is_same(header, first, capability):
                self._answer_again(session, request_id, outcome)
        what = "the same" if _is_same(header, first, capability) else "another"
        if is_own and what == "another":
            self._reject_id(session, header, first, capability)
        if not resent:
            state.keep_dead_letter(Reason.DUPLICATE, envelope, session, f"{what} request came before")
        return True

    def _is_lost(self, session: Session, header: Header, envelope: bytes) -> bool:
        """Whether a request of which nothing is known may have come before all the same; then it is told so, or waits."""
        state, forgotten_to = self._state, self._state.ended.forgotten_to
        if state.is_unread:
            session.input.block(envelope, lambda: state.durable > forgotten_to)
            return True
        is_removed = bool(header.flags & _RESENT) and state.may_be_removed(header.request_id)
        if is_removed:
            self._tell_removed(session, header.request_id)
        return is_removed

    def _reject_id(self, session: Session, header: Header, first: bytes, capability: bytes) -> None:
        yours = f"This id is that of your {name_of(capability)}: choose another request id."
        error = ErrorInfo(code="duplicate_request", message=yours if first == header.source else _ANOTHERS)
        self._state.tell(session, header.request_id, Status.REJECTED_CONTEXT, error)

    def _is_free(self, session: Session, header: Header) -> bool:
        """Whether this id was rejected for another delegator, which has acknowledged it: the id is free."""
        ended, request_id = self._state.ended, header.request_id
        ending = ended.get(request_id)
        if ending is None or ending.by or request_id in ended.uncollected:
            return False
        source = ending.source
        if not source:  # of a question to the bus the refusal alone says whose it was
            session.input.spend(LOOK_UP)
            outcome = self._state.outcome(request_id)
            source = header.source if outcome is None else read_header(outcome).target
        return source != header.source and not self._replay.is_on_its_way(request_id, source, payer=session)

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

    def _accept(self, session: Session, header: Header, envelope: bytes) -> None:  # noqa: C901, PLR0912  on each one's way
        state = self._state
        now = state.now
        if header.source not in session.agents:
            raise forged(header)
        if header.request_id > state.ids_ahead.near and not state.ids_ahead.takes(header.request_id, state.wall):
            raise id_ahead(header, state.wall)
        if header.request_id in state.ended.uncollected:  # it was rejected outside the journal, unheard
            state.ended.collected(header.request_id)
            state.event("outcomes_collected", outcomes=[header.request_id])
        if header.flags & _RESENT and header.flags & _VOLATILE and self._may_have_run(session, header):
            raise Rejection(Status.FAILED_EXECUTION, "broker_lost", _BROKER_LOST)
        parent = self._parent(header) if header.parent != NO_ID else None
        deadline = header.deadline
        if parent is not None or not now < deadline <= now + LONGEST_TIMEOUT:
            deadline = _deadline(header, parent, now)
        is_question = header.capability.startswith(BUS_PREFIX)
        if is_question:
            choice = self._administration.choose(session, header, envelope)
        else:
            choice = self._recipients.choose(session.node, header, parent)
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
        if not state.ledger.has_room(entry.account, entry.size, of_question=is_question):
            raise broker_full(state.ledger, entry.account)
        if is_question:
            state.ledger.open(entry)
            state.pass_on(session, envelope)
            self._administration.do(entry)
            return
        offer = agent.mailbox.offer(entry)
        if offer is _FULL:
            raise overload(agent)
        state.ledger.open(entry)
        state.accepted += 1
        state.pass_on(session, envelope)
        if not is_named and (header.target or choice.capability.name == ANY):
            state.event(
                "fell_through", request_id=to_text(header.request_id), named=name_of(header.target) or None,
                found="fallback" if choice.capability.name == ANY else "capability", agent=agent.manifest.agent,
                capability=name_of(choice.name),
            )  # fmt: skip
        if offer is _SEND:
            self._delivery.send(entry)
        elif agent.condition is _MOVING:
            self.on_given_while_down(agent)

    def _parent(self, header: Header) -> Entry:
        """The open delegation that a delegation is made for, as its header says.

        Raises:
            Rejection: its parent is unknown, has ended, is not its delegator's, or is as deep as a chain may be.
        """
        state = self._state
        parent = state.ledger.get(header.parent)
        if parent is None:
            if header.parent in state.ended:
                message = "The delegation that this one was made for has ended, and its sub-delegations with it."
                raise Rejection(Status.CANCELLED, "parent_ended", message)
            message = "The bus knows no delegation that this one could be made for: leave `parent` out, or ask in its handler."
            raise Rejection(Status.REJECTED_CONTEXT, "unknown_parent", message, unexpected_fields=("parent",))
        if parent.agent.name != header.source:
            message = f"The parent was given to {name_of(parent.agent.name)}, not to {name_of(header.source)}."
            raise Rejection(Status.REJECTED_CONTEXT, "not_your_parent", message, unexpected_fields=("parent",))
        if parent.chain_length >= MAX_CHAIN:
            raise too_deep(parent)
        return parent

    def _may_have_run(self, session: Session, header: Header) -> bool:
        """Whether a broker before this one may have given it out: what did not wait for the journal may not be in there.

        There may have been one though the journal was empty: killed before its first commit. Its nodes come back soon.
        """
        state = self._state
        is_first = not state.has_recovered and not state.is_young
        return not is_first and not state.ended.is_new(header.request_id, session.incarnation)


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
