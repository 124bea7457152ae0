"""Calls that run, wait and end at the test's word, on real threads: none waits for a thread while fewer than `size` run."""

from __future__ import annotations

import threading
from queue import SimpleQueue

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ether_actors.threads.pool import Pool, Room
from tests.support import wait_until

PATIENCE = 5.0
MANY, MOST = 3, 6


class Call:
    """What runs in a thread of the pool until the test says `wait`, `go_on` or `end`, and tells that it does."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._words: SimpleQueue[str] = SimpleQueue()
        self._told = threading.Semaphore(0)
        self.started = threading.Event()

    def run(self) -> None:
        self.started.set()
        while self._words.get() == "wait":
            with self._pool.blocking():
                self._told.release()
                self._words.get()
            self._told.release()
        self._told.release()

    def say(self, word: str) -> None:
        self._words.put(word)
        assert self._told.acquire(timeout=PATIENCE)


class PoolMachine(RuleBasedStateMachine):
    @initialize(size=st.integers(1, 3))
    def open(self, size: int) -> None:
        self.pool = Pool(size, "test-pool")
        self.pool._many = self.pool._bound = MANY
        self.pool._most = MOST
        self.submitted: list[Call] = []
        self.runs: list[Call] = []
        self.waits: list[Call] = []
        self.held: list[threading.Event] = []

    @rule()
    def submit(self) -> None:
        call = Call(self.pool)
        self.submitted.append(call)
        self.pool.submit(call.run)

    @rule(count=st.integers(0, 3))
    def submit_first(self, count: int) -> None:
        calls = [Call(self.pool) for _ in range(count)]

        def submit() -> None:
            for call in calls:
                self.pool.submit(call.run)

        self.submitted += calls
        if not self.pool.submit_first(submit):
            submit()

    @rule(data=st.data())
    def wait(self, data: st.DataObject) -> None:
        if self.runs:
            call = data.draw(st.sampled_from(self.runs))
            self.runs.remove(call)
            self.waits.append(call)
            call.say("wait")

    @rule(data=st.data())
    def go_on(self, data: st.DataObject) -> None:
        if self.waits:
            call = data.draw(st.sampled_from(self.waits))
            self.waits.remove(call)
            self.runs.append(call)
            call.say("go on")

    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        if self.runs:
            call = data.draw(st.sampled_from(self.runs))
            self.runs.remove(call)
            call.say("end")

    @rule()
    def hold(self) -> None:
        if self.pool.room is Room.SUB_DELEGATIONS:  # as a turn does, which then ends
            woken = threading.Event()
            self.held.append(woken)
            self.pool.call_when_room(lambda: self.pool.submit(woken.set))

    @rule()
    def relieve(self) -> None:
        # What was just let in is not stuck because the machine has not run its thread yet.
        wait_until(lambda: not self.pool.backlog() or len(self.runs) >= self.pool.size)
        self.pool.relieve()

    @invariant()
    def what_was_submitted_runs_while_fewer_than_size_do(self) -> None:
        def is_settled() -> bool:
            self.runs.extend(call for call in self.submitted if call.started.is_set())
            self.submitted = [call for call in self.submitted if call not in self.runs]
            return not self.submitted or len(self.runs) >= self.pool.size

        if hasattr(self, "pool"):
            wait_until(is_settled)

    @invariant()
    def no_more_than_size_threads_are_idle(self) -> None:
        if hasattr(self, "pool"):
            begun = sum(call.started.is_set() for call in self.submitted)
            most = len(self.waits) + len(self.runs) + begun + self.pool.size
            wait_until(lambda: self.pool.threads <= most)

    @invariant()
    def room_is_what_the_waiting_leave(self) -> None:
        if not hasattr(self, "pool"):
            return
        waiting = len(self.waits)
        if waiting < MANY:
            assert self.pool.room is Room.ALL
        elif waiting >= MOST:
            assert self.pool.room is Room.NONE
        assert MANY <= self.pool._bound <= MOST

    def teardown(self) -> None:
        if not hasattr(self, "pool"):
            return
        for call in self.waits:
            call.say("go on")
        for call in [*self.runs, *self.waits, *self.submitted]:
            call.say("end")
        wait_until(lambda: all(woken.is_set() for woken in self.held), what="what was held is let in at last")
        assert self.pool.close() == 0
        assert self.pool.threads == 0


PoolMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestPool = PoolMachine.TestCase
