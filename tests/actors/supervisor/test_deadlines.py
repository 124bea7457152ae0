from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ether_actors.supervisor.state.timing_wheel import SLOT, TimingWheel

times = st.floats(0, 1e7) | st.integers(0, 10**8).map(lambda tenths: tenths / 10) | st.floats(1e9, 2e9)


@given(times)
def test_a_deadline_is_noticed_at_its_slots_end_which_is_never_before_it(at: float):
    deadlines: TimingWheel[str] = TimingWheel()
    deadlines.set(b"a", at, "a")

    wake = deadlines.next()

    assert wake is not None
    assert at <= wake <= at + SLOT * 1.001
    assert deadlines.due(at - 1e-6, 99) == []
    assert deadlines.due(wake, 99) == ["a"]
    assert deadlines.next() == math.inf


def test_what_was_cleared_is_not_due_and_wakes_nobody():
    deadlines: TimingWheel[str] = TimingWheel()
    slot = deadlines.set(b"a", 1.0, "a")
    deadlines.set(b"b", 9.0, "b")

    deadlines.clear(b"a", slot)

    assert deadlines.next() >= 9.0
    assert deadlines.due(5.0, 99) == []
    assert deadlines.due(10.0, 99) == ["b"]


def test_clearing_what_has_fired_or_was_never_set_is_no_error():
    deadlines: TimingWheel[str] = TimingWheel()
    slot = deadlines.set(b"a", 1.0, "a")
    deadlines.due(2.0, 99)

    deadlines.clear(b"a", slot)
    deadlines.clear(b"b", 12345)

    assert deadlines.due(99.0, 99) == []


def test_a_slot_that_was_emptied_takes_deadlines_again():
    deadlines: TimingWheel[str] = TimingWheel()
    deadlines.clear(b"a", deadlines.set(b"a", 1.0, "a"))

    deadlines.set(b"b", 1.0, "b")

    assert deadlines.due(2.0, 99) == ["b"]


def test_slots_that_were_emptied_are_few_however_many_there_were():
    deadlines: TimingWheel[str] = TimingWheel()
    last = deadlines.set(b"last", 1e6, "last")

    for number in range(20_000):
        deadlines.clear(b"a", deadlines.set(b"a", 1e6 - number, "a"))

    assert len(deadlines.slots) < 2_000
    assert len(deadlines._order) == len(deadlines.slots)
    assert deadlines.next() == last * SLOT
    assert deadlines.due(2e6, 99) == ["last"]


class Watch(RuleBasedStateMachine):
    """Against a plain dict of what is set."""

    def __init__(self) -> None:
        super().__init__()
        self.deadlines: TimingWheel[bytes] = TimingWheel()
        self.set: dict[bytes, tuple[float, int]] = {}
        self.now = 100.0
        self.made = 0

    @rule(after=st.floats(-1, 3))
    def one_is_set(self, after: float) -> None:
        self.made += 1
        key = b"%d" % self.made
        self.set[key] = (self.now + after, self.deadlines.set(key, self.now + after, key))

    @rule(data=st.data())
    def one_is_cleared(self, data: st.DataObject) -> None:
        if self.set:
            key = data.draw(st.sampled_from(sorted(self.set)))
            self.deadlines.clear(key, self.set.pop(key)[1])

    @rule(seconds=st.floats(0, 1))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        due = self.deadlines.due(self.now, 99)

        assert len(due) == len(set(due))
        assert all(self.set.pop(key)[0] <= self.now for key in due)
        assert all(at > self.now - SLOT * 1.001 for at, _ in self.set.values())

    @invariant()
    def the_next_wake_is_in_time_for_the_first(self) -> None:
        first = min((at for at, _ in self.set.values()), default=math.inf)
        wake = self.deadlines.next()

        assert first <= wake <= first + SLOT * 1.001


TestWatch = Watch.TestCase
TestWatch.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
