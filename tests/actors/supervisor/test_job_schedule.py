"""When the supervisor's jobs run: at their time, in their order, and never further ahead of the journal than they may."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ether_actors.supervisor.state.job_schedule import OWN, Job, JobSchedule, StepShare
from ether_broker.errors import JournalUnavailable
from ether_broker.journal.memory.journal import MemoryJournal


def schedule_of(*runs: Any, most: float = inf) -> tuple[JobSchedule, list[Job]]:
    schedule = JobSchedule(MemoryJournal())
    jobs = [Job(schedule, run, most=most) for run in runs]
    schedule.jobs = jobs
    schedule.run(0.0, [])
    return schedule, jobs


def test_what_is_due_runs_in_its_order_whoever_was_woken_first() -> None:
    ran: list[str] = []
    schedule, (first, second) = schedule_of(lambda: ran.append("first") or inf, lambda: ran.append("second") or inf)
    second.wake(1.0)
    first.wake(2.0)

    schedule.run(1.5, [])
    assert ran == ["second"]
    assert schedule.next == 2.0

    second.wake()
    schedule.run(2.0, [])
    assert ran == ["second", "first", "second"]
    assert schedule.next == inf


def test_a_later_time_does_not_put_off_an_earlier_one_and_the_job_itself_may() -> None:
    schedule, (job,) = schedule_of(lambda: 7.0)
    job.wake(1.0)
    job.wake(5.0)
    assert schedule.next == 1.0

    schedule.run(1.0, [])
    assert schedule.next == 7.0


@pytest.mark.parametrize("trouble", [None, JournalUnavailable("The disk is full.")])
def test_a_job_that_is_ahead_of_the_journal_waits_for_a_commit_unless_none_can_come(
    trouble: JournalUnavailable | None,
) -> None:
    passing: list[bytes] = []
    schedule, (job,) = schedule_of(lambda: passing.extend([b""] * (OWN + 1)) or 0.0, most=OWN)
    schedule.journal.trouble = trouble
    job.wake()

    schedule.run(1.0, passing)
    assert schedule.added == [(job, OWN + 1)]
    assert (schedule.next == inf) == (trouble is None)
    schedule.run(1.0, passing)
    assert len(schedule.added) == (1 if trouble is None else 2)

    job.unwritten = 0
    schedule.committed()
    assert schedule.next == 0.0


def test_what_is_deferred_runs_with_the_next_step_and_causes_none() -> None:
    ran: list[float] = []
    schedule, (job,) = schedule_of(lambda: ran.append(1.0) or inf)
    job.defer()
    schedule.committed()
    assert schedule.next == inf

    schedule.begin()
    schedule.run(1.0, [])
    assert ran == [1.0]


def test_what_a_step_spends_its_end_gives_back_and_a_job_has_half_of_it_at_least() -> None:
    schedule, _ = schedule_of(lambda: inf)
    share = StepShare(schedule, 8)
    share.spend(7)
    share.keep_half()
    assert share.left == 4

    share.spend(5)
    assert schedule.next == 0.0
    schedule.run(1.0, [])
    assert share.left == 8


def test_what_a_job_added_is_counted_though_a_later_one_fails() -> None:
    passing: list[bytes] = []
    fails = [False]

    def fail() -> float:
        if fails[0]:
            raise ZeroDivisionError
        return inf

    schedule, (job, later) = schedule_of(lambda: passing.append(b"") or inf, fail)
    schedule.added.clear()
    fails[0] = True
    job.wake()
    later.wake()
    with pytest.raises(ZeroDivisionError):
        schedule.run(1.0, passing)
    assert schedule.added == [(job, 1)]
    assert schedule.next <= 1.0


class Jobs(RuleBasedStateMachine):
    """Three jobs that wake each other, pause and go ahead of the journal, beside what their times say."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.passing: list[bytes] = []
        self.ran: list[int] = []
        self.adds, self.again = [0, 0, 0], [inf, inf, inf]
        self.schedule, self.jobs = schedule_of(*(self._runner(index) for index in range(3)), most=4)
        self.waiting: dict[int, float] = {}

    def _runner(self, index: int) -> Any:
        def run() -> float:
            self.ran.append(index)
            self.passing.extend([b""] * self.adds[index])
            return self.now + self.again[index]

        return run

    @rule(index=st.integers(0, 2), seconds=st.sampled_from((0.0, 0.5, 2.0)))
    def wake(self, index: int, seconds: float) -> None:
        self.jobs[index].wake(self.now + seconds)
        self.waiting[index] = min(self.waiting.get(index, inf), self.now + seconds)

    @rule(index=st.integers(0, 2), adds=st.integers(0, 6), again=st.sampled_from((0.0, 1.0, inf)))
    def plan(self, index: int, adds: int, again: float) -> None:
        self.adds[index], self.again[index] = adds, again

    @rule(seconds=st.sampled_from((0.0, 0.5, 1.0)))
    def step(self, seconds: float) -> None:
        self.now += seconds
        ahead = {index for index, job in enumerate(self.jobs) if job.unwritten > 4}
        due = [index for index in range(3) if self.waiting.get(index, inf) <= self.now and index not in ahead]
        self.schedule.begin()
        self.ran.clear()
        self.schedule.run(self.now, self.passing)

        assert self.ran == due
        for index in due:
            self.waiting[index] = self.now + self.again[index]

    @precondition(lambda self: any(job.unwritten for job in self.jobs))
    @rule()
    def commit(self) -> None:
        for job in self.jobs:
            job.unwritten = 0
        self.schedule.committed()

    @invariant()
    def it_wakes_in_time_for_whoever_may_run(self) -> None:
        free = [at for index, at in self.waiting.items() if self.jobs[index].unwritten <= 4]
        assert self.schedule.next <= min(free, default=inf)


TestJobs = Jobs.TestCase
TestJobs.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
