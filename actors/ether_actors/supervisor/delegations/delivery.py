"""The delivery of work to the specialists' nodes, and of progress and the one outcome to the delegators. Sans-IO."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from math import inf
from typing import Final

from ether_actors.supervisor.registry.registration import Registration
from ether_actors.supervisor.state.broker_state import BrokerState
from ether_actors.supervisor.state.job_schedule import OWN, Job, StepShare
from ether_actors.supervisor.state.ledger import Entry, State, owner_of
from ether_actors.supervisor.state.round_robin import RoundRobin
from ether_broker.dead_letters import Reason
from ether_broker.envelope.names import SUPERVISOR
from ether_broker.envelope.response import ErrorInfo
from ether_broker.envelope.status import Status
from ether_broker.transport.sessions.session import Session
from ether_broker.wire.frame import Flag, Kind, pack_envelope

__all__ = ["RECENT", "Delivery"]

RECENT: Final = 256
"""Durations that are remembered of an agent."""
ENDED_PER_STEP: Final = 128
"""Delegations that one step cancels because what they were made for has ended."""
_ENDED_PARENT: Final = "The delegation that it was made for has ended."
_QUEUED, _SENT, _, _ENDED = State  # a member of an Enum costs a look-up each time that it is named


class Delivery:
    """The part of the supervisor that sends what was ruled, and keeps ledger, mailboxes and counts in step with it."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self.orphans: RoundRobin[str, Entry] = RoundRobin(ENDED_PER_STEP)
        """What is still to be cancelled, because what it was made for has ended."""
        self.unsent: OrderedDict[Registration, None] = OrderedDict()
        """Agents whose mailboxes have more that has expired than one step ends."""
        self.job: Job = Job(state.schedule, self._go_on, most=OWN)
        """Ends both."""
        self._share = StepShare(state.schedule, ENDED_PER_STEP)
        """How much of both this step may still end."""

    # -- to specialists ------------------------------------------------------------------------------------------

    def send(self, entry: Entry) -> None:
        """Give an entry to its agent's node; its credit has been taken."""
        entry.holds_credit = True
        self._state.ledger.advance(entry, _SENT)
        if entry.is_volatile:
            self._state.session_table.send_aside(entry.agent.session, entry.envelope)
        else:
            self._state.session_table.send(entry.agent.session, entry.envelope)

    def send_waiting(self, agent: Registration) -> None:
        """Send what waits in an agent's mailbox as far as there is credit."""
        mailbox = agent.mailbox
        while (entry := mailbox.next()) is not None:
            if entry.deadline > self._state.now:
                self.send(entry)
                continue
            mailbox.release()  # its slot of time has not ended yet, but it must not be started any more (G4)
            mailbox.put_back(entry)
            if self._share.left <= 0:
                self.unsent[agent] = None
                self.job.wake()
                return
            self._share.spend()
            self.expire(entry)
        if agent.listener is not None:  # what was sent is as much to do as when it waited, but does not wait any more
            agent.listener(agent)

    def send_to_holders(self, entries: Iterable[Entry]) -> None:
        """Send for the agents that the entries were moved to."""
        for agent in {id(entry.agent): entry.agent for entry in entries}.values():
            self.send_waiting(agent)

    def stop(self, entry: Entry, status: Status) -> None:
        """Tell the specialist's node that a delegation has ended without it."""
        stop = pack_envelope(
            Kind.CANCEL, request_id=entry.request_id, source=SUPERVISOR.encode(), target=entry.agent.name,
            capability=entry.capability, status=status, attempt=entry.attempt,
        )  # fmt: skip
        self._state.session_table.send(entry.agent.session, stop)

    # -- to delegators -------------------------------------------------------------------------------------------

    def forward(self, entry: Entry, envelope: bytes) -> None:
        """Send a delegator a response to its delegation; the bus itself, whose delegations are events, waits for none."""
        if entry.asking_session is self._state.bus.session:
            return
        if entry.is_volatile:
            self._state.session_table.send_aside(entry.asking_session, envelope)
        else:
            self._state.session_table.send(entry.asking_session, envelope)

    def finish(self, entry: Entry, status: Status, envelope: bytes) -> None:
        """Give a delegation the outcome that its specialist has answered, and the specialist the next."""
        state, agent, session = self._state, entry.agent, entry.asking_session
        if entry.holds_credit:
            entry.holds_credit = False
            agent.mailbox.release()
        state.ledger.advance(entry, _ENDED)
        state.end(
            session, entry.request_id, agent.name, entry.source, envelope,
            payer=agent.session, asked_from=entry.asked_from, is_volatile=entry.is_volatile,
        )  # fmt: skip
        if session.lost and not session.is_expected:
            state.keep_dead_letter(Reason.UNREACHABLE, envelope, agent.session, "the delegator is gone")
        self.count(status, entry)
        if entry.children:
            self.end_children(entry)
        if agent.mailbox.waiting_count:
            self.send_waiting(agent)

    def end_children(self, entry: Entry) -> None:
        """Cancel what was delegated for a delegation: so much at once as one step may, and the rest in the next ones."""
        for child in list(entry.children or ()):
            if self._share.left <= 0:
                self.orphans.put(owner_of(child), child)
                self.job.wake()
            elif not child.is_over:
                self._share.spend()
                self.end_child(child)

    def end_child(self, child: Entry, message: str = _ENDED_PARENT, *, payer: Session | None = None) -> None:
        """Cancel what was delegated for a delegation that has ended, or is run again; the payer is as of `rule`."""
        self.rule(child, Status.CANCELLED, "parent_ended", message, payer=payer)

    def _go_on(self) -> float:
        """End more of what was delegated for delegations that have ended, and of what has expired."""
        self._share.keep_half()
        for child in self.orphans.take(self._share.left):
            if not child.is_over:
                self._share.spend()
                self.end_child(child)
        while self.unsent and self._share.left > 0:
            self.send_waiting(self.unsent.popitem(last=False)[0])
        return 0.0 if self.orphans.owners or self.unsent else inf

    def rule(
        self, entry: Entry, status: Status, code: str, message: str, *, payer: Session | None = None
    ) -> None:  # fmt: skip
        """End a delegation by the supervisor's own word, and tell the specialist's node to stop.

        The payer is the node whose doing it is; None: the delegator's.
        """
        if entry.holds_credit:
            self.stop(entry, status)
        error = ErrorInfo(code=code, message=message, retryable=status is Status.TIMEOUT or code == "node_lost")
        self.answer(entry, status, error, payer=payer)

    def answer(
        self, entry: Entry, status: Status, error: ErrorInfo | None = None, *, payer: Session | None = None,
        **fields: object,
    ) -> None:  # fmt: skip
        """Give a delegation the supervisor's own outcome; the payer is as of `rule`."""
        state, session, asked = self._state, entry.asking_session, entry.envelope
        was_waiting = entry.state is _QUEUED
        state.ledger.advance(entry, _ENDED)
        if entry.progress is not None:
            entry.progress.forget(entry)
        if was_waiting:
            entry.agent.mailbox.forget(entry)
        envelope = state.answer(
            session, asked, status, error, Flag.NONE, payer=payer, asked_from=entry.asked_from, attempt=entry.attempt, **fields
        )  # fmt: skip
        if session.lost and not session.is_expected:
            state.keep_dead_letter(Reason.UNREACHABLE, envelope, None, "the delegator is gone")
        self.count(status, entry)
        self.end_children(entry)

    def expire(self, entry: Entry) -> None:
        """End what has waited in a mailbox until its deadline."""
        detail = f"waited for {entry.agent.manifest.agent} until its deadline"
        self._state.keep_dead_letter(Reason.EXPIRED, entry.envelope, entry.asking_session, detail)
        if entry.attempt > 1:
            message = f"Attempt {entry.attempt - 1} was lost with its node, and may have been done in part; the next {detail}."
            self.rule(entry, Status.TIMEOUT, "deadline", message)
        else:
            self.rule(entry, Status.TIMEOUT, "expired", f"Not started: it {detail}.")

    def count(self, status: Status, entry: Entry | None) -> None:
        """Count an outcome, for its agent too if it was ever accepted; what the bus itself was asked counts for nobody.

        `FastPath` does so too, and as `finish` and `send`.
        """
        state, code = self._state, status.code
        if entry is not None:
            agent = entry.agent
            if agent is state.bus:
                return
            agent.ended[code] = agent.ended.get(code, 0) + 1
            if agent.recent is None:
                agent.recent = deque(maxlen=RECENT)
            agent.recent.append(state.now - entry.opened)
        state.outcomes[code] = state.outcomes.get(code, 0) + 1
