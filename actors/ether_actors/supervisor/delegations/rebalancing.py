"""The rebalancing of what waits among the instances of agents that scale. Sans-IO.

a mailbox changes ──► changed ──► job ──► Reassignment.rebalance   what waits goes to who is free, or up
                              └─► ScaleReports.changed             how much each instance has to do
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import islice
from math import inf
from operator import attrgetter
from typing import Final

from ether_actors.supervisor.delegations.reassignment import Reassignment
from ether_actors.supervisor.delegations.recipient_policy import RecipientPolicy
from ether_actors.supervisor.delegations.scale_reports import ScaleReports
from ether_actors.supervisor.registry.registration import Condition, Registration
from ether_actors.supervisor.state.broker_state import BrokerState
from ether_actors.supervisor.state.job_schedule import OWN, Job, StepShare
from ether_actors.supervisor.state.round_robin import RoundRobin
from ether_broker.transport.sessions.cost import HOLDERS_SHIFT, REBALANCED

__all__ = ["REBALANCED_PER_STEP", "Rebalancing"]

REBALANCED_PER_STEP: Final = 16
"""Delegations that one step looks at to give them to other instances."""
_COMPARED: Final = 16
"""Instances of which the oldest delegation is looked for, and that are looked at for who may have it."""


class _Instances:
    """Instances of agents that scale which do each other's work: they declare the same, and who may reach one may reach all.

    So none is free in vain while something waits for another, whatever else is registered.
    """

    __slots__ = ("due", "free", "key", "lost", "members", "open", "waiting")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.members: dict[Registration, None] = {}
        self.free: dict[Registration, None] = {}
        """Those that begin at once what they are given, and some that do no more; next whose turn it is."""
        self.waiting: dict[Registration, None] = {}
        """Those for which something waits that others may have, and some for which nothing does any more."""
        self.open: dict[Registration, None] = {}
        """Those that begin what they are given, at once or after what waits for them; next whose turn it is."""
        self.lost: dict[Registration, None] = {}
        """Of `waiting`, those that are down, but for those of which no other could have the oldest since they changed last."""
        self.due: set[str] = set()
        """Whose turns they are looked at in."""


class Rebalancing:
    """The part of the supervisor that treats what waits for instances of an agent as one queue.

    As soon as an instance is free, it is given the oldest delegation that waits for another one that is alike, high priority
    first; if something waits for more than 16, for one of 16 whose turn it is. While none is free, what waits for one that is
    down waits for one that is up instead, in whose node's count it is. Those are alike that declare the same
    (capabilities, which of them are idempotent, exclusions, interface) and belong to the same rules of the access list: what
    somebody else registers, whom the delegators of these do not reach, is not one of them. A delegation stays where it is if
    its delegator names the instance, if another one has handed it back, and once none of those that are free may have it: by
    what it was made for, or by the access list that a restarted broker has. Nothing here runs for agents that do not scale.

    Args:
        state: of the broker.
        recipients: says who may have it.
        reassignment: gives what waits to others.
        reports: is told how much each instance has to do.
    """

    def __init__(
        self, state: BrokerState, recipients: RecipientPolicy, reassignment: Reassignment, reports: ScaleReports
    ) -> None:  # fmt: skip
        self._state = state
        self._recipients = recipients
        self._reassignment = reassignment
        self._reports = reports
        self._alike: dict[Hashable, _Instances] = {}
        """{`Group.rebalancing_key`: the instances that have it}."""
        self._instances: dict[Registration, _Instances] = {}
        """{instance: it and those that are like it}."""
        self._due: RoundRobin[str, tuple[str, _Instances]] = RoundRobin(REBALANCED_PER_STEP)
        """{whose instance has changed: those of which one is free and something waits for another}, in turn."""
        self.job: Job = Job(state.schedule, self._go_on, most=OWN)
        """Gives what waits to who is free."""
        self._share = StepShare(state.schedule, REBALANCED_PER_STEP)

    def changed(self, agent: Registration) -> None:
        """Note that an instance has more or less to do, or another condition, or is none any more."""
        if agent.replicas is None:
            self._leave(agent)
            return
        instances = self._instances.get(agent)
        if instances is None:
            instances = self._enter(agent)
        for some, belongs in (
            (instances.free, _is_free), (instances.waiting, _has_movable),
            (instances.open, _is_open), (instances.lost, _is_lost),
        ):  # fmt: skip
            if belongs(agent):
                some.setdefault(agent)
            else:
                some.pop(agent, None)
        self._put(agent.session.principal, instances)
        self._reports.changed(agent)
        if self._due.owners:
            self.job.wake()

    def _enter(self, agent: Registration) -> _Instances:
        agent.mailbox.track_movable(_is_movable)
        assert agent.replicas is not None
        key = agent.replicas.rebalancing_key
        instances = self._alike.get(key)
        if instances is None:
            instances = self._alike[key] = _Instances(key)
        instances.members[agent] = None
        self._instances[agent] = instances
        self._reports.entered(agent, key)
        return instances

    def _leave(self, agent: Registration) -> None:
        instances = self._instances.pop(agent, None)
        if instances is None:
            return
        for some in (instances.members, instances.free, instances.waiting, instances.open, instances.lost):
            some.pop(agent, None)
        self._reports.left(agent)
        if not instances.members:
            del self._alike[instances.key]

    def _go_on(self) -> float:
        owners, share = self._due.owners, self._share
        if owners and self._state.journal.trouble is not None:
            self.job.pause()  # until the journal can be written
            return inf
        share.keep_half()
        while owners and share.left > 0:
            for owner, instances in self._due.take(share.left):
                share.spend()
                self._give_next(instances)
                instances.due.discard(owner)
                self._put(owner, instances)
        return 0.0 if owners else inf

    def _put(self, owner: str, instances: _Instances) -> None:
        if owner in instances.due:
            return
        if (instances.free and instances.waiting) or (instances.open and instances.lost):
            instances.due.add(owner)
            self._due.put(owner, (owner, instances), last=True)

    def _give_next(self, instances: _Instances) -> None:
        """Give the oldest delegation that waits for an instance, and may go to others, to one that is free.

        If none is, the oldest that waits for one that is down is given to one that is up and has room for it.
        """
        free = _first(instances.free, _is_free)
        waiting = _first(instances.waiting, _has_movable) if free else _first(instances.lost, _is_lost)
        takers = free or _first(instances.open, _is_open)
        if not waiting or not takers:
            return
        before = min(waiting, key=lambda agent: _age(agent.mailbox.next_movable))
        entry = before.mailbox.next_movable
        assert entry is not None
        choices = (self._recipients.of(agent, entry) for agent in takers if free or agent.mailbox.has_room(entry))
        choice = next(filter(None, choices), None)
        before.session.input.spend(REBALANCED + (self._state.registry.looked() >> HOLDERS_SHIFT))
        if choice is not None:
            self._reassignment.rebalance(entry, choice)
            for takes in (instances.free, instances.open):
                _to_end(takes, choice.agent)
        elif free:
            before.mailbox.withhold(entry)
        else:  # one that has no room, or all places of which its ancestors hold, is no reason why none may have it later
            instances.lost.pop(before, None)
        _to_end(instances.waiting, before)


def _is_free(agent: Registration) -> bool:
    """Whether an instance begins at once what it is given."""
    mailbox = agent.mailbox
    return mailbox.is_open and not mailbox.waiting_count and mailbox.in_flight < mailbox.limits.window


def _has_movable(agent: Registration) -> bool:
    """Whether something waits for an instance that others may have."""
    return agent.mailbox.next_movable is not None


def _is_open(agent: Registration) -> bool:
    """Whether an instance begins what it is given."""
    return agent.mailbox.is_open


def _is_lost(agent: Registration) -> bool:
    """Whether an instance is down for which something waits that others may have."""
    return agent.condition is Condition.DOWN and _has_movable(agent)


def _first(agents: dict[Registration, None], belongs: Callable[[Registration], bool]) -> list[Registration]:
    """The first few, but for those that do not belong to them any more, which are taken out."""
    found = []
    for agent in list(islice(agents, _COMPARED)):
        if belongs(agent):
            found.append(agent)
        else:
            del agents[agent]
    return found


def _to_end(agents: dict[Registration, None], agent: Registration) -> None:
    """Let it be another's turn."""
    if agent in agents:
        del agents[agent]
        agents[agent] = None


_is_movable = attrgetter("is_movable")
_age = attrgetter("priority", "number")
