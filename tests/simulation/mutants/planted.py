"""Bugs that never were, one or more for each invariant: a simulator that does not find them proves nothing."""

from __future__ import annotations

from typing import Any, Final

from ether_actors.supervisor.capabilities.state_service import StateService
from ether_actors.supervisor.delegation_policy import DelegationPolicy
from ether_actors.supervisor.delegations.delivery import Delivery
from ether_actors.supervisor.delegations.reassignment import Reassignment
from ether_actors.supervisor.membership.lost_agents import LostAgents
from ether_actors.supervisor.registry.registration import Condition
from ether_actors.supervisor.registry.subscription_index import SubscriptionIndex
from ether_actors.supervisor.state.ended import Ended
from ether_actors.supervisor.state.lease_table import LeaseTable
from ether_actors.supervisor.state.timing_wheel import SLOT, TimingWheel
from ether_broker.envelope.manifest import Manifest
from ether_broker.mailbox import Mailbox, Offer
from ether_broker.transport.session_table import SessionTable
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
    return lambda self, *lease: None


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
            envelope = join_state(answer, brought._replace(base=known.number, origin=known.instance))
        return take(self, session, envelope)

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
    _mutant("agents forgotten with their events", "no bug", (LostAgents, "given", _forget_with_events), 45, "events"),
)
