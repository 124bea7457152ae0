from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ether_actors.observers.metrics.sliding_window import Count, SlidingWindow


def test_slots_without_a_record_take_no_room() -> None:
    sliding = SlidingWindow(Count, 5.0, 60)
    for time in range(0, 1_000_000, 1_000):
        sliding.at(time).value += 1

    assert len(sliding._ring) == 1
    assert sliding.total(1e6, None).value == 1_000


def test_at_most_the_longest_windows_slots_are_kept() -> None:
    sliding = SlidingWindow(Count, 5.0, 60)
    for time in range(10_000):
        sliding.at(time).value += 1

    assert len(sliding._ring) == 60
    assert sliding.total(9_999.0, 300.0).value == 300


def test_a_time_before_the_newest_slot_counts_as_in_it() -> None:
    sliding = SlidingWindow(Count, 5.0, 2)
    sliding.at(100.0).value += 1
    sliding.at(50.0).value += 1

    assert sliding.total(100.0, 5.0).value == 2


def test_what_is_archived_is_in_no_window_and_in_the_total() -> None:
    sliding = SlidingWindow(Count, 5.0, 2)
    sliding.at(100.0).value += 1
    sliding.archive()

    assert (sliding.total(100.0, 10.0).value, sliding.total(100.0, None).value) == (0, 1)


@given(st.lists(st.floats(0, 30), max_size=100), st.floats(0, 30))
def test_a_window_holds_what_the_slots_say(waits: list[float], idle: float) -> None:
    sliding = SlidingWindow(Count, 2.0, 6)
    times, now = [], 1_000.0
    for wait in waits:
        now += wait
        sliding.at(now).value += 1
        times.append(now)
    now += idle

    assert sliding.total(now, 12.0).value == sum(time // 2 > now // 2 - 6 for time in times)
    assert sliding.total(now, 4.0).value == sum(time // 2 > now // 2 - 2 for time in times)
    assert sliding.total(now, None).value == len(times)
