"""The ring and its cursors: numbers without a gap, unless the ring was overrun, and then a gap that shows."""

from __future__ import annotations

import contextlib
import gc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ether_broker.errors import MalformedFrame
from ether_broker.observer_cursor import OBSERVER_WINDOW_BATCHES, ObserverCursor
from ether_broker.tap import Batch, ReadBatch, Tap, read_batch
from ether_broker.wire.frame import BATCH


def capability_of(envelope: bytes) -> bytes:
    return envelope.partition(b"|")[0]


def read(tap: Tap, cursor: ObserverCursor) -> ReadBatch | None:
    body = tap.read(cursor, capability_of)
    return None if body is None else read_batch(body)


def read_all(tap: Tap, cursor: ObserverCursor) -> list[tuple[int, float, bytes]]:
    found = []
    while (batch := read(tap, cursor)) is not None:
        found += batch.envelopes
        cursor.acknowledge(batch.next)
    return found


def test_an_observer_goes_on_with_the_oldest_that_is_left() -> None:
    tap, cursor = Tap(count=2), ObserverCursor(position=1)
    for number in range(1, 9):
        tap.append([b"%d" % number], 0.0)
    older = Batch(4, 0.0, [b"4"], 1)  # 1 to 3 were given up

    body = tap.read(cursor, lambda _envelope: b"", older)

    assert body is not None
    batch = read_batch(body)
    assert (batch.first, batch.next, batch.envelopes) == (4, 5, [(4, 0.0, b"4")])


def test_numbers_begin_at_1_and_go_on_from_batch_to_batch():
    tap = Tap()
    tap.append([b"a", b"b"], 1.0)
    cursor = ObserverCursor()

    assert read(tap, cursor) == (1, 3, [(1, 1.0, b"a"), (2, 1.0, b"b")])
    tap.append([b"c"], 2.0)
    assert read(tap, cursor) == (3, 4, [(3, 2.0, b"c")])
    assert read(tap, cursor) is None
    assert (tap.first, tap.next) == (1, 4)


def test_steps_in_which_little_passed_make_one_batch_that_keeps_their_times() -> None:
    tap, cursor = Tap(), ObserverCursor()
    for number in range(1, 101):
        tap.append([b"%d" % number], number / 8)

    batches = [read(tap, cursor), read(tap, cursor), read(tap, cursor)]

    assert [batch and (batch.first, batch.next) for batch in batches] == [(1, 65), (65, 101), None]
    assert batches[0] is not None
    assert batches[0].envelopes == [(number, number / 8, b"%d" % number) for number in range(1, 65)]
    assert [following for following, _ in cursor.unacknowledged] == [65, 101]


def test_steps_in_which_much_passed_stay_apart() -> None:
    tap, cursor = Tap(), ObserverCursor()
    for size in (40_000, 26_000, 600, 70_000, 1):
        tap.append([bytes(size)], 0.0)

    found = [read(tap, cursor) for _ in range(4)]

    assert [batch and batch.next for batch in found] == [2, 4, 5, 6]
    assert cursor.under_way == 136_601


def test_an_empty_tap_gives_nothing():
    tap = Tap()

    assert read(tap, ObserverCursor()) is None
    assert (tap.first, tap.next) == (1, 1)


def test_a_cursor_begins_in_the_middle_of_a_batch():
    tap = Tap()
    tap.append([b"a", b"b", b"c"], 1.0)

    assert read(tap, ObserverCursor(position=2)) == (2, 4, [(2, 1.0, b"b"), (3, 1.0, b"c")])


def test_a_cursor_finds_its_batch_among_many():
    tap = Tap()
    for number in range(100):
        tap.append([b"%d" % (number + 1)] * (number % 3 + 1), 0.0)

    for position in (1, 2, 50, 117, 198, 199):
        assert read(tap, ObserverCursor(position=position)).envelopes[0][0] == position


def test_an_observer_gets_no_more_before_it_acknowledges_what_is_under_way():
    tap = Tap()
    for _ in range(OBSERVER_WINDOW_BATCHES + 2):
        tap.append([b"x"] * BATCH, 0.0)
    cursor = ObserverCursor()

    batches = [read(tap, cursor) for _ in range(OBSERVER_WINDOW_BATCHES + 1)]
    assert batches[-1] is None

    cursor.acknowledge(batches[1].next)
    following = OBSERVER_WINDOW_BATCHES * BATCH + 1
    assert [read(tap, cursor).first for _ in range(2)] == [following, following + BATCH]


def test_capabilities_are_prefixes_and_what_they_leave_out_is_covered_all_the_same():
    tap = Tap()
    tap.append([b"a.x|1", b"b.x|2", b"a.y|3"], 0.0)
    tap.append([b"b.x|4"], 0.0)
    cursor = ObserverCursor(capabilities=(b"a",))

    assert read(tap, cursor) == (1, 5, [(1, 0.0, b"a.x|1"), (3, 0.0, b"a.y|3")])
    tap.append([b"b.x|5"], 0.0)
    assert read(tap, cursor) == (5, 6, [])


def test_a_cursor_behind_the_ring_is_moved_to_its_tail_and_the_numbers_show_the_gap():
    tap = Tap(count=2)
    cursor = ObserverCursor()
    tap.append([b"a"], 0.0)
    first = read(tap, cursor)
    for letter in (b"b", b"c", b"d"):
        tap.append([letter], 0.0)

    assert first.next == 2
    assert read(tap, cursor).first == tap.first == 3


def test_the_ring_is_bounded_in_bytes_and_keeps_the_newest_batch_whatever_its_size():
    tap = Tap(size=10)
    tap.append([b"12345", b"67890"], 0.0)
    assert tap.first == 1

    tap.append([b"x" * 99], 0.0)

    assert (tap.first, tap.next) == (3, 4)


def test_a_batch_that_does_not_hold_what_it_announces_is_malformed():
    tap = Tap()
    tap.append([b"abc"], 0.0)
    body = tap.read(ObserverCursor(), capability_of)

    for broken in (b"", body[:10], body[:-1], body + b"x"):
        with pytest.raises(MalformedFrame):
            read_batch(broken)


@given(st.binary(max_size=120))
def test_any_bytes_read_as_a_batch_or_are_malformed(body):
    with contextlib.suppress(MalformedFrame):
        read_batch(body)


class Ring(RuleBasedStateMachine):
    """Observers of different pace and taste against the list of everything that ever passed."""

    @initialize(count=st.integers(1, 12), size=st.integers(1, 40))
    def a_tap(self, count: int, size: int) -> None:
        self.tap = Tap(count=count, size=size)
        self.count, self.size = count, size
        self.passed: list[bytes] = []
        self.times: list[float] = []
        self.observers: list[tuple[ObserverCursor, dict[str, int]]] = []

    @rule(envelopes=st.lists(st.sampled_from([b"a|", b"a.b|x", b"b|xyz", b"|"]), min_size=1, max_size=5))
    def a_turn_passes(self, envelopes: list[bytes]) -> None:
        self.passed += envelopes
        self.times += [float(len(self.passed))] * len(envelopes)
        self.tap.append(envelopes, float(len(self.passed)))

    @precondition(lambda self: len(self.observers) < 3)
    @rule(prefixes=st.sampled_from([(), (b"a",), (b"b", b"a.")]), since=st.integers(0, 20))
    def an_observer_comes(self, prefixes: tuple[bytes, ...], since: int) -> None:
        position = min(since, self.tap.next) or self.tap.next
        self.observers.append((ObserverCursor(capabilities=prefixes, position=position), {"next": position}))

    @precondition(lambda self: self.observers)
    @rule(data=st.data())
    def an_observer_reads(self, data: st.DataObject) -> None:
        cursor, seen = data.draw(st.sampled_from(self.observers))
        under_way = len(cursor.unacknowledged)
        batch = read(self.tap, cursor)
        if batch is None:
            assert under_way == OBSERVER_WINDOW_BATCHES or seen["next"] == self.tap.next
            return
        # A gap only where the ring was overrun, and then exactly up to its tail.
        assert batch.first == max(seen["next"], self.tap.first)
        assert batch.next > batch.first
        wanted = [
            (number, self.times[number - 1], self.passed[number - 1])
            for number in range(batch.first, batch.next)
            if not cursor.capabilities or capability_of(self.passed[number - 1]).startswith(cursor.capabilities)
        ]
        assert batch.envelopes == wanted
        seen["next"] = batch.next

    @precondition(lambda self: self.observers)
    @rule(data=st.data())
    def an_observer_acknowledges(self, data: st.DataObject) -> None:
        cursor, seen = data.draw(st.sampled_from(self.observers))
        cursor.acknowledge(data.draw(st.integers(1, seen["next"])))

    @invariant()
    def the_ring_is_bounded_and_holds_the_newest(self) -> None:
        if not hasattr(self, "tap"):
            return
        tap = self.tap
        assert tap.next == len(self.passed) + 1
        kept = self.passed[tap.first - 1 :]
        newest = len(tap._batches[-1][2]) if tap._batches else 0
        assert len(kept) <= max(self.count, newest)
        assert sum(map(len, kept)) <= self.size or len(kept) == newest
        assert all(len(cursor.unacknowledged) <= OBSERVER_WINDOW_BATCHES for cursor, _ in self.observers)

    def teardown(self) -> None:
        for cursor, seen in getattr(self, "observers", []):
            cursor.acknowledge(seen["next"])
            read_all(self.tap, cursor)
            assert cursor.position == self.tap.next


TestRing = Ring.TestCase
TestRing.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_the_garbage_collector_lets_the_ring_be() -> None:
    tap = Tap()
    for number in range(1_000):
        tap.append([b"x|%d" % number, b"y|%d" % number], float(number))
    for _ in range(2):  # first the envelopes, and then what holds them
        gc.collect()

    assert not any(gc.is_tracked(batch) or gc.is_tracked(batch[2]) for batch in tap._batches)
