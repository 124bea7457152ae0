"""The reassignment of an agent's work when the agent drains, leaves, is lost or is up again. Sans-IO.

Others get it where they may; the rest waits, or is answered for.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from operator import attrgetter
from typing import Final

from ether_actors.supervisor.delegations.delivery import Delivery
from ether_actors.supervisor.delegations.recipient_policy import RecipientPolicy, has_to_end
from ether_actors.supervisor.registry.registration import Choice, Condition, Registration
from ether_actors.supervisor.state.broker_state import BrokerState
from ether_actors.supervisor.state.ledger import Entry, State
from ether_broker.dead_letters import Reason
from ether_broker.envelope.ids import to_text
from ether_broker.envelope.response import ErrorInfo
from ether_broker.envelope.status import Status
from ether_broker.transport.sessions.cost import MOVED
from ether_broker.wire.frame import Flag, name_of, read_header, rehead

__all__ = ["EARLIER_RUN", "MAX_ATTEMPTS", "Reassignment"]

MAX_ATTEMPTS: Final = 5
"""The largest number of runs of an idempotent delegation, which may be what kills its nodes: then the loss of a node
ends it."""

MAX_RETURNS: Final = 16
"""How often a delegation is handed back before that ends it: two holders would pass it between them until its deadline."""
_RETRY: Final = 1.0
EARLIER_RUN: Final = "The run that it was made for was lost with its node."
"""Of a sub-delegation that is cancelled for that."""


_LOOKED_SHIFT: Final = 5
_LOOKED: Final = (1 << _LOOKED_SHIFT) - 1
"""32 delegations that are only looked at cost a point."""


class Reassignment:
    """The part of the supervisor that takes work from agents that leave or are lost, and gives it to others.

    The methods that handle all of an agent's work are generators, because a step does a share of it: they handle one
    delegation, yield its cost (1), and continue in a later step. Meanwhile delegations may end, and others come.
    """

    def __init__(self, state: BrokerState, delivery: Delivery, recipients: RecipientPolicy) -> None:
        self._state = state
        self._delivery = delivery
        self._recipients = recipients
        self.on_given_while_down: Callable[[Registration], None] = lambda _agent: None
        """Told of an agent that moves, and for which work waits now."""

    def lost(self, agent: Registration, why: str) -> Generator[int, None, None]:
        """End or redeliver the work of an agent whose node is gone (G3); what only waited goes to others, or is kept for it.

        All that waits for an agent that moves is kept, unless that would wait for itself.

        A node that let the agent go is told to stop each as it is ruled on: its reply to the CANCEL is not an outcome.

        A delegation runs again only after the sub-delegations of its last run have ended: a restarted broker could not tell
        those of the two runs apart.

        Args:
            agent: is down.
            why: for people.
        """
        self._state.ledger.forget_ended_at_node(agent)
        moves = agent.condition is Condition.MOVING
        if not moves:
            yield from self.drained(agent)
        agent.session.input.spend(len(agent.work) >> _LOOKED_SHIFT)
        sent = sorted((entry for entry in agent.work if entry.state is not State.QUEUED), key=attrgetter("number"))
        moved: list[Entry] = []
        try:
            for entry in reversed([entry for entry in sent if entry.idempotent and entry.attempt < MAX_ATTEMPTS]):
                yield from self._end_earlier(entry)
                if not _is_with(agent, entry):
                    continue  # it was made for another of them, or its deadline has passed meanwhile
                self._delivery.stop(entry, Status.CANCELLED)
                leases = self.reopen(entry, again=True)
                if self._reroute(entry, first=True):
                    moved.append(entry)
                else:
                    agent.mailbox.put_back(entry)
                    self.tell_reassigned(entry)
                yield 1 + leases
        finally:
            self._delivery.send_to_holders(moved)
        for entry in sent:
            if not _is_with(agent, entry):
                continue
            self._delivery.stop(entry, Status.CANCELLED)
            entry.holds_credit = False
            self._lose(
                entry,
                why,
                f"{agent.manifest.agent} was lost with its node ({why}); the work may have been done in part.",
            )
            yield 1
        self._state.ledger.forget_ended_at_node(agent)  # sub-delegations that ended with what was ruled on
        if moves:
            yield from self._end_deadlocked(agent)

    def _end_deadlocked(self, agent: Registration) -> Generator[int, None, None]:
        """Give to others, or refuse, what waits for an agent that moves, and would wait for itself."""
        looked, ending = 0, dict[Entry, bool]()
        for entry in [entry for entry in agent.work if entry.parent is not None]:
            if (parent := entry.parent) is None:  # it has ended meanwhile
                continue
            if parent not in ending:
                ending[parent] = has_to_end(parent)
                looked += parent.chain_length
            if ending[parent] and _waits_for_mover(entry):
                self._take_from_mover(entry)
                yield 1
            looked += 1
            if looked >> _LOOKED_SHIFT:
                looked = 0
                yield 1

    def restarts(self, agent: Registration) -> Generator[int, None, None]:
        """Have an agent that has to end its work not wait for agents that move, nor those that work for it.

        Args:
            agent: restarts, or drains.
        """
        below = [entry for entry in agent.work if entry.state is not State.QUEUED]
        for looked, entry in enumerate(below, 1):  # and what is added meanwhile
            below += entry.children or ()
            if _waits_for_mover(entry) and entry.parent is not None and has_to_end(entry.parent):
                self._take_from_mover(entry)
                yield 1
            if not looked & _LOOKED:
                yield 1

    def _take_from_mover(self, entry: Entry) -> None:
        choice = None if entry.pinned else self._recipients.another(entry)
        if choice is not None and choice.agent.mailbox.has_room(entry):
            self.rebalance(entry, choice)
        else:
            self._reject(
                entry, "agent_down", "moves, and work for which it was delegated has to end before", retryable=True
            )

    def _end_earlier(self, entry: Entry) -> Generator[int, None, None]:
        """End the sub-delegations of a run of which another is to follow."""
        for child in list(entry.children or ()):
            if not child.is_over:  # one may end with another that had a lease
                self._delivery.end_child(child, EARLIER_RUN, payer=entry.agent.session)
                yield 1

    def drained(self, agent: Registration) -> Generator[int, None, None]:
        """Find other holders for what waits for an agent that takes nothing new."""
        mailbox = agent.mailbox
        kept: list[Entry] = []
        try:
            while (entry := mailbox.take()) is not None:
                if not self._move(entry):
                    kept.append(entry)
                yield 1
        finally:
            mailbox.keep(kept)
            if kept and agent.listener is not None:
                agent.listener(agent)

    def gone(self, agent: Registration, why: str) -> Generator[int, None, None]:
        """Answer for an agent that left for good: what waits goes to others, or is refused; the rest was lost.

        In this order: a broker restarted meanwhile assumes that the oldest remaining ones had been sent.

        Args:
            agent: is down.
            why: for people, after its name.
        """
        yield from self.drained(agent)
        waiting = [entry for entry in agent.oldest_first if entry.state is State.QUEUED]
        yield from self._refuse_all(agent, waiting, why)
        yield from self.lost(agent, "it left")
        while agent.work:  # what was handed back meanwhile too
            yield from self._refuse_all(agent, agent.oldest_first, why)

    def _refuse_all(self, agent: Registration, entries: list[Entry], why: str) -> Generator[int, None, None]:
        for entry in entries:
            if not entry.is_over and entry.agent is agent:
                self._reject(entry, "agent_gone", why, retryable=True)
                yield 1

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
            self._delivery.answer(entry, Status.REJECTED_OVERLOAD, error, payer=agent.session, retry_after=_RETRY)
            self._delivery.send_waiting(agent)
            return
        agent.session.input.spend(self.reopen(entry, again=False))
        if not self._reroute(entry, first=True):
            agent.mailbox.put_back(entry)
            self.tell_reassigned(entry)
            if self._declared(agent, entry) is None:
                self._undeclared(entry)
        self._delivery.send_waiting(agent)
        self._delivery.send_to_holders([entry])

    def returned(self, agent: Registration) -> Generator[int, None, None]:
        """Send what waited for an agent that is up again, but for what it does not declare any more (G10).

        Its mailbox is paused until all of it was looked at.
        """
        mailbox = agent.mailbox
        kept: list[Entry] = []
        try:
            while (entry := mailbox.take()) is not None:
                choice = self._declared(agent, entry)
                if choice is not None:
                    entry.idempotent = choice.idempotent  # it is begun under the manifest that the agent has now
                    kept.append(entry)
                elif not self._move(entry):
                    self._undeclared(entry)
                yield 1
        finally:
            mailbox.keep(kept)
        if agent.condition is Condition.UP:
            mailbox.resume()
            self._delivery.send_waiting(agent)
        if agent.listener is not None:
            agent.listener(agent)

    def rebalance(self, entry: Entry, choice: Choice) -> None:
        """Give what waits for one agent to another, behind what waits for that."""
        entry.agent.mailbox.forget(entry)
        self._give(entry, choice)
        self._delivery.send_waiting(choice.agent)

    def run_again(self, entries: list[Entry]) -> Generator[int, None, None]:
        """Let what an agent had begun, and its node knows nothing of, wait for it again, before all that waits.

        Args:
            entries: oldest first, none of which has credit.
        """
        for entry in reversed(entries):
            yield from self._end_earlier(entry)
            if not entry.is_over:
                leases = self.reopen(entry, again=True)
                entry.agent.mailbox.put_back(entry)
                self.tell_reassigned(entry)
                yield 1 + leases

    def _declared(self, agent: Registration, entry: Entry) -> Choice | None:
        choice = self._state.registry.resolve(agent, entry.capability)
        return choice if choice is not None and choice.name == entry.capability else None

    def _undeclared(self, entry: Entry) -> None:
        self._reject(entry, "not_declared", f"came back and does not declare {name_of(entry.capability)!r} any more")

    def _reject(self, entry: Entry, code: str, why: str, *, retryable: bool = False) -> None:
        """Refuse work that its agent no longer takes and that no holder has room for; name another holder.

        What has been begun before is not refused: it may have been done in part.
        """
        if entry.attempt > 1:
            self._lose(entry, why, f"{entry.agent.manifest.agent} {why}; the work may have been done in part.")
            return
        choice = self._recipients.alternative(entry)
        agent, other = entry.agent, None if choice is None else choice.agent.manifest.agent
        what = name_of(entry.capability)
        rest = f"nobody else takes {what!r} now" if other is None else f"{other} takes {what!r}"
        error = ErrorInfo(code=code, message=f"{agent.manifest.agent} {why}; {rest}.", retryable=retryable)
        if entry.pinned or self._recipients.another(entry) is None:
            self._delivery.answer(
                entry, Status.REJECTED_CAPABILITY, error, payer=agent.session, alternative_agent=other
            )  # fmt: skip
            return
        message = f"{agent.manifest.agent} {why}; {other} takes {what!r}, and its mailbox is full."
        error = ErrorInfo(code="mailbox_full", message=message, retryable=True)
        self._delivery.answer(entry, Status.REJECTED_OVERLOAD, error, payer=agent.session, retry_after=_RETRY)

    def _lose(self, entry: Entry, why: str, message: str) -> None:
        self._state.keep_dead_letter(Reason.NODE_LOST, entry.envelope, entry.asking_session, why)
        self._delivery.rule(entry, Status.FAILED_EXECUTION, "node_lost", message, payer=entry.agent.session)

    def reopen(self, entry: Entry, *, again: bool) -> int:
        """Let what had been sent wait again; `again` when it may have been begun, which makes it another attempt.

        Whoever calls this says who has it now: see `tell_reassigned`.

        Returns:
            How many leases it held or waited for: all of them are taken from it.
        """
        leases = self._state.leases.weight(entry.request_id)
        entry.holds_credit = False
        self._state.ledger.advance(entry, State.QUEUED)
        if again:
            entry.attempt += 1
            header = read_header(entry.envelope)
            flags = header.flags | Flag.REDELIVERED
            entry.envelope = rehead(header, entry.envelope, attempt=entry.attempt, flags=flags)
        return leases

    def _move(self, entry: Entry) -> bool:
        """Give what was taken from its agent's mailbox to another holder."""
        before = entry.agent.mailbox
        if not self._reroute(entry):
            return False
        before.forget(entry)
        self._delivery.send_waiting(entry.agent)
        return True

    def _reroute(self, entry: Entry, *, first: bool = False) -> bool:
        """Put a waiting entry into another holder's mailbox, if there is room; the holder's `send_waiting` sends it.

        `first` is for what had been sent before: it has had its turn.
        """
        choice = None if entry.pinned else self._recipients.another(entry)
        if choice is None or not choice.agent.mailbox.has_room(entry):
            return False
        self._give(entry, choice, first=first)
        return True

    def _give(self, entry: Entry, choice: Choice, *, first: bool = False) -> None:
        entry.agent.session.input.spend(MOVED)
        header = read_header(entry.envelope)
        self._state.ledger.move(entry, choice)
        entry.envelope = rehead(header, entry.envelope, target=choice.agent.name, capability=choice.name)
        (choice.agent.mailbox.put_back if first else choice.agent.mailbox.restore)(entry)
        if choice.agent.condition is Condition.MOVING:
            self.on_given_while_down(choice.agent)
        self.tell_reassigned(entry)

    def tell_reassigned(self, entry: Entry) -> None:
        """Say who has it now and how often it was given; the journal and the observers would not know otherwise.

        Nobody is given it before that is in the journal, or another broker would give it to somebody else (G3).
        """
        entry.is_volatile = False
        self._state.event(
            "reassigned", request_id=to_text(entry.request_id), agent=entry.agent.manifest.agent,
            capability=name_of(entry.capability), attempt=entry.attempt, returns=entry.returns,
        )  # fmt: skip


def _waits_for_mover(entry: Entry) -> bool:
    return entry.agent.condition is Condition.MOVING and entry.state is State.QUEUED and not entry.is_over


def _is_with(agent: Registration, entry: Entry) -> bool:
    """Whether an agent's node has a delegation that has not ended."""
    return entry.agent is agent and entry.holds_credit and not entry.is_over
