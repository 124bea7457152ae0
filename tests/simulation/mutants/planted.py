"""Bugs that never were, one or more for each invariant: a simulator that does not find them proves nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final
from weakref import ref

import ether.node.agents.agent_schedules
import ether.node.delegations.retried_delegation
import ether_actors.agent.inbox
import ether_actors.supervisor.delegations.recipient_policy
import ether_actors.supervisor.delegations.scale_reports
import ether_actors.supervisor.journal.history
import ether_actors.supervisor.recovery
import ether_broker.mailbox.priority_queue
from ether.node.agents.agent_host import AgentHost
from ether.node.agents.agent_schedules import AgentSchedules, _Timer
from ether.node.agents.scale_policy import ScalePolicy
from ether.node.agents.scaled_agent import ScaledAgent
from ether.node.delegations.retried_delegation import RetriedDelegation
from ether.node.node import Node
from ether.node.node_services import NodeServices
from ether.node.responder import Responder
from ether_actors.agent.declarations.schedule import _Every
from ether_actors.agent.delayed import Delayed
from ether_actors.agent.inbox import Inbox
from ether_actors.agent.scale import Scale
from ether_actors.delegator.handle import Handle
from ether_actors.delegator.retry import Retry
from ether_actors.supervisor.capabilities.state_service import StateService
from ether_actors.supervisor.delegation_policy import DelegationPolicy
from ether_actors.supervisor.delegations.delivery import Delivery
from ether_actors.supervisor.delegations.reassignment import Reassignment
from ether_actors.supervisor.delegations.rebalancing import Rebalancing
from ether_actors.supervisor.membership.departures import Departures
from ether_actors.supervisor.membership.lost_agents import LostAgents
from ether_actors.supervisor.registry.registration import Condition
from ether_actors.supervisor.registry.registry import Registry
from ether_actors.supervisor.registry.subscription_index import SubscriptionIndex
from ether_actors.supervisor.state.ended import Ended
from ether_actors.supervisor.state.lease_table import LeaseTable
from ether_actors.supervisor.state.timing_wheel import SLOT, TimingWheel
from ether_actors.task.task import Task
from ether_broker.envelope.manifest.manifest import Manifest
from ether_broker.envelope.priority import HIGH, LOW, NORMAL
from ether_broker.envelope.status import Status
from ether_broker.errors import Closed
from ether_broker.mailbox.mailbox import Mailbox, Offer
from ether_broker.mailbox.priority_queue import PriorityQueue
from ether_broker.transport.sessions.session_table import SessionTable
from ether_broker.wire.frame import Flag, Kind, read_header
from ether_broker.wire.saved_state import join_state, split_state
from tests.simulation.mutants.mutant import Mutant

__all__ = ["PLANTED"]


def _release_early(release: Any) -> Any:
    """Receipts and outcomes leave before the commit that holds what they tell of."""

    def mutated(self: SessionTable, ticket: int) -> None:
        release(self, 1 << 60)

    return mutated


def _run_again(lost: Any) -> Any:
    """What had been sent to a node that is lost is given to another, whatever it is."""

    def mutated(self: Reassignment, agent: Any, *more: Any) -> Any:
        for entry in agent.work:
            entry.idempotent = True
        return lost(self, agent, *more)

    return mutated


def _forget_ended(delegation: Any) -> Any:
    """A delegation that is sent again after its outcome is taken for a new one."""

    def mutated(self: DelegationPolicy, session: Any, header: Any, envelope: bytes) -> None:
        state = self._state
        ended, state.ended = state.ended, Ended()  # the bug
        try:
            delegation(self, session, header, envelope)
        finally:
            state.ended = ended

    return mutated


def _late_slot(set_: Any) -> Any:
    """A deadline is noticed five slots late."""

    def mutated(self: TimingWheel[Any], key: bytes, at: float, item: Any) -> int:
        return set_(self, key, at + 5 * SLOT, item)  # type: ignore[no-any-return]

    return mutated


def _early_slot(set_: Any) -> Any:
    """A deadline is noticed two slots early."""

    def mutated(self: TimingWheel[Any], key: bytes, at: float, item: Any) -> int:
        return set_(self, key, at - 2 * SLOT, item)  # type: ignore[no-any-return]

    return mutated


def _wrong_end(_put_back: Any) -> Any:
    """What comes back into a mailbox has to wait behind what came after it."""
    return Mailbox.restore


def _tap_at_once(send: Any) -> Any:
    """Observers see what is not durable; after a crash the same numbers are another's."""

    def mutated(self: SessionTable, session: Any, envelope: bytes) -> None:
        if envelope[0] == Kind.TAP:
            self.send_aside(session, envelope)
        else:
            send(self, session, envelope)

    return mutated


def _no_bound(offer: Any) -> Any:
    """A full mailbox takes more."""

    def mutated(self: Mailbox[Any], letter: Any) -> Offer:
        found = offer(self, letter)
        if found is Offer.FULL:
            self.restore(letter)
            return Offer.QUEUED
        return found  # type: ignore[no-any-return]

    return mutated


def _leaky_credit(forget: Any) -> Any:
    """The credit of work that ended without its node is never given back."""
    return lambda self: None


def _forget_leases(_restore: Any) -> Any:
    """A broker that is restarted knows nothing of the leases that are held."""
    return lambda self, *lease, **fields: None


def _keep_children(_end_children: Any) -> Any:
    """What ends leaves its sub-delegations running."""
    return lambda self, entry, message="": None


def _every_subscription(subscribers: Any) -> Any:
    """An agent is given an event once for each of its subscriptions."""

    def mutated(self: SubscriptionIndex, topic: str) -> Any:
        for agent in subscribers(self, topic):
            yield agent
            if len(agent.manifest.subscriptions) > 1:
                yield agent

    return mutated


def _only_the_living(subscribers: Any) -> Any:
    """An agent whose node is lost, or that restarts, is given no event."""
    return lambda self, topic: (agent for agent in subscribers(self, topic) if agent.condition is Condition.UP)


def _event_again(subscription: Any) -> Any:
    """What handles an event counts as idempotent, whatever it says."""

    def mutated(self: Manifest, topic: str) -> Any:
        found = subscription(self, topic)
        return found and found.model_copy(update={"idempotent": True})

    return mutated


def _forget_with_events(_given: Any) -> Any:
    """An agent that is down is forgotten with the events that wait for it."""
    return lambda self, agent: None


def _resent(_came_before: Any) -> Any:
    """The state of a late answer that is sent again in a new session is dropped."""
    return lambda _self, header: bool(header.flags & Flag.RESENT)


def _only_the_registered(take: Any) -> Any:
    """An outcome that comes before its agent has registered again is taken, and its state is not."""

    def mutated(self: StateService, session: Any, envelope: bytes) -> Any:
        self.may_speak_for = lambda _session, _agent: False
        return take(self, session, envelope)

    return mutated


def _no_comparison(take: Any) -> Any:
    """A state that was made of an older one is saved."""

    def mutated(self: StateService, session: Any, envelope: bytes) -> Any:
        name = read_header(envelope).source.decode()
        known = self._state.agent_states.get(name)
        if known is not None:
            brought, answer = split_state(envelope)
            envelope = join_state(answer, brought._replace(base=known.number, origin=known.incarnation))
        return take(self, session, envelope)

    return mutated


def _whatever_may_be_done(fits: Any) -> Any:
    """What may have been done is tried again, whether the policy names it or not: its error says that it may go better."""

    def mutated(self: Retry, response: Any) -> bool:
        return fits(self, response) or (response.status is Status.FAILED_EXECUTION and response.error.retryable)

    return mutated


def _beyond_the_deadline(try_again: Any) -> Any:
    """A further attempt has more time than what is left of the whole."""

    def mutated(self: RetriedDelegation) -> None:
        self.handle.deadline += 5.0
        try_again(self)

    return mutated


def _one_too_many(delay: Any) -> Any:
    """The first attempt is not counted."""
    return lambda self, *more: delay(replace(self, attempts=self.attempts + 1), *more)


def _cancelled_and_again(_cancel: Any) -> Any:
    """A cancellation ends the attempt that runs, and no more."""
    return lambda self, _handle: self._current.cancel()


def _late_again(fits: Any) -> Any:
    """What timed out is tried again, whether it had begun or not."""
    return lambda self, response: fits(self, response) or response.status is Status.TIMEOUT


def _whatever_fails(fits: Any) -> Any:
    """What failed is tried again, though nobody asked for it."""
    return lambda self, response: fits(self, response) or response.status is Status.FAILED_EXECUTION


def _cancelled_fits(fits: Any) -> Any:
    """What was cancelled is tried again."""
    return lambda self, response: fits(self, response) or response.status is Status.CANCELLED


def _stands(status: Status) -> Callable[[Any], Any]:
    """Some of what is tried again by itself is not, unless the policy names it."""

    def make(fits: Any) -> Any:
        def mutated(self: Retry, response: Any) -> bool:
            code = response.error.code if response.error is not None else ""
            is_named = response.status in self.on or code in self.on
            return fits(self, response) and (is_named or response.status is not status)

        return mutated

    return make


def _not_what_is_named(fits: Any) -> Any:
    """What the policy names is not tried again."""
    return lambda self, response: fits(replace(self, on=()), response)


def _delays(change: Callable[[float, Any], float]) -> Callable[[Any], Any]:
    """The delay before another attempt is not the policy's."""

    def make(delay: Any) -> Any:
        def mutated(self: Retry, response: Any, *more: Any) -> float | None:
            found = delay(self, response, *more)
            return None if found is None else change(found, response)

        return mutated

    return make


def _without_the_agents_word(delay: Any) -> Any:
    """`retry_after` is not heeded."""
    return lambda self, response, *more: delay(self, response.model_copy(update={"retry_after": None}), *more)


def _past_the_deadline(delay: Any) -> Any:
    """A delay is waited for that is longer than what is left."""
    return lambda self, response, attempt, _left, random: delay(self, response, attempt, math.inf, random)


def _all_the_time(_least: Any) -> Any:
    """An attempt has as much time as all together."""
    return lambda one, other: one if other is None else other


def _of_its_own(copy: Any) -> Any:
    """The ids of further attempts do not follow from the first, which the delegator chose."""

    def mutated(self: RetriedDelegation, *more: Any) -> Any:
        self._is_named = False
        return copy(self, *more)

    return mutated


def _to_anybody(copy: Any) -> Any:
    """Further attempts do not name the agent that the first names."""
    return lambda self, *more: copy(self, *more).model_copy(update={"to_agent": None})


def _miscounted(copy: Any) -> Any:
    """Further attempts say that they are the one before."""
    return lambda self, number, timeout: copy(self, number - 1, timeout)


def _as_the_first(_stand_for: Any) -> Any:
    """The delegator's handle has the id of the first attempt."""
    return lambda self, other: None


def _last_of_all(try_again: Any) -> Any:
    """The outcomes of earlier attempts are forgotten, but for the last."""

    def mutated(self: RetriedDelegation) -> None:
        del self.earlier[:-1]
        try_again(self)

    return mutated


def _never(_method: Any) -> Any:
    """It is not done."""
    return lambda self, *more: None


def _kept(_end: Any) -> Any:
    """What has ended is kept."""
    return lambda self, current: current.share(self.handle)


def _after_the_task(_open_services: Any) -> Any:
    """A handler that has returned may go on with its attempts."""
    return lambda self, what: self._services


def _overlapping(run: Any) -> Any:
    """A timer does not look whether its last run has ended."""

    def mutated(self: AgentSchedules, *args: Any) -> None:
        self._open.clear()
        run(self, *args)

    return mutated


def _forgetful(start: Any) -> Any:
    """An agent does not know of the runs that one of its name has left."""

    def mutated(self: AgentSchedules, cell: Any) -> None:
        for key in [key for key in self._open if key[0] == cell.name]:
            del self._open[key]
        start(self, cell)

    return mutated


def _in_a_burst(_due: Any) -> Any:
    """What fell due while the process stood still is made up for."""

    def mutated(self: Any, last: float | None, now: float) -> float:
        return last + self.seconds if last is not None else now if self.at_start else now + self.seconds  # type: ignore[no-any-return]

    return mutated


def _at_once_anew(_day: Any) -> Any:
    """A time that was reached comes again whenever the wall clock is set back."""
    return 0.0


def _on_after_the_end(look: Any) -> Any:
    """A timer goes on with the next instance of its agent, beside that one's own."""

    def mutated(self: Any) -> None:
        if (cell := self._cell()) is not None and cell.agent is not None:
            self._agent = ref(cell.agent)
        look(self)

    return mutated


def _on_without_its_agent(_is_open: Any) -> Any:
    """Who has ended may delegate."""
    return lambda self, agent: True


def _never_again(start: Any) -> Any:
    """The timers of an agent begin with its first instance only."""

    def mutated(self: AgentSchedules, cell: Any) -> None:
        begun = vars(self).setdefault("begun", set())
        if cell.name not in begun:
            begun.add(cell.name)
            start(self, cell)

    return mutated


def _ended_by_failure(run: Any) -> Any:
    """A timer ends with a run that does not end well."""

    def mutated(self: AgentSchedules, cell: Any, capability: str, schedule: Any) -> None:
        last = self._open.get((cell.name, capability))
        failed = vars(self).setdefault("failed", set())
        if (cell.name, capability) in failed:
            raise Closed("It has failed.")
        run(self, cell, capability, schedule)
        begun = self._open.get((cell.name, capability))
        if begun is not None and begun is not last:
            begun.add_done_callback(lambda ended: ended.outcome().ok or failed.add((cell.name, capability)))

    return mutated


def _once_by_the_wall(set_: Any) -> Any:
    """A cron expression has one time."""

    def mutated(self: Any, last: float | None) -> None:
        if last is None or not self.schedule.is_by_wall:
            set_(self, last)

    return mutated


def _at_once(due: Any) -> Any:
    """An interval begins with a run."""
    return lambda self, last, now: now if last is None else due(self, last, now)


def _with_any_timeout(delegate: Any) -> Any:
    """The runs of a timer have the bus's timeout."""
    return lambda self, cell, capability, timeout: delegate(self, cell, capability, None)


def _part_of_a_task(delegate_as: Any) -> Any:
    """What an agent delegates by itself is a part of what it works on, and ends with it."""

    def mutated(  # noqa: PLR0917  as `NodeServices.delegate_as`
        self: NodeServices, agent: Any, capability: str, params: Any, to: Any, options: Any
    ) -> Any:  # fmt: skip
        works = agent.life.node.agent_host.cell(agent.agent_name).works.values()
        ids = [work.task.request_id for work in works if work.task is not None]
        return delegate_as(self, agent, capability, params, to, {**options, "parent": ids[0]} if ids else options)

    return mutated


def _half_the_time(call_after: Any) -> Any:
    """What is to be made later is made after half of the time."""
    return lambda self, seconds, call: call_after(self, seconds / 2, call)


def _keep_to_itself(_give_next: Any) -> Any:
    """What waits for an instance goes to no other that is free."""

    def mutated(_self: Rebalancing, instances: Any) -> None:
        instances.waiting.clear()
        instances.lost.clear()

    return mutated


def _one_instance_too_many(init: Any) -> Any:
    """One instance more may be started than the scale says."""

    def mutated(self: ScaledAgent, name: str, names: Any, scale: Scale, start: Any) -> None:
        init(self, name, names, replace(scale, max=scale.max + 1), start)

    return mutated


def _strict(_choose: Any) -> Any:
    """A priority waits as long as there is one above it."""

    def mutated(_credit: list[int], waits: Sequence[object]) -> int:
        return next((priority for priority in (HIGH, NORMAL, LOW) if waits[priority]), -1)

    return mutated


def _lowest_first(_choose: Any) -> Any:
    """The lowest priority goes first."""

    def mutated(_credit: list[int], waits: Sequence[object]) -> int:
        return next((priority for priority in (LOW, NORMAL, HIGH) if waits[priority]), -1)

    return mutated


def _low_starves(choose: Any) -> Any:
    """High and normal have their shares, and low has what they leave."""

    def mutated(credit: list[int], waits: Sequence[object]) -> Any:
        others = [waits[HIGH], waits[NORMAL], None]
        return choose(credit, others if any(others) else waits)

    return mutated


def _one_mailbox_class(class_of: Any) -> Any:
    """All that waits at the broker is of normal priority."""
    return lambda self, _priority: class_of(self, NORMAL)


def _one_inbox_class(put: Any) -> Any:
    """All that waits at a node is of normal priority."""

    def mutated(self: Inbox, message: Any, /, _priority: int = NORMAL) -> Any:
        return put(self, message)

    return mutated


def _without_cooldown(decide: Any) -> Any:
    """An instance is taken away as soon as it is one too many."""

    def mutated(self: ScalePolicy, queue: int, instances: int, now: float) -> Any:
        self._enough_since = -math.inf
        return decide(self, queue, instances, now)

    return mutated


def _peaks_between_looks_do_not_count(_peaked: Any) -> Any:
    """Only what waits or runs as the node looks keeps an instance."""
    return lambda self, most, instances: None


def _all_that_is_too_many(decide: Any) -> Any:
    """After the cooldown all instances are taken away that are too many."""

    def mutated(self: ScalePolicy, queue: int, instances: int, now: float) -> Any:
        scale = self._scale
        wanted = min(scale.max, max(scale.min, -(-queue // scale.per)))
        return decide(self, queue, instances, now) and wanted - instances

    return mutated


def _never_fewer(decide: Any) -> Any:
    """Instances come, and none is taken away."""

    def mutated(self: ScalePolicy, queue: int, instances: int, now: float) -> Any:
        return max(0, decide(self, queue, instances, now))

    return mutated


def _never_more(decide: Any) -> Any:
    """Instances are taken away, and none comes."""

    def mutated(self: ScalePolicy, queue: int, instances: int, now: float) -> Any:
        return min(0, decide(self, queue, instances, now))

    return mutated


def _half_as_many(decide: Any) -> Any:
    """An instance comes when twice as much waits or runs as the scale says."""

    def mutated(self: ScalePolicy, queue: int, instances: int, now: float) -> Any:
        more, is_late = decide(self, queue, instances, now), queue <= 2 * self._scale.per * instances
        return min(0, more) if is_late and instances >= self._scale.min else more

    return mutated


def _going_do_not_count(_queue: Any) -> Any:
    """What runs on instances that go does not count."""

    def mutated(self: ScaledAgent) -> int:
        return sum(cell.outstanding for cell in self.active)

    return mutated


def _always_needed(_needs_more: Any) -> Any:
    """What was decided is done, though what waited has been done meanwhile."""

    def mutated(_self: ScaledAgent) -> bool:
        return True

    return mutated


def _what_waits_only(_outstanding: Any) -> Any:
    """What runs does not count at the broker."""

    def mutated(self: Mailbox[Any]) -> int:
        return self.waiting_count

    return mutated


def _kept_for_ever(_expire: Any) -> Any:
    """What waits for an agent that moves, and that no node takes, waits until its deadline."""
    return lambda self, agent: None


def _without_held(events: Any) -> Any:
    """What an agent that moves had begun is not told from what waits for it."""
    return {**events, "agent_leaving": lambda self, body: events["agent_leaving"](self, {**body, "held": ()})}


def _as_one_that_leaves(_move: Any) -> Any:
    """An agent that moves leaves for good."""

    def mutated(self: Departures, agent: Any, again: Any) -> None:
        self.remove(agent, "it moves to another node")

    return mutated


def _down_when_recovered(restore: Any) -> Any:
    """An agent that moves counts as one of a lost node, after a restart."""

    def mutated(self: Registry, manifest: Any, session: Any, condition: Condition, *more: Any) -> Any:
        known = Condition.DOWN if condition is Condition.MOVING else condition
        return restore(self, manifest, session, known, *more)

    return mutated


def _nothing_refused(_refuse: Any) -> Any:
    """What waits for itself waits on."""

    def mutated(self: Reassignment, entries: Any) -> Iterator[int]:
        yield from ()

    return mutated


def _waits_for_itself(_would: Any) -> Any:
    """What would wait for itself is taken."""
    return lambda parent: False


def _oldest_first(hand_back: Any) -> Any:
    """What an agent had not begun is handed back the oldest first."""

    def mutated(self: Responder, works: list[Any]) -> None:
        hand_back(self, works[::-1])

    return mutated


def _mutant(name: str, invariants: str, where: tuple[Any, str, Any], seed: int, needs: str = "") -> Mutant:
    return Mutant(name, "", frozenset(invariants.split(", ")), *where, needs=frozenset(needs.split()), seed=seed)


PLANTED: Final = (
    _mutant("receipts before the commit", "no loss, complete tap", (SessionTable, "release", _release_early), 2),
    _mutant("node loss runs everything again", "at most once", (Reassignment, "lost", _run_again), 13, "node"),
    _mutant("ended delegations are forgotten", "one outcome", (DelegationPolicy, "delegation", _forget_ended), 22),
    _mutant("deadlines five slots late", "deadline", (TimingWheel, "set", _late_slot), 1),
    _mutant("deadlines two slots early", "deadline", (TimingWheel, "set", _early_slot), 1),
    _mutant("put back at the wrong end", "order", (Mailbox, "put_back", _wrong_end), 63),
    _mutant("observers before the commit", "complete tap", (SessionTable, "send", _tap_at_once), 2),
    _mutant("mailboxes without a bound", "bounded queues", (Mailbox, "offer", _no_bound), 6),
    _mutant("credit is never given back", "liveness, accounting", (Mailbox, "release", _leaky_credit), 1),
    _mutant("leases forgotten in a restart", "lease exclusion, fold", (LeaseTable, "restore", _forget_leases), 218),
    _mutant(
        "sub-delegations outlive their parent",
        "one outcome",
        (Delivery, "end_children", _keep_children),
        13,
        "children",
    ),
    _mutant("events once a subscription", "once", (SubscriptionIndex, "subscribers", _every_subscription), 7, "events"),
    _mutant(
        "events only for the living", "none lost", (SubscriptionIndex, "subscribers", _only_the_living), 7, "events"
    ),
    _mutant("events are handled again", "at most once", (Manifest, "subscription", _event_again), 258, "events node"),
    _mutant("states only of the registered", "state", (StateService, "take", _only_the_registered), 177, "states"),
    _mutant("late states come once", "state", (StateService, "_came_before", _resent), 1036, "states"),
    _mutant("older states overwrite", "state", (StateService, "take", _no_comparison), 14, "states"),
    _mutant("retries of what may be done", "retries", (Retry, "_fits", _whatever_may_be_done), 13, "retries"),
    _mutant(
        "retries beyond the deadline", "retries", (RetriedDelegation, "_try_again", _beyond_the_deadline), 0, "retries"
    ),
    _mutant("one retry too many", "retries", (Retry, "delay", _one_too_many), 0, "retries"),
    _mutant(
        "retries after a cancellation", "retries", (RetriedDelegation, "cancel", _cancelled_and_again), 14, "retries"
    ),
    _mutant("retries of what timed out", "retries", (Retry, "_fits", _late_again), 13, "retries"),
    _mutant("timers that overlap", "timers", (AgentSchedules, "run", _overlapping), 1, "timers"),
    _mutant("timers that forget", "timers", (AgentSchedules, "start", _forgetful), 1, "timers"),
    _mutant("timers in a burst", "timers", (_Every, "due", _in_a_burst), 33, "timers"),
    _mutant(
        "times that come again",
        "timers",
        (ether.node.agents.agent_schedules, "_DAY", _at_once_anew),
        45,
        "timers clocks",
    ),
    _mutant("timers of ended instances", "timers", (_Timer, "__call__", _on_after_the_end), 1, "timers"),
    _mutant("delegations of ended agents", "timers", (AgentHost, "is_open", _on_without_its_agent), 14, "timers"),
    _mutant("timers of the first instance only", "timers", (AgentSchedules, "start", _never_again), 1, "timers"),
    _mutant("retries of what failed", "retries", (Retry, "_fits", _whatever_fails), 10, "retries"),
    _mutant("retries of what was cancelled", "retries", (Retry, "_fits", _cancelled_fits), 106, "retries cancel"),
    _mutant("no retries after overload", "retries", (Retry, "_fits", _stands(Status.REJECTED_OVERLOAD)), 8, "retries"),
    _mutant("no retries of what expired", "retries", (Retry, "_fits", _stands(Status.TIMEOUT)), 10, "retries"),
    _mutant(
        "no retries of what was down", "retries", (Retry, "_fits", _stands(Status.REJECTED_CAPABILITY)), 154, "retries"
    ),
    _mutant(
        "no retries at an agent's word", "retries", (Retry, "_fits", _stands(Status.FAILED_EXECUTION)), 14, "retries"
    ),
    _mutant("no retries of what is named", "retries", (Retry, "_fits", _not_what_is_named), 0, "retries"),
    _mutant(
        "retries at once", "retries", (Retry, "delay", _delays(lambda _, said: said.retry_after or 0.0)), 0, "retries"
    ),
    _mutant("retries too late", "retries", (Retry, "delay", _delays(lambda delay, _: delay + 2.0)), 0, "retries"),
    _mutant("retries before retry_after", "retries", (Retry, "delay", _without_the_agents_word), 8, "retries"),
    _mutant("delays past the deadline", "retries", (Retry, "delay", _past_the_deadline), 0, "retries"),
    _mutant(
        "attempts with all the time",
        "retries",
        (ether.node.delegations.retried_delegation, "_least", _all_the_time),
        0,
        "retries",
    ),
    _mutant("attempts with ids of their own", "retries", (RetriedDelegation, "_copy", _of_its_own), 1503, "retries"),
    _mutant("attempts to anybody", "retries", (RetriedDelegation, "_copy", _to_anybody), 0, "retries"),
    _mutant("attempts that miscount", "retries", (RetriedDelegation, "_copy", _miscounted), 0, "retries"),
    _mutant("handles of the first attempt", "retries", (Handle, "stand_for", _as_the_first), 0, "retries"),
    _mutant("earlier outcomes are forgotten", "retries", (RetriedDelegation, "_try_again", _last_of_all), 0, "retries"),
    _mutant("retries that never come", "liveness", (RetriedDelegation, "_try_again", _never), 0, "retries"),
    _mutant("retries after the close", "retries", (RetriedDelegation, "close", _never), 19, "retries leave"),
    _mutant("retries that are kept", "retries", (RetriedDelegation, "_end", _kept), 0, "retries"),
    _mutant("retries after the task", "retries", (Task, "_open_services", _after_the_task), 213, "retries"),
    _mutant("timers that end with a failure", "timers", (AgentSchedules, "run", _ended_by_failure), 1, "timers"),
    _mutant("cron expressions of one time", "timers", (_Timer, "_set", _once_by_the_wall), 6, "timers"),
    _mutant("intervals that begin with a run", "timers", (_Every, "due", _at_once), 1, "timers"),
    _mutant("timers without their timeout", "timers", (Node, "_delegate_to_itself", _with_any_timeout), 1, "timers"),
    _mutant("delegations within a task", "timers", (NodeServices, "delegate_as", _part_of_a_task), 1, "timers"),
    _mutant("delays that are half", "timers", (NodeServices, "call_after", _half_the_time), 1, "timers"),
    _mutant("delays that never end", "timers", (Delayed, "_make", _never), 1, "timers"),
    _mutant("delays that cannot be cancelled", "timers", (Delayed, "cancel", _never), 1, "timers"),
    replace(
        _mutant(
            "agents forgotten with their events", "no bug", (LostAgents, "given", _forget_with_events), 2244, "events"
        ),
        proof="tests.actors.supervisor.test_event_service:"
        "test_an_event_waits_for_an_agent_that_is_down_no_longer_than_that_is_remembered",
    ),  # one world in some thousands shows it
    _mutant("instances keep what waits", "sharing", (Rebalancing, "_give_next", _keep_to_itself), 3, "scale"),
    _mutant(
        "the highest mailbox only",
        "priorities",
        (ether_broker.mailbox.priority_queue, "choose", _strict),
        94,
        "priorities",
    ),
    _mutant(
        "the lowest mailbox first",
        "priorities",
        (ether_broker.mailbox.priority_queue, "choose", _lowest_first),
        1,
        "priorities",
    ),
    _mutant(
        "low mailboxes starve",
        "priorities",
        (ether_broker.mailbox.priority_queue, "choose", _low_starves),
        52,
        "priorities",
    ),
    _mutant("the highest inbox only", "priorities", (ether_actors.agent.inbox, "choose", _strict), 36, "priorities"),
    _mutant(
        "the lowest inbox first", "priorities", (ether_actors.agent.inbox, "choose", _lowest_first), 14, "priorities"
    ),
    _mutant("low inboxes starve", "priorities", (ether_actors.agent.inbox, "choose", _low_starves), 36, "priorities"),
    _mutant(
        "mailboxes without priorities", "priorities", (PriorityQueue, "_class", _one_mailbox_class), 1, "priorities"
    ),
    _mutant("inboxes without priorities", "priorities", (Inbox, "put", _one_inbox_class), 14, "priorities"),
    _mutant("scaling without a cooldown", "scale", (ScalePolicy, "decide", _without_cooldown), 2, "scale"),
    _mutant(
        "peaks between two looks do not count",
        "scale",
        (ScalePolicy, "peaked", _peaks_between_looks_do_not_count),
        2,
        "scale",
    ),
    _mutant("instances go all at once", "scale", (ScalePolicy, "decide", _all_that_is_too_many), 3, "scale"),
    _mutant("instances never go", "scale", (ScalePolicy, "decide", _never_fewer), 2, "scale"),
    _mutant("instances never come", "scale, liveness", (ScalePolicy, "decide", _never_more), 10, "scale"),
    _mutant("more instances than may be", "scale", (ScaledAgent, "__init__", _one_instance_too_many), 26, "scale"),
    _mutant("instances come late", "scale", (ScalePolicy, "decide", _half_as_many), 9, "scale"),
    _mutant(
        "what instances that go run does not count",
        "scale",
        (ScaledAgent, "outstanding", _going_do_not_count),
        228,
        "scale",
    ),
    _mutant(
        "instances come that are not needed any more",
        "scale",
        (ScaledAgent, "needs_more", _always_needed),
        228,
        "scale",
    ),
    _mutant("what instances run is not told", "scale", (Mailbox, "outstanding", _what_waits_only), 9, "scale"),
    _mutant(
        "what waits is told late",
        "scale",
        (ether_actors.supervisor.delegations.scale_reports, "TELL", lambda tell: 4 * tell),
        2,
        "scale",
    ),
    _mutant("who moves is kept for ever", "moves", (Departures, "expire", _kept_for_ever), 37, "moves"),
    _mutant("who moves leaves for good", "moves", (Departures, "move", _as_one_that_leaves), 7, "moves"),
    _mutant(
        "who moves is down after a restart", "moves, fold", (Registry, "restore", _down_when_recovered), 14, "moves"
    ),
    _mutant(
        "what had begun is not told when its agent moves",
        "fold",
        (ether_actors.supervisor.journal.history, "_EVENTS", _without_held),
        490,
        "moves",
    ),
    _mutant("handed back the oldest first", "order", (Responder, "hand_back", _oldest_first), 43, "moves"),
    _mutant(
        "what waits for itself waits on", "moves", (Reassignment, "_end_deadlocked", _nothing_refused), 382, "moves"
    ),
    replace(
        _mutant("what goes does not look for who waits", "moves", (Departures, "restarts", _kept_for_ever), 0, "moves"),
        proof="tests.actors.supervisor.test_moves:test_what_it_asked_before_it_went_of_one_that_moves_is_refused",
    ),  # few worlds show these two
    replace(
        _mutant(
            "what would wait for itself is taken",
            "moves",
            (ether_actors.supervisor.delegations.recipient_policy, "has_to_end", _waits_for_itself),
            0,
            "moves",
        ),
        proof="tests.actors.supervisor.test_moves:test_what_an_agent_that_goes_too_asks_of_one_that_moves_is_refused_at_once",
    ),
)
