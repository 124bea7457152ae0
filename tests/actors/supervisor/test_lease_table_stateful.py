"""Leases at random among delegations that come, delegate, end and are redelivered, against a model kept as plain lists.

Holds after each step: one holder a resource, tokens that only rise, first come first served, nobody who waits is lost,
no circle of waiting, and nothing left of a delegation that has ended and from which all has been taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ether_actors.supervisor.state.lease_table import Claim, Effect, Granted, LeaseTable, Released, Withdrawn
from ether_broker.envelope.payload import pack
from ether_broker.errors import LeaseDeadlock, LeaseHeld, TooManyLeases
from ether_broker.transport.sessions.account import Account
from ether_broker.transport.sessions.memory_quota import MemoryQuota

RESOURCES = ["r", "sé", "t\N{WINKING FACE}"]
AGENTS = ["ann", "bob"]
MOST = 9


@dataclass(eq=False)
class Job:
    """A delegation."""

    id: bytes
    parent: Job | None
    agent: str
    children: list[Job] = field(default_factory=list)


@dataclass(eq=False)
class Wish:
    """A claim that waits."""

    ask: bytes
    job: Job
    resource: str
    deadline: float


class Leasing(RuleBasedStateMachine):
    @initialize(token=st.integers(0, 5))
    def nothing_is_held(self, token: int) -> None:
        self.now = 0.0
        self.numbers = 0
        self.jobs: dict[bytes, Job] = {}
        self.ending: list[Job] = []
        """Those that have ended, and from which not all has been taken."""
        self.owner: dict[str, Job] = {}
        self.tokens: dict[str, int] = {}
        self.lines: dict[str, list[Wish]] = {name: [] for name in RESOURCES}
        self.memory = MemoryQuota()
        self.leases = LeaseTable(self.parent_of, most=MOST, memory=self.memory)
        self.leases.begin_above(token)
        self.highest = token
        self.accounts = {agent: Account() for agent in AGENTS}

    def parent_of(self, holder: bytes) -> bytes | None:
        job = self.jobs.get(holder)
        return job.parent.id if job is not None and job.parent is not None and job.parent.id in self.jobs else None

    def new_id(self) -> bytes:
        self.numbers += 1
        return self.numbers.to_bytes(16)

    # -- the model -----------------------------------------------------------------------------------------------

    def waits_of(self, job: Job) -> list[Wish]:
        return [wish for line in self.lines.values() for wish in line if wish.job is job]

    def needs(self, job: Job, now: float = -inf) -> list[Job]:
        """Whom a delegation waits for: its sub-delegations, holders, and all that are ahead in its lines.

        With `now`, a claim that is late by then counts as none: it is granted nothing, and is withdrawn soon.
        """
        found = list(job.children)
        for wish in self.waits_of(job):
            if wish.deadline <= now:
                continue
            line = self.lines[wish.resource]
            found += [*self.holder(wish.resource), *(other.job for other in line[: line.index(wish)])]
        return found

    def holder(self, resource: str) -> list[Job]:
        return [self.owner[resource]] if resource in self.owner else []

    def reaches(self, start: list[Job], goal: Job, without: Iterable[Job] = (), now: float = -inf) -> bool:
        seen = set(without)
        while start:
            job = start.pop()
            if job is goal:
                return True
            if job not in seen:
                seen.add(job)
                start = [*start, *self.needs(job, now)]
        return False

    def count(self, agent: str) -> int:
        held = sum(job.agent == agent for job in self.owner.values())
        return held + sum(wish.job.agent == agent for line in self.lines.values() for wish in line)

    def enter(self, effects: list[Effect], expected: list[tuple[str, object]]) -> None:
        """Check what came of a step against what the model says, in order."""
        seen: list[tuple[str, object]] = []
        for effect in effects:
            match effect:
                case Granted(claim, held):
                    assert held.token == self.highest + 1, "a token is one above every other"
                    pack(held.resource)  # as it is told, which leaves its other form in the text
                    assert (held.resource, held.holder) == (claim.resource, claim.holder)
                    assert claim.deadline > self.now, "granted after its deadline"
                    self.highest = held.token
                    self.tokens[held.resource] = held.token
                    seen.append(("granted", claim.ask))
                case Released(held, _):
                    seen.append(("released", held.resource))
                case Withdrawn(claim, reason):
                    seen.append((reason, claim.ask))
        assert seen == expected

    def pass_on(self, resource: str) -> list[tuple[str, object]]:
        """What the model says when a lease is free again."""
        del self.owner[resource]
        expected: list[tuple[str, object]] = [("released", resource)]
        for wish in self.lines[resource]:
            if wish.deadline > self.now and wish.job not in self.ending:
                self.lines[resource].remove(wish)
                self.owner[resource] = wish.job
                return [*expected, ("granted", wish.ask)]
        return expected

    def job(self, data: st.DataObject) -> Job:
        return data.draw(st.sampled_from(list(self.jobs.values())))

    # -- what happens --------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.jobs) < 8)
    @rule(data=st.data(), agent=st.sampled_from(AGENTS), is_child=st.booleans())
    def a_delegation_comes(self, data: st.DataObject, agent: str, is_child: bool) -> None:
        parent = self.job(data) if is_child and self.jobs else None
        job = Job(self.new_id(), parent, agent)
        self.jobs[job.id] = job
        if parent is not None:
            parent.children.append(job)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), wait=st.booleans(), patience=st.sampled_from([0.05, 1.0]))
    def a_lease_is_claimed(self, data: st.DataObject, wait: bool, patience: float) -> None:
        self.claim(self.job(data), data.draw(st.sampled_from(RESOURCES)), wait, patience)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), count=st.integers(2, 6))
    def several_leases_are_waited_for(self, data: st.DataObject, count: int) -> None:
        for _ in range(count):
            self.claim(self.job(data), data.draw(st.sampled_from(RESOURCES)), True, 50.0)

    def claim(self, job: Job, resource: str, wait: bool, patience: float) -> None:
        wish = Wish(self.new_id(), job, resource, self.now + patience)
        claim = Claim(wish.ask, resource, job.agent, job.id, wish.deadline, self.accounts[job.agent])
        line = self.lines[resource]

        def claimed() -> list[Effect]:
            return self.leases.claim(claim, self.now, may_wait=wait)

        if self.count(job.agent) >= MOST:
            with pytest.raises(TooManyLeases):
                claimed()
        elif resource not in self.owner:
            self.enter(claimed(), [("granted", wish.ask)])
            self.owner[resource] = job
        elif not wait:
            with pytest.raises(LeaseHeld):
                claimed()
        elif self.reaches([self.owner[resource], *(other.job for other in line)], job):
            with pytest.raises(LeaseDeadlock):
                claimed()
        else:
            self.enter(claimed(), [])
            line.append(wish)

    @precondition(lambda self: set(self.owner.values()) - set(self.ending))
    @rule(data=st.data(), is_own=st.sampled_from([True, True, True, False]))
    def a_lease_is_released(self, data: st.DataObject, is_own: bool) -> None:
        resource = data.draw(st.sampled_from(sorted(r for r, job in self.owner.items() if job not in self.ending)))
        holder = self.owner[resource] if is_own else self.job(data)
        effects = self.leases.release(holder.id, self.tokens[resource], self.now)
        self.enter(effects, self.pass_on(resource) if holder is self.owner[resource] else [])

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), is_over=st.booleans(), most=st.sampled_from([0, 1, 2, 99]))
    def a_delegation_ends_or_is_redelivered(self, data: st.DataObject, is_over: bool, most: int) -> None:
        gone = [self.job(data)]
        if is_over:  # and its sub-delegations with it
            for job in gone:
                gone += job.children
                self.jobs.pop(job.id)
                if job.parent is not None and job in job.parent.children and job is gone[0]:
                    job.parent.children.remove(job)
        for job in gone:
            self.take(job, most if is_over else 99)
        for job in gone if is_over else ():
            job.children.clear()

    @precondition(lambda self: self.ending)
    @rule(data=st.data(), most=st.integers(1, 3))
    def more_is_taken_from_what_has_ended(self, data: st.DataObject, most: int) -> None:
        self.take(data.draw(st.sampled_from(self.ending)), most)

    def take(self, job: Job, most: int) -> None:
        stake = self.leases.stakes.get(job.id)
        asks = list(stake.waiting) if stake is not None else []
        held = list(stake.held) if stake is not None else []
        assert set(asks) == {wish.ask for wish in self.waits_of(job)}
        assert set(held) == {name for name, owner in self.owner.items() if owner is job}
        if job not in self.ending:
            self.ending.append(job)
        expected: list[tuple[str, object]] = [("ended", ask) for ask in asks[:most]]
        for wish in self.waits_of(job):
            if wish.ask in asks[:most]:
                self.lines[wish.resource].remove(wish)
        for resource in held[: max(0, most - len(asks))]:
            expected += self.pass_on(resource)
        self.enter(self.leases.left(job.id, "ended", self.now, most), expected)
        if len(asks) + len(held) <= most:
            self.ending.remove(job)

    @precondition(lambda self: any(self.lines.values()))
    @rule(data=st.data())
    def a_claim_is_called_off(self, data: st.DataObject) -> None:
        wish = data.draw(st.sampled_from([wish for line in self.lines.values() for wish in line]))
        self.withdraw(wish)

    def withdraw(self, wish: Wish) -> None:
        self.lines[wish.resource].remove(wish)
        self.enter(self.leases.left(wish.ask, "ended", self.now), [])
        if wish.job in self.ending and wish.job.id not in self.leases.stakes:
            assert wish.job not in self.owner.values()
            assert not self.waits_of(wish.job)
            self.ending.remove(wish.job)

    @rule(seconds=st.sampled_from([0.01, 0.06, 0.3]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        late = [wish for line in self.lines.values() for wish in line if wish.deadline + 0.1 < self.now]
        for wish in late:  # as the ledger's deadlines do
            self.withdraw(wish)

    # -- what holds ----------------------------------------------------------------------------------------------

    @invariant()
    def the_machine_agrees_with_the_model(self) -> None:
        assert {held.resource: held.holder for held in self.leases.after(0)} == {
            name: job.id for name, job in self.owner.items()
        }
        for resource, line in self.lines.items():
            assert [claim.ask for claim in self.leases.line(resource)] == [wish.ask for wish in line]
        waiting = {wish.ask for line in self.lines.values() for wish in line}
        assert self.leases.bound == waiting | set(self.leases.stakes)
        assert set(self.leases.ending) == {job.id for job in self.ending}
        assert set(self.leases.stakes) <= {*self.jobs, *self.leases.ending}, "something is left of what has ended"
        assert self.leases.token == self.highest

    @invariant()
    def the_memory_is_that_of_the_leases_that_are_held(self) -> None:
        held = list(self.leases.after(0))
        assert self.memory.size == sum(lease.size for lease in held)
        for agent, account in self.accounts.items():
            assert account.kept == sum(lease.size for lease in held if lease.agent == agent)

    @invariant()
    def nobody_waits_in_a_circle_or_for_nothing(self) -> None:
        for line in self.lines.values():
            for wish in line:
                may_wait = wish.deadline > self.now and wish.job not in self.ending
                assert wish.resource in self.owner or not may_wait
                if wish.job not in self.ending:  # what has left waits for nothing: its claims are taken from it
                    assert not self.reaches(self.needs(wish.job, self.now), wish.job, self.ending, self.now)

    @rule()
    def a_restart_restores_the_same_holders(self) -> None:
        again = LeaseTable(self.parent_of)
        for held in self.leases.after(0):
            again.restore(held.resource, held.agent, held.holder, held.token)
        assert {held.resource: held.token for held in again.after(0)} == {
            held.resource: held.token for held in self.leases.after(0)
        }
        assert again.token <= self.highest

    def teardown(self) -> None:
        if not hasattr(self, "jobs"):
            return
        for holder in [*self.jobs, *(job.id for job in self.ending)]:
            self.leases.left(holder, "ended", self.now)
        assert not list(self.leases.after(0))
        assert not self.leases.stakes
        assert not self.leases.bound


TestLeasing = Leasing.TestCase
TestLeasing.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
