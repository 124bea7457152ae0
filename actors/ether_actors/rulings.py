"""How the supervisor rules on delegations, responses, cancellations and deadlines. Sans-IO.

A ruling changes the ledger and puts envelopes into outboxes; docs/guarantees.md says what holds after each.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from ether_actors.ledger import Entry, State
from ether_actors.reach import Reach
from ether_actors.records import SUPERVISOR, Records
from ether_actors.registry import Choice, Condition, Registration
from ether_broker.codec import pack_response
from ether_broker.dead_letters import Reason
from ether_broker.errors import AccessDenied, nearest
from ether_broker.ids import NO_ID, to_text
from ether_broker.mailbox import Offer
from ether_broker.response import ErrorInfo, Response
from ether_broker.router import Session
from ether_broker.status import Status
from ether_broker.wire import Flag, Header, Kind, mark, pack_envelope, read_header, rehead

__all__ = ["DEFAULT_TIMEOUT", "LONGEST_TIMEOUT", "MAX_ATTEMPTS", "MAX_DEPTH", "Rulings"]

DEFAULT_TIMEOUT: Final = 60.0
"""Seconds that a delegation has when the delegator says nothing (spec 3, "Per-Agent Timeout")."""
LONGEST_TIMEOUT: Final = 366 * 86_400.0
"""Seconds, a year: a later deadline, infinity among them, is brought down to it."""
MAX_ATTEMPTS: Final = 5
"""Runs of an idempotent delegation before a lost node ends it after all: it may be what kills its nodes."""
MAX_DEPTH: Final = 128
"""Delegations in a chain; a longer one is taken for a runaway recursion."""

_RECENT: Final = 256
_RETRY_JOURNAL: Final = 1.0
_HANDED_BACK: Final = int(Flag.HANDED_BACK)  # an IntFlag's & costs ten times an int's
_RESENT: Final = int(Flag.RESENT)
_ROUTED: Final = int(Flag.ROUTED)
_RUNNING: Final = frozenset({Status.ACCEPTED, Status.PROGRESS})
_WITH_NODE: Final = frozenset({State.SENT, State.RUNNING})
_STATUSES: Final = {status.value: status for status in Status if status is not Status.TIMEOUT}


class Refusal(Exception):
    """Why a delegation is not accepted."""

    def __init__(
        self, status: Status, code: str, message: str, *, reason: Reason | None = None, retryable: bool = False,
        **fields: object,
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.status = status
        self.error = ErrorInfo(code=code, message=message, retryable=retryable)
        self.reason = reason
        self.fields = fields


class Rulings:
    """The supervisor's rulings on work."""

    def __init__(self, records: Records) -> None:
        self._records = records

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
            self._refuse_aside(session, header, str(records.journal.trouble))
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
            self._count(refusal.status, None)

    def _refuse_aside(self, session: Session, header: Header, why: str) -> None:
        """Refuse while the journal cannot be written: the refusal itself cannot wait for it."""
        message = f"The bus takes no work now: its journal cannot be written. {why}"
        error = ErrorInfo(code="journal_unavailable", message=message, retryable=True)
        self._tell(
            session, header.request_id, Status.REJECTED_OVERLOAD, error, header.source, retry_after=_RETRY_JOURNAL
        )
        self._count(Status.REJECTED_OVERLOAD, None)

    def _tell(
        self, session: Session, request_id: bytes, status: Status, error: ErrorInfo, target: bytes = b"",
        **fields: object,
    ) -> None:  # fmt: skip
        """Answer a delegator at once, outside the journal and the tap; with a target it is kept for one that is lost."""
        response = Response(
            request_id=to_text(request_id), status=status, from_agent=SUPERVISOR, summary=error.message, error=error,
            timestamp=self._records.wall,
            **fields,  # type: ignore[arg-type]
        )  # fmt: skip
        self._records.router.send_aside(session, pack_response(response, target=target))

    def _accept(self, session: Session, header: Header, envelope: bytes) -> None:
        records = self._records
        now = records.now
        if header.source not in session.agents:
            raise _forged(header)
        deadline = header.deadline or now + DEFAULT_TIMEOUT
        busy: list[Registration] = []
        if header.parent != NO_ID:
            chain = self._ancestors(header)
            if chain:
                deadline = min(deadline, chain[0].deadline)
                busy = [entry.agent for entry in chain]
        deadline = min(deadline, now + LONGEST_TIMEOUT)
        if not deadline > now:  # NaN is no deadline that could be kept either
            message = "The deadline had passed when the delegation reached the broker; it was not started."
            raise Refusal(Status.TIMEOUT, "expired", message, reason=Reason.EXPIRED)
        reach = Reach(records.access, session.node, header.source)
        choice = self._named(reach, header, busy) if header.target else self._any(reach, header, busy)
        agent = choice.agent
        if header.target != agent.name or header.capability != choice.name or header.deadline != deadline:
            flags = header.flags if header.target else header.flags | _ROUTED
            envelope = rehead(
                header, envelope, target=agent.name, capability=choice.name, deadline=deadline, flags=flags
            )  # fmt: skip
        entry = Entry(header, envelope, session, choice, pinned=bool(header.target), deadline=deadline, now=now)
        if records.ledger.size + entry.size > agent.mailbox.limits.total:
            raise _broker_full(records.ledger.size)
        offer = agent.mailbox.offer(entry)
        if offer is Offer.FULL:
            raise _overload(agent)
        records.ledger.open(entry)
        records.accepted += 1
        records.passing.append(envelope)
        if offer is Offer.SEND:
            self._send(entry)

    def _ancestors(self, header: Header) -> list[Entry]:
        ledger = self._records.ledger
        chain = ledger.chain(header.parent)
        if not chain:
            if ledger.has_ended(header.parent):
                message = "The delegation that this one was made for has ended, and its sub-delegations with it."
                raise Refusal(Status.CANCELLED, "parent_ended", message)
            return chain
        if chain[0].agent.name != header.source:
            message = f"The parent was given to {_text(chain[0].agent.name)}, not to {_text(header.source)}."
            raise Refusal(Status.REJECTED_CONTEXT, "not_your_parent", message, required_fields=("parent",))
        if len(chain) >= MAX_DEPTH:
            message = f"The chain of delegations is {len(chain)} deep: {_path(chain)}. Is it a recursion without end?"
            raise Refusal(Status.FAILED_EXECUTION, "too_deep", message)
        return chain

    def _named(self, reach: Reach, header: Header, busy: list[Registration]) -> Choice:
        registry = self._records.registry
        if not reach.knows_agent(header.target):
            raise self._denied(reach, header)
        agent = registry.get(header.target)
        if agent is None:
            known = (_text(other.name) for other in registry.agents if reach.knows_agent(other.name))
            hint = nearest(_text(header.target), known)
            raise self._refused(reach, header, "unknown_agent", f"There is no agent {_text(header.target)!r}.{hint}")
        choice = registry.resolve(agent, header.capability)
        if choice is None:
            held = [capability.name for capability in agent.manifest.capabilities]
            hint = nearest(_text(header.capability), filter(reach.knows_capability, held))
            message = f"{_text(agent.name)} does not declare {_text(header.capability)!r}.{hint}"
            raise self._refused(reach, header, "not_declared", message)
        if not reach.permits(choice):
            raise self._denied(reach, header)
        if agent.condition in (Condition.DOWN, Condition.DRAINING):
            message = f"{_text(agent.name)} is {agent.condition.value}."
            raise self._refused(reach, header, f"agent_{agent.condition.value}", message, retryable=True)
        if _is_cycle(agent, busy):
            raise _cycle(self._records.ledger.chain(header.parent), agent)
        return choice

    def _any(self, reach: Reach, header: Header, busy: list[Registration]) -> Choice:
        registry = self._records.registry
        barred = reach.barred(registry.holders(header.capability))
        blocked = [agent for agent in busy if _is_cycle(agent, busy)] if busy else ()
        choice = registry.choose(header.capability, (*barred, *blocked))
        if choice is not None:
            return choice
        if blocked:
            choice = registry.choose(header.capability, barred)
            if choice is not None:
                raise _cycle(self._records.ledger.chain(header.parent), choice.agent)
        holders = [holder for holder in registry.holders(header.capability) if holder.agent not in barred]
        if holders:
            names = ", ".join(f"{_text(holder.agent.name)} ({holder.agent.condition.value})" for holder in holders)
            message = f"Nobody takes {_text(header.capability)!r} now: {names}."
            raise self._refused(reach, header, "agent_down", message, retryable=True)
        if barred or not reach.knows_capability(header.capability):
            raise self._denied(reach, header)
        hint = nearest(_text(header.capability), filter(reach.knows_capability, registry.capabilities()))
        raise self._refused(reach, header, "no_holder", f"No agent holds {_text(header.capability)!r}.{hint}")

    def _refused(self, reach: Reach, header: Header, code: str, message: str, *, retryable: bool = False) -> Refusal:
        registry = self._records.registry
        other = None
        if header.target:
            other = registry.choose(header.capability, reach.barred(registry.holders(header.capability)))
        reason = Reason.UNKNOWN_AGENT if header.target else Reason.NO_HOLDER
        return Refusal(
            Status.REJECTED_CAPABILITY, code, message, retryable=retryable, reason=reason,
            alternative_agent=_text(other.agent.name) if other else None,
        )  # fmt: skip

    def _denied(self, reach: Reach, header: Header) -> Refusal:
        message = reach.denial(header.capability, header.target)
        return Refusal(Status.REJECTED_CAPABILITY, AccessDenied.code, message, reason=Reason.FORBIDDEN)

    def _send(self, entry: Entry) -> None:
        """Give an entry to its agent's node; its credit has been taken."""
        entry.holds_credit = True
        self._records.ledger.advance(entry, State.SENT)
        if entry.is_volatile:
            self._records.router.send_aside(entry.agent.session, entry.envelope)
        else:
            self._records.router.send(entry.agent.session, entry.envelope)

    def pump(self, agent: Registration) -> None:
        """Send what waits in an agent's mailbox as far as there is credit."""
        mailbox = agent.mailbox
        while (entry := mailbox.next()) is not None:
            if entry.deadline > self._records.now:
                self._send(entry)
            else:  # its slot of time has not ended yet, but it must not be started any more (G4)
                mailbox.release()
                mailbox.put_back(entry)
                self._expire(entry)

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
            detail = f"the delegation was given to {_text(entry.agent.name)}"
            reason = Reason.NOT_THE_SPECIALIST if header.source in session.agents else Reason.FORGED
            if reason is not Reason.FORGED and header.attempt < entry.attempt:
                reason = Reason.LATE  # it was given to that one too, whose node was lost
            records.bury(reason, envelope, session, detail)
        elif header.attempt != entry.attempt:
            records.bury(Reason.LATE, envelope, session, f"attempt {entry.attempt} is under way")
        elif status is None or entry.state is State.QUEUED:
            detail = f"status {header.status} for a delegation that is {entry.state.name}"
            records.bury(Reason.ILLEGAL, envelope, session, detail)
        elif status in _RUNNING:
            records.ledger.advance(entry, State.RUNNING)
            self._forward(entry, envelope)
            records.passing.append(envelope)
        elif header.flags & _HANDED_BACK and entry.state is State.RUNNING:
            records.bury(Reason.ILLEGAL, envelope, session, "handed back after it was started")
        elif header.flags & _HANDED_BACK:
            self.handed_back(entry)
        else:
            self._finish(entry, status, envelope)

    def _finish(self, entry: Entry, status: Status, envelope: bytes) -> None:
        agent = entry.agent
        if entry.holds_credit:
            entry.holds_credit = False
            agent.mailbox.release()
        self._end(entry, status, envelope)
        if agent.mailbox:
            self.pump(agent)

    def _late(self, session: Session, header: Header, envelope: bytes, status: Status | None) -> None:
        records = self._records
        if status in _RUNNING:
            return  # progress that crossed the outcome on its way
        held = records.ledger.held(header.request_id)
        if held is not None and held.agent.session is session and held.agent.name == header.source:
            records.ledger.forget(held)
            held.agent.mailbox.release()
            self.pump(held.agent)
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

    def _end(self, entry: Entry, status: Status, envelope: bytes) -> None:
        """Give a delegation its one outcome."""
        records = self._records
        records.ledger.advance(entry, State.ENDED, entry.agent.name)
        if entry.delegator.lost:
            records.uncollected.keep(entry.source, entry.request_id, envelope)
            if not entry.delegator.is_expected:
                records.bury(Reason.UNREACHABLE, envelope, entry.agent.session, "the delegator is gone")
        elif entry.is_volatile:
            records.router.send_aside(entry.delegator, envelope)
        else:
            records.router.send(entry.delegator, envelope)
        records.passing.append(envelope)
        self._count(status, entry)
        if entry.children:
            self._end_children(entry)

    def _forward(self, entry: Entry, envelope: bytes) -> None:
        if entry.is_volatile:
            self._records.router.send_aside(entry.delegator, envelope)
        else:
            self._records.router.send(entry.delegator, envelope)

    def _end_children(self, entry: Entry, message: str = "The delegation that it was made for has ended.") -> None:
        children, entry.children = entry.children, None
        for child in children or ():
            running = self._records.ledger.get(child)
            if running is not None:
                self.rule(running, Status.CANCELLED, "parent_ended", message)

    def _count(self, status: Status, entry: Entry | None) -> None:
        outcomes = self._records.outcomes
        outcomes[status] = outcomes.get(status, 0) + 1
        if entry is not None:
            agent = entry.agent
            agent.ended[status] = agent.ended.get(status, 0) + 1
            if agent.recent is None:
                agent.recent = deque(maxlen=_RECENT)
            agent.recent.append(self._records.now - entry.opened)

    # -- endings that the supervisor rules -----------------------------------------------------------------------

    def cancel(self, session: Session, header: Header, envelope: bytes) -> None:
        """Call a delegation off for its delegator; one that has ended stays as it is."""
        entry = self._records.ledger.get(header.request_id)
        if entry is None:
            return
        if entry.source != header.source or header.source not in session.agents:
            self._records.bury(Reason.FORGED, envelope, session, "only the delegator may cancel")
            return
        self.rule(entry, Status.CANCELLED, "cancelled", "The delegator called it off.")

    def due(self) -> None:
        """End what has passed its deadline."""
        records = self._records
        for entry in records.ledger.deadlines.due(records.now):
            if entry.is_over:
                continue  # it ended with its parent, a moment ago
            if entry.state is State.QUEUED:
                self._expire(entry)
            else:
                message = f"{_text(entry.agent.name)} had not answered after {records.now - entry.opened:.1f} s."
                self.rule(entry, Status.TIMEOUT, "deadline", message)

    def _expire(self, entry: Entry) -> None:
        detail = f"waited for {_text(entry.agent.name)} until its deadline"
        self._records.bury(Reason.EXPIRED, entry.envelope, entry.delegator, detail)
        self.rule(entry, Status.TIMEOUT, "expired", f"Not started: it {detail}.")

    def rule(self, entry: Entry, status: Status, code: str, message: str) -> None:
        """End a delegation by the supervisor's own word, and tell the specialist's node to stop."""
        records = self._records
        if entry.holds_credit:
            self._stop(entry, status)
        header = read_header(entry.envelope)
        error = ErrorInfo(code=code, message=message, retryable=status is Status.TIMEOUT or code == "node_lost")
        session = entry.delegator
        was_waiting = entry.state is State.QUEUED
        records.ledger.advance(entry, State.ENDED)
        if was_waiting:
            entry.agent.mailbox.forget(entry)
        envelope = records.answer(session, header, status, error, attempt=entry.attempt)
        if session.lost and not session.is_expected:
            records.bury(Reason.UNREACHABLE, envelope, None, "the delegator is gone")
        self._count(status, entry)
        self._end_children(entry)

    def _stop(self, entry: Entry, status: Status) -> None:
        """Tell the specialist's node that a delegation has ended without it."""
        stop = pack_envelope(
            Kind.CANCEL, request_id=entry.request_id, source=SUPERVISOR.encode(), target=entry.agent.name,
            capability=entry.capability, status=status, attempt=entry.attempt,
        )  # fmt: skip
        self._records.router.send(entry.agent.session, stop)

    def call_off(self, agent: Registration) -> None:
        """Tell a node that let an agent go to begin nothing that is on its way: an agent of that name may be there again."""
        if agent.mailbox.in_flight:
            for entry in self._work_of(agent):
                if entry.holds_credit:
                    self._stop(entry, Status.CANCELLED)

    def lost(self, agent: Registration, why: str, works: list[Entry] | None = None) -> None:
        """End or redeliver the work of an agent whose node is gone (G3); what only waited is kept for it.

        Args:
            agent: is down.
            why: for people.
            works: what `works_of` found for it before, when many agents go at once; the caller then also forgets what their
                node held of what had ended.
        """
        if not agent.mailbox.outstanding:
            return
        self.drained(agent)
        found = self._work_of(agent) if works is None else works
        sent = [entry for entry in found if entry.agent is agent and entry.state in _WITH_NODE]
        again = [entry for entry in sent if entry.idempotent and entry.attempt < MAX_ATTEMPTS]
        for entry in reversed(again):
            if entry.is_over:
                continue  # it was made for another of them
            self._reopen(entry, again=True)
            self._end_children(entry, "The run that it was made for was lost with its node.")
            if entry.pinned or not self._reroute(entry):
                agent.mailbox.put_back(entry)
        for entry in sent:
            if entry.state is State.QUEUED or entry.is_over:
                continue
            entry.holds_credit = False
            self._records.bury(Reason.NODE_LOST, entry.envelope, entry.delegator, why)
            message = f"{_text(agent.name)} was lost with its node ({why}); the work may have been done in part."
            self.rule(entry, Status.FAILED_EXECUTION, "node_lost", message)
        if works is None:
            self._records.ledger.forget_held(agent)
        self.pump_holders(again)

    def drained(self, agent: Registration) -> None:
        """Find other holders for what waits for an agent that takes nothing new."""
        if not agent.mailbox.outstanding:
            return
        moved: list[Entry] = []
        for entry in reversed(agent.mailbox.drain()):
            if not entry.pinned and self._reroute(entry):
                moved.append(entry)
            else:
                agent.mailbox.put_back(entry)
        self.pump_holders(moved)

    def gone(self, agent: Registration) -> None:
        """Answer for an agent that left for good: what waits goes to others, or is refused; the rest was lost."""
        if not agent.mailbox.outstanding:
            return
        self.lost(agent, "it left")
        for entry in self._work_of(agent):
            if entry.is_over:
                continue  # it ended with its parent, a moment ago
            message = f"{_text(agent.name)} has left and nobody else holds {_text(entry.capability)!r}."
            self.rule(entry, Status.REJECTED_CAPABILITY, "agent_gone", message)

    def handed_back(self, entry: Entry) -> None:
        """Take back work that its node had not started, and give it to another holder, or keep it for the same one."""
        agent = entry.agent
        agent.mailbox.release()
        self._reopen(entry, again=False)
        if entry.pinned or not self._reroute(entry):
            agent.mailbox.put_back(entry)
            if not self._declares(agent, entry):
                self._undeclared(entry)
        self.pump(agent)
        self.pump_holders([entry])

    def _declares(self, agent: Registration, entry: Entry) -> bool:
        choice = self._records.registry.resolve(agent, entry.capability)
        return choice is not None and choice.name == entry.capability

    def _undeclared(self, entry: Entry) -> None:
        message = f"{_text(entry.agent.name)} came back and does not declare {_text(entry.capability)!r} any more."
        self.rule(entry, Status.REJECTED_CAPABILITY, "not_declared", message)

    def returned(self, agent: Registration) -> None:
        """Send what waited for an agent that is up again, but for what it does not declare any more (G10)."""
        moved: list[Entry] = []
        unfit: list[Entry] = []
        for entry in reversed(agent.mailbox.drain()):
            is_declared = self._declares(agent, entry)
            if not is_declared and not entry.pinned and self._reroute(entry):
                moved.append(entry)
                continue
            agent.mailbox.put_back(entry)
            if not is_declared:
                unfit.append(entry)
        for entry in unfit:
            if not entry.is_over:
                self._undeclared(entry)
        self.pump(agent)
        self.pump_holders(moved)

    def works_of(self, agents: list[Registration]) -> dict[Registration, list[Entry]]:
        """What is open of each agent, oldest first, in one look for all of them."""
        found: dict[Registration, list[Entry]] = {agent: [] for agent in agents if agent.mailbox.outstanding}
        if found:
            for entry in self._records.ledger.running:
                if entry.agent in found:
                    found[entry.agent].append(entry)
        return found

    def _work_of(self, agent: Registration) -> list[Entry]:
        return [entry for entry in self._records.ledger.running if entry.agent is agent]

    def _reopen(self, entry: Entry, *, again: bool) -> None:
        entry.holds_credit = False
        self._records.ledger.advance(entry, State.QUEUED)
        if again:
            entry.attempt += 1
            header = read_header(entry.envelope)
            flags = header.flags | Flag.REDELIVERED
            entry.envelope = rehead(header, entry.envelope, attempt=entry.attempt, flags=flags)
            self._tell_reassigned(entry)

    def _reroute(self, entry: Entry) -> bool:
        """Put a waiting entry into another holder's mailbox; its holder's `pump` sends it."""
        registry = self._records.registry
        reach = Reach(self._records.access, entry.delegator.node, entry.source)
        choice = registry.choose(entry.capability, (entry.agent, *reach.barred(registry.holders(entry.capability))))
        if choice is None or (entry.idempotent and not choice.idempotent):
            return False
        header = read_header(entry.envelope)
        entry.agent = choice.agent
        entry.capability = choice.name
        entry.envelope = rehead(header, entry.envelope, target=choice.agent.name, capability=choice.name)
        choice.agent.mailbox.put_back(entry)
        self._tell_reassigned(entry)
        return True

    def _tell_reassigned(self, entry: Entry) -> None:
        """Say who has it now and which attempt that is; the journal and the observers would not know otherwise."""
        self._records.event(
            "reassigned", request_id=to_text(entry.request_id), agent=_text(entry.agent.name),
            capability=_text(entry.capability), attempt=entry.attempt,
        )  # fmt: skip

    # -- after a session ended without the node ------------------------------------------------------------------

    def awaited(self, session: Session, request_ids: list[bytes]) -> None:
        """Give a delegator that is back its delegations, or the outcomes that it missed."""
        on_its_way = {header.request_id for header, _ in self._unread(session)}
        for request_id in request_ids:
            entry = self._records.ledger.get(request_id)
            if entry is None:
                if request_id not in on_its_way:
                    self._collect(session, request_id)
            elif entry.source in session.agents:
                entry.delegator = session

    def _collect(self, session: Session, request_id: bytes) -> None:
        """Send an outcome from before this session to whom it is for (G6), or say that there is none."""
        records = self._records
        owner = records.uncollected.owner(request_id)
        if owner is None or owner in session.agents:
            outcome = records.uncollected.take(request_id, records.journal.outcome)
            if outcome is not None and read_header(outcome).target in session.agents:
                records.router.send(session, outcome)
                return
        if request_id in records.claims or records.ledger.has_ended(request_id):
            return  # a lease that is waited for; or an outcome that is not lost, but nobody's here (any more)
        message = "The broker that had taken it was lost, and this one knows nothing of it."
        self._tell(session, request_id, Status.FAILED_EXECUTION, ErrorInfo(code="broker_lost", message=message))

    def keep_unread(self, session: Session) -> None:
        """Keep the outcomes that a lost node may not have got, until its agents ask for them."""
        for header, envelope in self._unread(session):
            self._records.uncollected.keep(header.target, header.request_id, envelope)

    def _unread(self, session: Session) -> list[tuple[Header, bytes]]:
        """The outcomes that are on their way to a node; what was said outside the journal (`_tell`) is said anew instead."""
        under_way = (*session.unacknowledged(), *self._records.router.unsealed(session))
        found = ((read_header(envelope), envelope) for envelope in under_way if envelope[0] == Kind.RESPONSE)
        return [(header, envelope) for header, envelope in found if header.target and header.status not in _RUNNING]

    def reclaim(self, agent: Registration, works: list[Entry], held: dict[bytes, int]) -> None:
        """Compare what a node that is back holds of an agent's work with what the journal knew as given to it.

        What it holds goes on there. The rest never reached it: it waits again, in the order in which it came.

        Args:
            agent: registered again, its credit reset.
            works: given to it before the broker ended, oldest first.
            held: {request id: attempt} as the node says.
        """
        missing = []
        self._records.ledger.forget_held(agent)
        for entry in works:
            if entry.is_over or entry.agent is not agent or not entry.holds_credit:
                continue
            if held.get(entry.request_id) == entry.attempt:
                agent.mailbox.in_flight += 1
            elif entry.state is State.RUNNING and not entry.idempotent:
                entry.holds_credit = False
                message = f"{_text(agent.name)} had begun and its node knows nothing of it: it may be done in part."
                self.rule(entry, Status.FAILED_EXECUTION, "node_lost", message)
            else:
                missing.append(entry)
        for entry in reversed(missing):
            self._reopen(entry, again=False)
            entry.envelope = mark(entry.envelope, Flag.RESENT)
            agent.mailbox.put_back(entry)

    def disown(self, session: Session, agent: Registration, held: dict[bytes, int]) -> None:
        """Call off what a node that is back still holds of an agent's and that has ended, or gone to another, meanwhile."""
        for request_id, attempt in held.items():
            entry = self._records.ledger.get(request_id)
            is_its = entry is not None and entry.agent is agent and entry.attempt == attempt and entry.holds_credit
            if not is_its:
                stop = pack_envelope(
                    Kind.CANCEL, request_id=request_id, source=SUPERVISOR.encode(), target=agent.name, attempt=attempt,
                    status=Status.CANCELLED,
                )  # fmt: skip
                self._records.router.send(session, stop)

    def pump_holders(self, entries: list[Entry]) -> None:
        """Send for the agents that the entries were moved to."""
        for agent in {id(entry.agent): entry.agent for entry in entries}.values():
            self.pump(agent)


def _is_cycle(agent: Registration, busy: list[Registration]) -> bool:
    """Whether the ancestors of a delegation hold every place that the agent has to work in."""
    return busy.count(agent) >= agent.manifest.max_concurrency


def _cycle(chain: list[Entry], agent: Registration) -> Refusal:
    message = (
        f"{_path(chain)} → {_text(agent.name)} is a cycle: {_text(agent.name)} waits for this very work. "
        "Delegate to another agent, or raise its max_concurrency."
    )
    return Refusal(Status.FAILED_EXECUTION, "call_cycle", message)


def _path(chain: list[Entry]) -> str:
    return " → ".join(_text(name) for name in (chain[-1].source, *(entry.agent.name for entry in reversed(chain))))


def _forged(header: Header) -> Refusal:
    message = f"The connection has not registered {_text(header.source)!r}, so it cannot delegate in its name."
    return Refusal(Status.REJECTED_CAPABILITY, "forged_sender", message, reason=Reason.FORGED)


def _overload(agent: Registration) -> Refusal:
    mailbox = agent.mailbox
    recent = agent.recent
    pace = sum(recent) / len(recent) if recent else 1.0
    wait = min(max(pace, 0.05), 30.0)
    message = (
        f"{_text(agent.name)} has {len(mailbox):,} delegations and {mailbox.waiting_bytes:,} bytes waiting, "
        "its mailbox's bound."
    )
    return Refusal(
        Status.REJECTED_OVERLOAD, "mailbox_full", message, reason=Reason.OVERLOAD, retryable=True, retry_after=wait
    )


def _broker_full(size: int) -> Refusal:
    message = f"The broker keeps {size:,} bytes of delegations that have not ended, its bound."
    return Refusal(
        Status.REJECTED_OVERLOAD, "broker_full", message, reason=Reason.OVERLOAD, retryable=True, retry_after=1.0
    )  # fmt: skip


def _text(name: bytes) -> str:
    return name.decode(errors="replace")
