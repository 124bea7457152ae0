from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from ether_actors.execution.due_calls import DueCalls
from ether_actors.threads.pending_call import PendingCall


def nothing() -> None:
    """What is to be done."""


def test_without_calls_nothing_is_ever_due():
    calls = DueCalls()

    assert calls.next_due() == math.inf
    assert calls.take_due(1e9) == []


def test_what_is_due_is_taken_once():
    calls = DueCalls()
    calls.add(5.0, nothing)

    assert calls.take_due(4.9) == []
    assert calls.take_due(5.0) == [nothing]
    assert calls.take_due(5.0) == []


def test_void_calls_do_not_pile_up():
    calls, kept = DueCalls(), [PendingCall(nothing) for _ in range(100)]
    for call in kept:
        calls.add(2.0, call)
    for _ in range(20_000):
        call = PendingCall(nothing)
        calls.add(1.0, call)
        call.cancel()

    assert len(calls._waiting) <= 2 * 100 + 256 + 1
    assert [call for call in calls.take_due(2.0) if not call.is_void] == kept


@given(st.lists(st.integers(0, 9)), st.integers(0, 9))
def test_calls_come_by_time_and_then_as_they_were_added(times, now):
    calls, said = DueCalls(), []
    for number, at in enumerate(times):
        calls.add(at, lambda entry=(at, number): said.append(entry))

    for call in calls.take_due(now):
        call()

    expected = sorted((at, number) for number, at in enumerate(times))
    assert said == [entry for entry in expected if entry[0] <= now]
    assert calls.next_due() == min((at for at in times if at > now), default=math.inf)
