from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from ether_actors.execution.timers import Timers


def nothing() -> None:
    """What is to be done."""


def test_without_timers_nothing_is_ever_due():
    timers = Timers()

    assert timers.next_due() == math.inf
    assert timers.take_due(1e9) == []


def test_what_is_due_is_taken_once():
    timers = Timers()
    timers.add(5.0, nothing)

    assert timers.take_due(4.9) == []
    assert timers.take_due(5.0) == [nothing]
    assert timers.take_due(5.0) == []


@given(st.lists(st.integers(0, 9)), st.integers(0, 9))
def test_timers_come_by_time_and_then_as_they_were_added(times, now):
    timers, said = Timers(), []
    for number, at in enumerate(times):
        timers.add(at, lambda entry=(at, number): said.append(entry))

    for call in timers.take_due(now):
        call()

    expected = sorted((at, number) for number, at in enumerate(times))
    assert said == [entry for entry in expected if entry[0] <= now]
    assert timers.next_due() == min((at for at in times if at > now), default=math.inf)
