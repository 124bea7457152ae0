"""The schedule of the supervisor's own work: one place that a step asks for all that is due. Sans-IO.

A part of the supervisor wakes its job; a step compares one time, `JobSchedule.next`, and runs what is due in a fixed order.
Each job does a share of its work, and wakes itself for the next, or pauses until the journal has committed what it added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ether_broker.journal.journal import Journal

__all__ = ["OWN", "Job", "JobSchedule", "StepShare"]

OWN: Final = 64
"""Envelopes that a job adds before those are in the journal: others' outcomes wait behind them."""


class Job:
    """A part of the supervisor's work that is due at a time, such as deadlines, departures and heartbeats.

    Args:
        schedule: that runs it.
        run: does a share of it, and returns when it is to be called again, as `at`; infinite unless somebody wakes it.
        most: envelopes that it may have added and the journal not have committed; above that it is paused.
    """

    __slots__ = ("_most", "_schedule", "at", "run", "unwritten")

    def __init__(self, schedule: JobSchedule, run: Callable[[], float], *, most: float = inf) -> None:
        self._schedule = schedule
        self.run: Callable[[], float] = run
        self._most = most
        self.at: float = inf
        """When it runs next, in seconds by the broker's clock."""
        self.unwritten: int = 0
        """Envelopes that it added and that the journal has not committed yet."""

    def wake(self, at: float = 0.0) -> None:
        """Have it run at that time, or in this step if it has passed; an earlier time stays."""
        if at < self.at:
            self.at = at
            self._schedule.next = min(self._schedule.next, at)

    def pause(self) -> None:
        """Have it run with the next commit of the journal, and with the next step that there is."""
        self._schedule.paused[self] = None

    def defer(self) -> None:
        """Have it run with the next step that there is; it causes none."""
        self._schedule.deferred[self] = None

    @property
    def is_ahead(self) -> bool:
        """Whether the journal has to commit before it adds more; a journal in trouble is not waited for."""
        return self.unwritten > self._most and self._schedule.journal.trouble is None


class StepShare:
    """A bound on the work that one step does for a part of the supervisor.

    Beside what peers cause, at least half of it is left to the part's own job.

    Args:
        schedule: whose steps they are.
        most: points of a step.
    """

    __slots__ = ("_schedule", "left", "most")

    def __init__(self, schedule: JobSchedule, most: int) -> None:
        self._schedule = schedule
        self.most: int = most
        self.left: int = most

    def spend(self, points: int = 1) -> None:
        """Take from what is left; the step's end gives it back."""
        self.left -= points
        self._schedule.spent[self] = None
        self._schedule.next = 0.0

    def keep_half(self) -> None:
        """Let the job begin with half at least."""
        self.left = max(self.left, self.most // 2)


class JobSchedule:
    """The jobs of one supervisor.

    Args:
        journal: whose commits wake what is paused.
    """

    def __init__(self, journal: Journal) -> None:
        self.journal: Journal = journal
        self.jobs: Sequence[Job] = ()
        """In the order in which a step runs them."""
        self.next: float = 0.0
        """When to run, in seconds by the broker's clock."""
        self.paused: dict[Job, None] = {}
        """Those that wait for the journal."""
        self.deferred: dict[Job, None] = {}
        """Those that wait for a step."""
        self.added: list[tuple[Job, int]] = []
        """Which have added envelopes that the journal was not given yet, and how many."""
        self.spent: dict[StepShare, None] = {}
        """Those that are not whole."""

    def run(self, now: float, passing: list[bytes]) -> None:
        """Run what is due, and begin the next step's shares.

        Args:
            now: seconds by the broker's clock.
            passing: to which jobs add envelopes.
        """
        for job in self.jobs:
            if job.at > now:
                continue
            if not job.is_ahead:
                before = len(passing)
                job.at = job.run()
                if len(passing) > before:
                    job.unwritten += len(passing) - before
                    self.added.append((job, len(passing) - before))
            if job.at <= now and job.is_ahead:
                job.at = inf
                job.pause()
        for share in self.spent:
            share.left = share.most
        self.spent.clear()
        self.next = min(job.at for job in self.jobs)

    def begin(self) -> None:
        """Begin a step: have run in it what waits for one."""
        deferred, self.deferred = self.deferred, {}
        for job in deferred:
            job.wake()
        self.committed()

    def committed(self) -> None:
        """Have run what waits for the journal: in this step, or in the next if it has been passed over."""
        paused, self.paused = self.paused, {}
        for job in paused:
            job.wake()
