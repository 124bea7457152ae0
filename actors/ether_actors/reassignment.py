"""What becomes of an agent's work when the agent drains, leaves, is lost or is up again. Sans-IO.

Others get it where they may; the rest waits, or is answered for.
"""

from __future__ import annotations

from typing import Final

from ether_actors.delivery import Delivery
from ether_actors.ledger import Entry, State
from ether_actors.records import Records
from ether_actors.registration import Registration
from ether_actors.selection import Selection
from ether_broker.dead_letters import Reason
from ether_broker.ids import to_text
from ether_broker.response import ErrorInfo
from ether_broker.status import Status
from ether_broker.wire import Flag, name_of, read_header, rehead

__all__ = ["MAX_ATTEMPTS", "Reassignment"]

MAX_ATTEMPTS: Final = 5
"""Runs of an idempotent delegation before a lost node ends it after all: it may be what kills its nodes."""

MAX_RETURNS: Final = 16
"""How often a delegation is handed back before that ends it: two holders would pass it between them until its deadline."""
_RETRY: Final = 1.0
_WITH_NODE: Final = frozenset({State.SENT, State.RUNNING})


class Reassignment:
    """Takes work from agents, and gives it to others."""

    def __init__(self, records: Records, delivery: Delivery, selection: Selection) -> None:
        self._records = records
        self._delivery = delivery
        self._selection = selection

    def call_off(self, agent: Registration) -> None:
        """Tell a node that let an agent go to begin nothing that is on its way: an agent of that name may be there again."""
        for entry in agent.work:
            if entry.holds_credit:
                self._delivery.stop(entry, Status.CANCELLED)

    def lost(self, agent: Registration, why: str) -> None:
        """End or redeliver the work of an agent whose node is gone (G3); what only waited is kept for it.

        Args:
            agent: is down.
            why: for people.
        """
        self._records.ledger.forget_held(agent)
        if not agent.work:
            return
        self.drained(agent)
        sent = [entry for entry in agent.oldest_first if entry.state in _WITH_NODE]
        again = [entry for entry in sent if entry.idempotent and entry.attempt < MAX_ATTEMPTS]
        for entry in reversed(again):
            if entry.is_over:
                continue  # it was made for another of them
            self.reopen(entry, again=True)
            self._delivery.end_children(entry, "The run that it was made for was lost with its node.")
            if entry.pinned or not self._reroute(entry):
                agent.mailbox.put_back(entry)
        for entry in sent:
            if entry.state is State.QUEUED or entry.is_over:
                continue
            entry.holds_credit = False
            self._records.bury(Reason.NODE_LOST, entry.envelope, entry.asking_session, why)
            message = f"{agent.manifest.agent} was lost with its node ({why}); the work may have been done in part."
            self._delivery.rule(entry, Status.FAILED_EXECUTION, "node_lost", message)
        self._delivery.pump_holders(again)

    def drained(self, agent: Registration) -> None:
        """Find other holders for what waits for an agent that takes nothing new."""
        moved: list[Entry] = []
        for entry in reversed(agent.mailbox.drain()):
            if not entry.pinned and self._reroute(entry):
                moved.append(entry)
            else:
                agent.mailbox.put_back(entry)
        self._delivery.pump_holders(moved)

    def gone(self, agent: Registration) -> None:
        """Answer for an agent that left for good: what waits goes to others, or is refused; the rest was lost."""
        self.lost(agent, "it left")
        for entry in agent.oldest_first:
            if entry.is_over:
                continue  # it ended with its parent, a moment ago
            self._refuse(entry, "agent_gone", "has left", retryable=True)

    def handed_back(self, entry: Entry) -> None:
        """Take back work that its node had not started, and give it to another holder, or keep it for the same one.

        What is handed back for the 16th time is refused.
        """
        agent = entry.agent
        agent.mailbox.release()
        entry.returns += 1
        if entry.returns >= MAX_RETURNS:
            entry.holds_credit = False
            message = f"It was handed back {entry.returns} times, last by {agent.manifest.agent}; it was never started."
            error = ErrorInfo(code="handed_back", message=message, retryable=True)
            self._delivery.answer(entry, Status.REJECTED_OVERLOAD, error, retry_after=_RETRY)
            self._delivery.pump(agent)
            return
        self.reopen(entry, again=False)
        if entry.pinned or not self._reroute(entry):
            agent.mailbox.put_back(entry)
            self._tell_reassigned(entry)
            if not self._declares(agent, entry):
                self._undeclared(entry)
        self._delivery.pump(agent)
        self._delivery.pump_holders([entry])

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
        self._delivery.pump(agent)
        self._delivery.pump_holders(moved)

    def _declares(self, agent: Registration, entry: Entry) -> bool:
        choice = self._records.registry.resolve(agent, entry.capability)
        return choice is not None and choice.name == entry.capability

    def _undeclared(self, entry: Entry) -> None:
        self._refuse(entry, "not_declared", f"came back and does not declare {name_of(entry.capability)!r} any more")

    def _refuse(self, entry: Entry, code: str, why: str, *, retryable: bool = False) -> None:
        """Refuse what its agent has no more, and say who else takes it."""
        choice = self._selection.alternative(entry)
        other = None if choice is None else choice.agent.manifest.agent
        what = name_of(entry.capability)
        rest = f"nobody else takes {what!r} now" if other is None else f"{other} takes {what!r}"
        error = ErrorInfo(code=code, message=f"{entry.agent.manifest.agent} {why}; {rest}.", retryable=retryable)
        self._delivery.answer(entry, Status.REJECTED_CAPABILITY, error, alternative_agent=other)

    def reopen(self, entry: Entry, *, again: bool) -> None:
        """Let what had been sent wait again; `again` when it may have been begun, which makes it another attempt."""
        was_running = entry.state is State.RUNNING
        entry.holds_credit = False
        self._records.ledger.advance(entry, State.QUEUED)
        if again:
            entry.attempt += 1
            header = read_header(entry.envelope)
            flags = header.flags | Flag.REDELIVERED
            entry.envelope = rehead(header, entry.envelope, attempt=entry.attempt, flags=flags)
        if again or was_running:
            self._tell_reassigned(entry)

    def _reroute(self, entry: Entry) -> bool:
        """Put a waiting entry into another holder's mailbox; its holder's `pump` sends it."""
        choice = self._selection.another(entry)
        if choice is None:
            return False
        header = read_header(entry.envelope)
        self._records.ledger.move(entry, choice)
        entry.envelope = rehead(header, entry.envelope, target=choice.agent.name, capability=choice.name)
        choice.agent.mailbox.put_back(entry)
        self._tell_reassigned(entry)
        return True

    def _tell_reassigned(self, entry: Entry) -> None:
        """Say who has it now and how often it was given; the journal and the observers would not know otherwise."""
        self._records.event(
            "reassigned", request_id=to_text(entry.request_id), agent=entry.agent.manifest.agent,
            capability=name_of(entry.capability), attempt=entry.attempt, returns=entry.returns,
        )  # fmt: skip
