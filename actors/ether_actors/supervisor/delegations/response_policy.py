"""The supervisor's rulings on responses and cancellations: which of them count, and what becomes of the others. Sans-IO."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ether_actors.supervisor.delegations.delivery import Delivery
from ether_actors.supervisor.delegations.progress import Progress
from ether_actors.supervisor.delegations.reassignment import Reassignment
from ether_actors.supervisor.registry.registration import Registration
from ether_actors.supervisor.state.broker_state import BrokerState
from ether_actors.supervisor.state.ledger import Entry, State
from ether_broker.dead_letters import Reason
from ether_broker.envelope.names import check_names
from ether_broker.envelope.status import BY_CODE, INTERIM, Status
from ether_broker.transport.sessions.session import Session
from ether_broker.wire.frame import Flag, Header, rehead

__all__ = ["ResponsePolicy"]

_QUEUED: Final = State.QUEUED  # a member of an Enum costs a look-up each time that it is named
_RUNNING: Final = State.RUNNING
_CANCELLED: Final = Status.CANCELLED
_HANDED_BACK: Final = int(Flag.HANDED_BACK)  # an IntFlag's & costs ten times an int's
_RESENT: Final = int(Flag.RESENT)
_STATE: Final = int(Flag.STATE)
_ENDING: Final = int(Flag.UNCOLLECTED | Flag.REFUSED)
"""What only the broker says of an outcome."""
_STATUSES: Final = {code: status for code, status in BY_CODE.items() if status is not Status.TIMEOUT}


class ResponsePolicy:
    """The rulings on what specialists answer, and on what delegators cancel.

    Args:
        progress: takes what is no outcome yet.
        take_state: saves the state that an answer brings, and gives the answer without it.
        may_speak_for: whether a session may say what became of an agent's work though the agent is not registered in it (yet).
    """

    def __init__(  # noqa: PLR0917  made once, in one place
        self, state: BrokerState, delivery: Delivery, reassignment: Reassignment, progress: Progress,
        may_speak_for: Callable[[Session, Registration], bool],
        take_state: Callable[[Session, bytes], tuple[Header, bytes]],
    ) -> None:  # fmt: skip
        self._state = state
        self._delivery = delivery
        self._reassignment = reassignment
        self._progress = progress
        self._may_speak_for = may_speak_for
        self._take_state = take_state

    def response(self, session: Session, header: Header, envelope: bytes) -> None:  # noqa: C901  on each one's way
        """Take a specialist's response; what is illegal, twice or late becomes a dead letter and changes nothing."""
        if header.flags & _STATE:
            header, envelope = self._take_state(session, envelope)
        entry = self._state.ledger.get(header.request_id)
        status = _STATUSES.get(header.status)
        if entry is None:
            check_names(header.source, header.target, header.capability)
            self._late(session, header, envelope, status)
            return
        agent = entry.agent
        if header.target != entry.source or header.capability != entry.capability or header.flags & _ENDING:
            envelope = _addressed(header, envelope, entry)
        is_its = session is agent.session or self._may_speak_for(session, agent)
        if header.source != agent.name or not is_its or header.attempt != entry.attempt:
            check_names(header.source, header.target, header.capability)
            self._stray(session, header, envelope, entry, status)
        elif status is None or entry.state is _QUEUED:
            detail = f"status {header.status} for a delegation that is {entry.state.name}"
            self._state.keep_dead_letter(Reason.ILLEGAL, envelope, session, detail)
        elif header.status in INTERIM:
            self._progress.take(entry, status, envelope)
        elif header.flags & _HANDED_BACK and entry.state is _RUNNING:
            self._state.keep_dead_letter(Reason.ILLEGAL, envelope, session, "handed back after it was started")
        else:
            if (
                session is not agent.session
            ):  # the node holds it no more, and must not be told to stop what it may get again
                session.holding.get(agent.name, {}).pop(header.request_id, None)
            if header.flags & _HANDED_BACK:
                self._reassignment.handed_back(entry)
                return
            if entry.progress is not None:
                self._progress.flush(entry)
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
        self._state.keep_dead_letter(reason, envelope, session, detail)

    def _late(self, session: Session, header: Header, envelope: bytes, status: Status | None) -> None:
        state = self._state
        if header.status in INTERIM:
            return  # progress that crossed the outcome on its way
        agent = state.registry.get(header.source)
        ended = agent.ended_at_node.get(header.request_id) if agent is not None else None
        if ended is not None and ended.agent.session is session:
            state.ledger.forget(ended)
            ended.agent.mailbox.release()
            self._delivery.send_waiting(ended.agent)
            if status is not _CANCELLED and not header.flags & _HANDED_BACK:
                state.keep_dead_letter(Reason.LATE, envelope, session, "the delegation had ended")
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
        state.keep_dead_letter(reason, envelope, session)

    def cancel(self, session: Session, header: Header, envelope: bytes) -> None:
        """Cancel a delegation for its delegator; one that has ended stays as it is."""
        entry = self._state.ledger.get(header.request_id)
        if entry is None:
            return
        if entry.source != header.source or header.source not in session.agents:
            self._state.keep_dead_letter(Reason.FORGED, envelope, session, "only the delegator may cancel")
            return
        self._delivery.rule(entry, Status.CANCELLED, "cancelled", "The delegator cancelled it.")


def _addressed(header: Header, envelope: bytes, entry: Entry) -> bytes:
    """A response as it goes on: observers choose by its names and the journal believes its flags, so they are the ledger's."""
    flags = header.flags & ~_ENDING
    return rehead(header, envelope, target=entry.source, capability=entry.capability, flags=flags)
