"""Defects that were mended, put back one at a time."""

from __future__ import annotations

from typing import Any, Final

import ether_actors.supervisor.capabilities.administration
import ether_actors.supervisor.membership.departures
import ether_actors.supervisor.recovery
import ether_actors.supervisor.supervisor
import ether_broker.transport.sessions.turns
from ether.node.agents.agent_host import AgentHost
from ether.node.delegations.retried_delegation import RetriedDelegation
from ether.node.node_session import NodeSession as SessionState
from ether.testing import MemoryLink
from ether_actors.execution.cell import Cell
from ether_actors.supervisor.delegation_policy import DelegationPolicy
from ether_actors.supervisor.delegations.delivery import Delivery
from ether_actors.supervisor.delegations.reassignment import EARLIER_RUN
from ether_actors.supervisor.delegations.recipient_policy import RecipientPolicy
from ether_actors.supervisor.journal.history import History
from ether_actors.supervisor.membership.departures import Departures
from ether_actors.supervisor.membership.lost_agents import LostAgents
from ether_actors.supervisor.membership.outcome_replay import OutcomeReplay
from ether_actors.supervisor.membership.reconnection import Reconnection
from ether_actors.supervisor.observer_feed import ObserverFeed
from ether_actors.supervisor.state.broker_state import BrokerState
from ether_actors.supervisor.state.ended import Ended
from ether_actors.supervisor.state.ledger import Entry, Ledger
from ether_broker.envelope.ids import foreign_id, made_at, to_text
from ether_broker.envelope.status import Status
from ether_broker.security.access_list import Grant
from ether_broker.transport.zeromq.link import ZmqLink
from ether_broker.wire.frame import Flag, read_header
from tests.simulation.mutants.mutant import Mutant

__all__ = ["MENDED"]


def _any_parent(parent: Any) -> Any:
    def mutated(self: DelegationPolicy, header: Any) -> Entry | None:
        found = self._state.ledger.get(header.parent)
        return None if found is None and header.parent not in self._state.ended else parent(self, header)

    return mutated


def _ended_parent(parent: Any) -> Any:
    def mutated(self: DelegationPolicy, header: Any) -> Entry | None:
        return None if header.parent in self._state.ended else parent(self, header)

    return mutated


def _free(prices: Any) -> Any:
    return bytes(len(prices))


def _by_wall(begin: Any) -> Any:
    def mutated(self: History, boot: str, now: float, wall: float, **fields: Any) -> None:
        begin(self, "", now, wall, **fields)
        self.boot = boot

    return mutated


def _forget_silently(_forget: Any) -> Any:
    def mutated(self: LostAgents, agent: Any) -> None:
        self.discard(agent)
        self._state.registry.remove(agent)

    return mutated


def _nobodys_word(remove: Any) -> Any:
    def mutated(self: Departures, agent: Any, reason: str = "") -> None:
        down = self._down
        self._down = lambda agent, _reason: down(agent, reason or "left")  # type: ignore[method-assign]
        remove(self, agent, reason)
        del self._down

    return mutated


def _silent_when_removed(look_up: Any) -> Any:
    def mutated(self: OutcomeReplay, session: Any, request_id: bytes) -> bool:
        state = self._state
        is_removed = state.outcome(request_id) is None and request_id in state.ended
        return not is_removed and bool(look_up(self, session, request_id))

    return mutated


def _only_remembered(outcome: Any) -> Any:
    def mutated(self: BrokerState, request_id: bytes) -> bytes | None:
        return outcome(self, request_id) if request_id in self.ended else None

    return mutated


def _never_ran(_may_have_run: Any) -> Any:
    return lambda self, session, header: False


def _same_life(_is_another: Any) -> Any:
    return lambda self, before, session: False


def _keep_all(_cancel_there: Any) -> Any:
    """What a node holds in vain is left there."""
    return lambda *_: None


class _Ring:
    """A journal whose removed part ends where the ring begins."""

    def __init__(self, state: BrokerState) -> None:
        self.read, self.identity, self.first = state.journal.read, state.journal.identity, state.tap.first


def _on_in_the_ring(from_journal: Any) -> Any:
    def mutated(self: ObserverFeed, *observer: Any) -> int:
        state, journal = self._state, self._state.journal
        state.journal = _Ring(state)  # type: ignore[assignment]
        try:
            return int(from_journal(self, *observer))
        finally:
            state.journal = journal

    return mutated


def _forget_what_recovery_ended(recover: Any) -> Any:
    def mutated(state: BrokerState, *more: Any) -> None:
        recover(state, *more)
        (history,) = (one for one in more if isinstance(one, History))
        for request_id, (_, _, number, _) in list(state.ended._newer.items()):
            if number >= history.next:
                del state.ended._newer[request_id]

    return mutated


def _keep_ended_children(end: Any) -> Any:
    def mutated(self: Ledger, entry: Entry) -> None:
        parent = entry.parent
        end(self, entry)
        if parent is not None and parent.children is not None:
            parent.children[entry] = None

    return mutated


def _keep_held(_forget_ended: Any) -> Any:
    return lambda self, agent: None


def _never_let_go(_let_go: Any) -> Any:
    return lambda agent: None


def _permit_all(_marks: Any) -> Any:
    return lambda self, capability: -1


def _tell_anybody(came_before: Any) -> Any:
    def mutated(self: DelegationPolicy, session: Any, header: Any, envelope: bytes) -> bool:
        state = self._state
        if header.flags & Flag.RESENT and state.ledger.get(header.request_id) is None:
            outcome = state.outcome(header.request_id)
            if outcome is not None:
                state.session_table.send(session, outcome)
        return bool(came_before(self, session, header, envelope))

    return mutated


def _speak_for_anybody(accept: Any) -> Any:
    def mutated(self: DelegationPolicy, session: Any, header: Any, envelope: bytes) -> None:
        agent = self._state.registry.get(header.source)
        if agent is None or header.source in session.agents:
            accept(self, session, header, envelope)
            return
        session.agents[header.source] = agent
        try:
            accept(self, session, header, envelope)
        finally:
            del session.agents[header.source]

    return mutated


def _old_clock(resume: Any) -> Any:
    def mutated(self: SessionState, left: list[bytes], _ahead: float) -> list[bytes]:
        return list(resume(self, left, 0.0))

    return mutated


def _pinned_when_recovered(restore: Any) -> Any:
    def mutated(*known: Any) -> Entry | None:
        entry: Entry | None = restore(*known)
        if entry is not None:
            entry.pinned = not read_header(entry.envelope).flags & Flag.ROUTED
        return entry

    return mutated


def _named_stays_named(another: Any) -> Any:
    def mutated(self: RecipientPolicy, entry: Entry) -> Any:
        flags = read_header(entry.envelope).flags
        return None if flags & Flag.FALLTHROUGH and not flags & Flag.ROUTED else another(self, entry)

    return mutated


def _again_though_started(_status: Any) -> Any:
    return frozenset(Status)


def _mutant(
    name: str,
    stands_for: str,
    invariants: str,
    where: tuple[Any, str, Any],
    needs: str,
    *,
    seed: int = 0,
    proof: str = "",
) -> Mutant:
    return Mutant(
        name,
        stands_for,
        frozenset(invariants.split(", ")),
        *where,
        needs=frozenset(needs.split()),
        seed=seed,
        proof=proof,
    )


def _answer_in_its_turn(_cancel: Any) -> Any:
    def mutated(self: Cell, request_id: bytes, attempt: int) -> bool:
        work = self.works.get(request_id)
        if work is None or work.header.attempt != attempt:
            return False
        self._cancel(work)
        return True

    return mutated


def _keep_earlier_children(end_child: Any) -> Any:
    def mutated(self: Delivery, child: Any, message: str = "", **fields: Any) -> None:
        if message == EARLIER_RUN:
            return
        end_child(self, child, *filter(None, [message]), **fields)

    return mutated


def _believe_the_time(drop: Any) -> Any:
    def mutated(self: Ended, endings: Any) -> None:
        found = [made for made in map(made_at, endings) if made is not None]
        until = found[-1] + 2.0 if found else 0.0
        drop(self, {id_: ending for id_, ending in endings.items() if (made_at(id_) or 0.0) <= until})

    return mutated


def _ran_by_the_time(_may_have_run: Any) -> Any:
    def mutated(self: DelegationPolicy, _session: Any, header: Any) -> bool:
        state, made = self._state, made_at(header.request_id)
        began = vars(self).setdefault("began", state.wall)
        return state.has_recovered and (made is None or made < began)

    return mutated


def _drop_when_full(send: Any) -> Any:
    """A link that is full takes nothing any more, whatever it is."""

    def mutated(self: ZmqLink, envelope: bytes, *, more_follows: bool = False, is_new: bool = False) -> None:
        if is_new or not self.is_full:
            send(self, envelope, more_follows=more_follows, is_new=is_new)

    return mutated


def _on_no_way(_is_on_its_way: Any) -> Any:
    """A refusal counts as heard as long as its delegator's session is there."""
    return lambda self, request_id, delegator, payer: False


def _no_look_in_trouble(is_known: Any) -> Any:
    """What is forgotten is not looked for while the journal cannot be written."""

    def mutated(self: DelegationPolicy, session: Any, header: Any, envelope: bytes) -> bool | None:
        state, request_id = self._state, header.request_id
        is_remembered = request_id in state.ended or request_id in state.ended.uncollected
        if state.journal.trouble is not None and state.ledger.get(request_id) is None and not is_remembered:
            return False
        return is_known(self, session, header, envelope)  # type: ignore[no-any-return]

    return mutated


def _no_life(_show_life: Any) -> Any:
    """A link that is full is silent."""
    return lambda self: None


def _another_though_untaken(_next_name: Any) -> Any:
    return lambda self: foreign_id(f"{to_text(self._current.key)}/again")


def _leaving_too(leaving: Any) -> Any:
    """A node that leaves takes along what it had let go before."""

    def mutated(self: History) -> dict[str, str]:
        for agent in self.agents.values():
            if agent.is_down and agent.came <= self._left.get(agent.incarnation, -1):
                agent.leaving = "left"
        return leaving(self)  # type: ignore[no-any-return]

    return mutated


def _not_resent(place: Any) -> Any:
    def mutated(ledger: Any, entry: Entry, *more: Any) -> None:
        envelope = entry.envelope
        place(ledger, entry, *more)
        entry.envelope = envelope

    return mutated


def _once_only(begin_giving_way: Any) -> Any:
    def mutated(self: AgentHost, cells: Any, reason: str) -> None:
        if not {cell.name.encode() for cell in cells} <= self._giving_way.keys():
            begin_giving_way(self, cells, reason)

    return mutated


MENDED: Final = (
    _mutant("a parent that nobody knows counts as none",
            "two delegations that name each other hung the broker",
            "parents", (DelegationPolicy, "_parent", _any_parent), "hostile parents", seed=33),
    _mutant("a parent that has ended counts as none",
            "sub-delegations outlived a cancelled parent that was forgotten",
            "parents", (DelegationPolicy, "_parent", _ended_parent), "children", seed=16),
    _mutant("what an envelope costs is not counted",
            "frames of a thousand CANCELs made everybody wait",
            "fairness", (ether_broker.transport.sessions.turns, "PRICES", _free), "hostile", seed=291),
    _mutant("restarts go by the wall clock alone",
            "an hour set back gave 60 s where 9 were left",
            "deadline", (History, "begin", _by_wall), "clocks broker", seed=195),
    _mutant("agents of lost nodes are forgotten silently",
            "the journal knew agents that the registry had forgotten, and grew for ever",
            "fold", (LostAgents, "forget", _forget_silently), "quotas node", seed=166),
    _mutant("a node says of its agent that it was lost",
            "UNREGISTER with the reason node_lost was believed by the journal alone",
            "fold", (Departures, "remove", _nobodys_word), "node", seed=8),
    _mutant("nothing is said of outcomes that were removed",
            "gc deleted uncollected outcomes and their delegators heard nothing",
            "liveness", (OutcomeReplay, "_look_up", _silent_when_removed), "gc", seed=327),
    _mutant("only what is remembered has ended",
            "a delegation that was sent again ran again, though the journal had its outcome",
            "one outcome, at most once", (BrokerState, "outcome", _only_remembered), "forgetful again", seed=33),
    _mutant("volatile work is given out again",
            "a broker that was killed before its commit ran work twice",
            "at most once", (DelegationPolicy, "_may_have_run", _never_ran), "",
            proof="tests.actors.supervisor.test_recovery:test_volatile_work_of_a_delegator_whose_clock_is_ahead_runs_once"),
    _mutant("volatile work may have run if its id was made before",
            "a delegator's clock that was ahead, or the broker's that was set back, had work run twice",
            "at most once", (DelegationPolicy, "_may_have_run", _ran_by_the_time), "",
            proof="tests.actors.supervisor.test_recovery:test_volatile_work_of_a_delegator_whose_clock_is_ahead_runs_once"),
    _mutant("an id from the future is not among what is forgotten",
            "when its time had come, what had ended ran again",
            "one outcome, at most once", (Ended, "_drop", _believe_the_time), "forgetful again", seed=118),
    _mutant("an agent that is back is the one that went",
            "an agent restarted while the broker was down ran work twice",
            "at most once, deadline, liveness, bounded queues, no bug",
            (Reconnection, "is_another_life", _same_life), "broker", seed=13),
    _mutant("what has ended waits for its turn at the node",
            "an agent that took long left so much unanswered that its node was cut off",
            "bounded queues", (Cell, "cancel", _answer_in_its_turn), "cancel", seed=11),
    _mutant("what a node holds in vain is never cancelled",
            "work that had ended kept its place for ever",
            "liveness, bounded queues", (Reconnection, "_cancel_there", _keep_all), "broker",
            proof="tests.actors.supervisor.test_recovery:test_what_ended_while_its_node_was_away_is_called_off_there"),
    _mutant("an observer behind a gc goes on in the ring",
            "it was told that it missed what the journal still had",
            "complete tap", (ObserverFeed, "_from_journal", _on_in_the_ring), "gc", seed=136),
    _mutant("what recovery ends is not remembered",
            "found by the fold: outcomes of a recovery were noted in a memory that was thrown away",
            "fold", (ether_actors.supervisor.supervisor, "recover", _forget_what_recovery_ended), "",
            proof="tests.actors.supervisor.test_recovery:test_what_a_recovery_ends_itself_is_told_and_remembered"),
    _mutant("children that have ended stay with their parent",
            "Entry.children had no bound",
            "fold", (Ledger, "end", _keep_ended_children), "children", seed=7),
    _mutant("what a lost node held is counted for ever",
            "the bound of all delegations was eaten up",
            "bounded queues", (Ledger, "forget_ended_at_node", _keep_held), "node", seed=8),
    _mutant("what a lost run delegated goes on beside the next run",
            "the next run's sub-delegations could not be told from the last one's",
            "parents, fold", (Delivery, "end_child", _keep_earlier_children), "children",
            proof="tests.actors.supervisor.test_recovery:"
                  "test_what_is_run_again_after_a_restart_has_no_sub_delegations_of_the_run_before"),
    _mutant("manifests count after their agents have left",
            "each restart of an agent counted against its session",
            "fold", (ether_actors.supervisor.membership.departures, "let_go", _never_let_go), "crowd", seed=14),
    _mutant("the access list bars nobody",
            "least capability", "least capability", (Grant, "marks", _permit_all), "access", seed=32),
    _mutant("who knows a request id is told its outcome",
            "identity", "identity", (DelegationPolicy, "_came_before", _tell_anybody), "again hostile", seed=42),
    _mutant("a connection speaks for agents of others",
            "identity", "identity", (DelegationPolicy, "_accept", _speak_for_anybody), "forgeries", seed=8),
    _mutant("deadlines that are sent again are by the old clock",
            "after a reboot what was sent again expired at once",
            "deadline, one outcome, liveness", (SessionState, "_resume", _old_clock), "broker", seed=104),
    _mutant("what falls through is pinned after a restart of the broker",
            "work whose agent was lost waited for it until its deadline, though another held its capability",
            "fold", (ether_actors.supervisor.recovery, "_restore_work", _pinned_when_recovered), "falls broker", seed=22),
    _mutant("what falls through stays with the agent that it names",
            "work whose agent left was refused, though another held its capability",
            "falling through", (RecipientPolicy, "another", _named_stays_named), "falls", seed=37),
    _mutant("a full link drops what is owed",
            "outcomes of finished work were lost when 64 MiB waited for a broker that was away",
            "no loss, liveness", (ZmqLink, "send", _drop_when_full), "narrow", seed=37),
    _mutant("an attempt that was not taken is followed by another",
            "a delegator that was restarted, and whose link was full for a moment, had work run twice",
            "retries", (RetriedDelegation, "_next_name", _another_though_untaken), "",
            proof="tests.runtime.test_retry:test_what_was_refused_without_a_look_at_its_id_does_not_run_twice"),
    _mutant("a refusal on its way counts as heard",
            "somebody who knew its id took it, and its delegator heard nothing until after its deadline",
            "liveness", (OutcomeReplay, "is_on_its_way", _on_no_way), "",
            proof="tests.actors.supervisor.test_duplicates:"
                  "test_a_refusal_on_its_way_stays_its_delegators_though_another_says_the_same_id"),
    _mutant("what is forgotten is not looked for in trouble",
            "an outcome of long ago that was asked for again was refused while the disk was full",
            "one outcome", (DelegationPolicy, "_is_known", _no_look_in_trouble), "",
            proof="tests.actors.supervisor.test_journal_trouble:"
                  "test_an_outcome_of_long_ago_is_given_again_though_the_journal_cannot_be_written"),
    _mutant("a full link is silent",
            "a living node was lost while the broker waited for its disk",
            "no loss", (MemoryLink, "show_life", _no_life), "",
            proof="tests.runtime.node.test_full_link:test_a_node_whose_link_is_full_shows_that_it_lives"),
    _mutant("a node that leaves takes along what it had let go",
            "what waited for agents that had moved was refused when the broker died while their earlier node left",
            "fold", (History, "leaving", _leaving_too), "",
            proof="tests.actors.supervisor.test_moves:"
            "test_it_is_kept_though_the_broker_dies_while_the_node_that_let_it_go_leaves"),
    _mutant("what is volatile is given to who took a name as if it had not been",
            "an event ran twice at an agent that had moved when the broker died before its commit",
            "at most once", (ether_actors.supervisor.recovery, "_place", _not_resent), "",
            proof="tests.actors.supervisor.test_moves:"
            "test_what_is_volatile_is_given_as_sent_again_as_a_node_may_have_had_it_before_the_journal_knew_that"),
    _mutant("who crashes as it gives way takes what comes",
            "what came was lost with the node that let the agent go, and had not begun",
            "moves", (AgentHost, "begin_giving_way", _once_only), "",
            proof="tests.runtime.test_stopping_agents:"
            "test_one_that_crashes_and_is_restarted_as_it_gives_way_takes_nothing_new"),
)  # fmt: skip
