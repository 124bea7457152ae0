"""The state that the supervisor's parts share: members, ledger, tap and dead letters."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from ether_actors.supervisor.registry.registration import Registration
from ether_actors.supervisor.registry.registry import Registry
from ether_actors.supervisor.state.agent_states import AgentStates
from ether_actors.supervisor.state.ended import REMEMBERED, Ended
from ether_actors.supervisor.state.ids_ahead import IdsAhead
from ether_actors.supervisor.state.job_schedule import JobSchedule
from ether_actors.supervisor.state.lease_table import LeaseTable
from ether_actors.supervisor.state.ledger import Ledger
from ether_broker.dead_letters import DeadLetter, DeadLetters, Reason
from ether_broker.envelope.ids import to_text
from ether_broker.envelope.manifest.manifest import Manifest
from ether_broker.envelope.names import BUS_PREFIX, SUPERVISOR
from ether_broker.envelope.payload import pack
from ether_broker.envelope.response import ErrorInfo, Response
from ether_broker.envelope.status import Status
from ether_broker.errors import EtherError, JournalUnavailable
from ether_broker.journal.journal import Journal
from ether_broker.mailbox.mailbox import Mailbox
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.security.access_list import Access
from ether_broker.tap import Tap
from ether_broker.transport.sessions.account import Account
from ether_broker.transport.sessions.cost import ANSWER, DEAD_LETTER
from ether_broker.transport.sessions.memory_quota import MemoryQuota
from ether_broker.transport.sessions.session import Life, Session
from ether_broker.transport.sessions.session_table import SessionTable
from ether_broker.wire.codec import external_id, pack_response, read_response
from ether_broker.wire.frame import Flag, Header, Kind, mark, pack_envelope, read_header

if TYPE_CHECKING:
    from collections.abc import Callable

    from ether_broker.security.identity import Identity
    from ether_broker.transport.address import Address

    Identify = Callable[[Address], Identity | None]

__all__ = ["MOST_AHEAD", "MOST_UNWRITTEN", "OWN_AHEAD", "SHARED_AHEAD", "SHARED_FOR", "VOLATILE", "BrokerState"]

VOLATILE: Final = int(Flag.VOLATILE)
MOST_AHEAD: Final = 2 << 20
"""Bytes that wait for the journal, after which an owner's nodes wait if more than `OWN_AHEAD` of them are their doing."""
SHARED_AHEAD: Final = 512 << 10
"""The same while several owners have it written: what one says is behind so much of the others. One alone needs more in each
commit for all that its disk can do."""
OWN_AHEAD: Final = 256 << 10
SHARED_FOR: Final = 1.0
"""Seconds for which it counts as shared after another owner than the one before has caused something."""
MOST_UNWRITTEN: Final = 64 << 20
"""Bytes that wait for a journal in trouble, after which peers add nothing to them but what accepted work causes."""

_CHARGED: Final = frozenset({
    Reason.UNKNOWN_AGENT, Reason.NO_HOLDER, Reason.DUPLICATE, Reason.LATE, Reason.UNKNOWN_REQUEST,
    Reason.NOT_THE_SPECIALIST, Reason.FORGED, Reason.ILLEGAL, Reason.FORBIDDEN,
})  # fmt: skip
"""What is charged to the node that it comes from; the others are the bus's doing, or told with `retry_after`."""
_LEAST_KEPT: Final = 4 << 20
"""Bytes of the `MemoryQuota` also on a bus with little memory; else an eighth of what delegations may take."""
_RETRY_JOURNAL: Final = 1.0
_UNWRITTEN: Final = "takes no work now: its journal cannot be written"
_SUPERVISOR: Final = b"ether"
_ONLY_TOLD: Final = frozenset({"agent_scaled", "dead_letter", "loop_blocked"})
"""Events that any number of messages can cause, and that no recovery needs."""


class BrokerState:
    """The state of one broker, shared by the supervisor's parts; all of them run in the supervisor's thread.

    Args:
        limits: bounds of each mailbox.
        tap: envelopes that observers can still catch up on.
        journal: where what passed is kept.
        session_table: of this broker.
        make_id: makes the ids of events.
        identify: whose connection an address is, or None for one that nobody knows; None where there are no keys.
        access: who may do what; default: everybody everything.
        remembered: ended delegations that are told apart from unknown ones at least, without asking the journal.
    """

    def __init__(
        self, limits: Limits, tap: Tap, journal: Journal, session_table: SessionTable, make_id: Callable[[], bytes], *,
        identify: Identify | None = None, access: Access | None = None, remembered: int = REMEMBERED,
    ) -> None:  # fmt: skip
        self.session_table = session_table
        self.identify = identify
        """Whose connection an address is; None where connections have no keys."""
        self.access: Access = access or Access.open()
        """Who may do what."""
        self.registry: Registry = Registry(limits, self.access)
        self.ledger: Ledger = Ledger(limits.delegation_bytes)
        self.memory: MemoryQuota = MemoryQuota(max(_LEAST_KEPT, limits.delegation_bytes >> 3))
        """Of leases, monitors, observers, and outcomes that are asked for again."""
        self.leases: LeaseTable = LeaseTable(self._parent_of, memory=self.memory)
        self.dead_letters: DeadLetters = DeadLetters()
        self.ended: Ended = Ended(most=remembered)
        self.ids_ahead: IdsAhead = IdsAhead()
        self.agent_states: AgentStates = AgentStates()
        self.bus: Registration = Registration(
            Manifest(agent=SUPERVISOR), _SUPERVISOR, Session("", b"", 0.0), Mailbox(limits)
        )
        """The agent that does what the bus itself is asked for; nobody can register it, and no list has it."""
        self.journal = journal
        self.tap = tap
        self.durable: int = tap.next
        """The number below which the journal can be read."""
        self.is_ending: bool = False
        """Whether the broker ends, and rules on all that has come."""
        self.unwritten: int = 0
        """Bytes that the journal has not committed: of this step what nodes caused, of those before all of it."""
        self.schedule: JobSchedule = JobSchedule(journal)
        """What the broker does of its own accord."""
        self.make_id = make_id
        self.passing: list[bytes] = []
        """What passed in this step; the tap numbers it at the step's end."""
        self.caused: dict[Account, int] = {}
        """{owner: bytes of it that its nodes caused}, where there is a journal."""
        self.most_ahead: int = MOST_AHEAD
        """That, or `SHARED_AHEAD`."""
        self._shared_until = 0.0
        self._last_cause: Account | None = None
        """Whose nodes caused the last of it."""
        self.ruled_on: Session | None = None
        """Whose envelope is ruled on."""
        self.now: float = 0.0
        """The time of this step, in seconds by the broker's clock."""
        self.wall: float = 0.0
        """The same in seconds since 1970 in UTC."""
        self.outcomes: dict[int, int] = {}
        """Delegations that ended: {status: count}."""
        self.accepted = 0
        self.young_until: float = inf
        """When no node of a broker before this one is coming back any more; `Reconnection` sets it at the first step."""
        self.has_recovered = False
        """Whether this broker took up what another had left."""

    @property
    def is_behind(self) -> bool:
        """Whether as much waits for the journal as may, so that who comes or goes waits (G8)."""
        return self.unwritten > MOST_UNWRITTEN and (self.journal.trouble is not None or self.is_ahead)

    @property
    def is_ahead(self) -> bool:
        """Whether so much waits for a journal that can be written that whoever caused much of it waits."""
        return self.unwritten > self.most_ahead and self.journal.trouble is None and not self.is_ending

    @property
    def is_young(self) -> bool:
        """Whether nodes of a broker before it may be coming back, of whose work it may know nothing."""
        return self.now <= self.young_until

    def must_wait(self, session: Session) -> bool:
        """Whether what a node says is not ruled on before the journal has written some of what its owner has caused."""
        return session.account.unwritten > OWN_AHEAD and self.is_ahead

    def cause(self, session: Session, envelope: bytes) -> None:
        """Count bytes for the journal, which there is, for the owner of the node that caused them."""
        account, size = session.account, len(envelope)
        account.unwritten += size
        self.unwritten += size
        self.caused[account] = self.caused.get(account, 0) + size
        if account is not self._last_cause:
            self._last_cause, self._shared_until = account, self.now + SHARED_FOR
            self.most_ahead = SHARED_AHEAD
        elif self.most_ahead < MOST_AHEAD and self.now >= self._shared_until:
            self.most_ahead = MOST_AHEAD

    @property
    def is_unread(self) -> bool:
        """Whether there are outcomes that are neither remembered nor in the journal yet."""
        return self.ended.forgotten_to >= self.durable

    def _parent_of(self, holder: bytes) -> bytes | None:
        entry = self.ledger.get(holder)
        return None if entry is None or entry.parent is None else entry.parent.request_id

    def answer(
        self, session: Session, asked: bytes, status: Status, error: ErrorInfo | None, flag: Flag,
        *, asked_from: Life | None, payer: Session | None = None, **fields: object,
    ) -> bytes:  # fmt: skip
        """Send the supervisor's own response to a delegation, REFUSED if that was not accepted; observers see it too.

        Args:
            session: the delegator's node.
            asked: the delegation's envelope.
            status: of the response.
            error: of it.
            flag: REFUSED or none.
            payer: the node whose doing it is; None: the delegator's.
            asked_from: as of `Ending`.
            **fields: of the response.
        """
        header = read_header(asked)
        response = self._own(header.request_id, status, error, external_id=external_id(header, asked), **fields)
        envelope = mark(pack_response(response, capability=header.capability, target=header.source), flag)
        source = b"" if header.capability.startswith(BUS_PREFIX) else header.source
        payer = payer or session
        payer.input.spend(ANSWER)
        by, is_volatile = b"" if flag else _SUPERVISOR, bool(header.flags & VOLATILE)
        self.end(
            session, header.request_id, by, source, envelope, payer=payer, asked_from=asked_from, is_volatile=is_volatile
        )  # fmt: skip
        return envelope

    def end(
        self, session: Session, request_id: bytes, by: bytes, source: bytes, envelope: bytes, *, payer: Session,
        asked_from: Life | None, is_volatile: bool,
    ) -> None:  # fmt: skip
        """Give a delegator the outcome of a delegation that was accepted, or refused, and remember it.

        Args:
            session: the delegator's node; if that is lost, or the delegator has left it, the outcome is kept to be collected.
            request_id: the delegation's.
            by: as of `Ending`.
            source: the delegator; empty for a question to the bus, whose answer is of the moment and is not kept for anybody.
            envelope: the outcome.
            payer: the node whose doing the outcome is.
            asked_from: as of `Ending`.
            is_volatile: whether it may leave before it is in the journal.
        """
        if session is self.bus.session:  # an event was handled: nobody waits to hear of it
            source = b""
        else:
            if source and (session.lost or source not in session.agents):
                envelope = mark(envelope, Flag.UNCOLLECTED)
                self.ended.keep(request_id, source, b"" if self.journal.identity else envelope)
            send = self.session_table.send_aside if is_volatile else self.session_table.send
            send(session, envelope)
        number = self.tap.next + len(self.passing)
        self.ended.note(request_id, by, source, number, asked_from if source else None)
        self.pass_on(payer, envelope)

    def pass_on(self, payer: Session, envelope: bytes) -> None:
        """Give observers and the journal what a node brought about."""
        self.passing.append(envelope)
        if self.journal.identity:
            self.cause(payer, envelope)

    def outcome(self, request_id: bytes) -> bytes | None:
        """The outcome of a delegation that has ended, however long ago; None when neither bus nor journal has it.

        A look into the journal's file takes some 0.15 ms.
        """
        ending = self.ended.get(request_id)
        kept = self.ended.kept(request_id)
        if ending is None:  # what is kept may be a rejection outside the journal, of the same id
            return self.journal.outcome(request_id) or kept or None
        if kept:
            return kept
        if ending.number >= self.tap.next:
            return self.passing[ending.number - self.tap.next]
        found = self.tap.envelope(ending.number) or self.journal.outcome(request_id)
        is_anothers = found is not None and ending.by and found[3] & Flag.REFUSED  # its own is not in the journal yet
        return None if is_anothers else found

    def was_rejected_aside(self, request_id: bytes, outcome: bytes | None) -> bool:
        """Whether what `outcome` found is only an unheard rejection outside the journal: the request was never taken."""
        if outcome is None or outcome is not self.ended.kept(request_id) or request_id in self.ended:
            return False
        header = read_header(outcome)
        if header.source != SUPERVISOR.encode():
            return False
        error = read_response(header, outcome).error
        return error is not None and error.code == JournalUnavailable.code  # what was taken never ends so

    def may_be_removed(self, request_id: bytes) -> bool:
        """Whether the outcome of what is not known any more may have been in the part of the journal that was removed."""
        until = self.journal.removed_until
        return until > 0.0 and not self.ended.is_after(request_id, until, self.wall)

    def reject_unwritten(self, session: Session, header: Header, trouble: EtherError) -> None:
        """Reject a delegation for the journal's trouble: at once, as the rejection itself cannot wait for the disk."""
        is_written = trouble is not self.journal.trouble
        what = "does not take this work now: its journal cannot be read" if is_written else _UNWRITTEN
        error = ErrorInfo(code=JournalUnavailable.code, message=f"The bus {what}. {trouble}", retryable=True)
        status, target = Status.REJECTED_OVERLOAD, header.source
        self.tell(session, header.request_id, status, error, target, retry_after=_RETRY_JOURNAL)
        self.outcomes[status.code] = self.outcomes.get(status.code, 0) + 1

    def tell(
        self, session: Session, request_id: bytes, status: Status, error: ErrorInfo, target: bytes = b"",
        **fields: object,
    ) -> None:  # fmt: skip
        """Answer a delegator at once, outside the journal and the tap; with a target it is kept for one that is lost."""
        response = self._own(request_id, status, error, **fields)
        self.session_table.send_aside(session, pack_response(response, target=target))

    def _own(self, request_id: bytes, status: Status, error: ErrorInfo | None, **fields: object) -> Response:
        """The supervisor's own response."""
        return Response(
            request_id=to_text(request_id), status=status, from_agent=SUPERVISOR, error=error,
            summary=error.message if error else "", timestamp=self.wall,
            **fields,  # type: ignore[arg-type]  # whose types the callers know: they name fields of Response
        )  # fmt: skip

    def keep_dead_letter(
        self, reason: Reason, envelope: bytes, session: Session | None, detail: str = ""
    ) -> DeadLetter:
        """Keep a dead letter and tell the observers, as `event` does."""
        node = session.node if session else ""
        if session is not None and reason in _CHARGED:
            session.input.spend(DEAD_LETTER)
        letter = self.dead_letters.keep(reason, envelope, node=node, time=self.wall, detail=detail)
        header = read_header(envelope)
        self.event(
            "dead_letter",
            number=letter.number,
            reason=reason.value,
            request_id=to_text(header.request_id),
            capability=header.capability.decode(errors="replace"),
            node=node,
            detail=detail,
        )
        return letter

    def event(self, name: str, **fields: object) -> None:
        """Tell the observers that something happened, unless it is only told and who brought it about has to wait."""
        by = self.ruled_on
        if name in _ONLY_TOLD and (self.unwritten > MOST_UNWRITTEN >> 1 or (by is not None and self.must_wait(by))):
            return
        body = pack({"event": name, **fields})
        envelope = pack_envelope(Kind.EVENT, request_id=self.make_id(), source=SUPERVISOR.encode(), body=body)
        if by is None:
            self.passing.append(envelope)
        else:
            self.pass_on(by, envelope)
