"""The places of transfers: who is let in, and who waits for how long."""

from __future__ import annotations

from queue import Empty, SimpleQueue
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether.node.artifacts.transfer_places import LOOK, MOST_OF_NODE, TransferPlaces


class Clock:
    """Resources of a node, whose clock moves while somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0
        self.happens: list[tuple[float, Any]] = []

    def monotonic(self) -> float:
        return self.now

    def take(self, queue: SimpleQueue[None], timeout: float | None) -> None:
        assert timeout is not None
        end = self.now + timeout
        while queue.empty() and self.happens and self.happens[0][0] <= end:
            self.now, act = self.happens.pop(0)
            act()
        try:
            queue.get_nowait()
        except Empty:
            self.now = end
            raise


@pytest.fixture
def clock() -> Clock:
    return Clock()


def places(clock: Clock, most: int = 4) -> TransferPlaces:
    resources: Any = clock
    return TransferPlaces(most, resources)


def test_a_node_has_some_of_the_places_and_others_the_rest(clock: Clock) -> None:
    made = places(clock)
    assert [made.take("a", 1.0) for _ in range(MOST_OF_NODE + 1)] == [True] * MOST_OF_NODE + [False]
    assert [made.take(name, 1.0) for name in ("b", "c", "d")] == [True, True, False]
    assert clock.now == 2.0
    made.give_back("a")
    assert made.take("d", 0.0), "what is free is taken without waiting"


def test_who_waits_is_let_in_by_who_ends_and_waits_as_long_as_something_moves(clock: Clock) -> None:
    made = places(clock, 1)
    assert made.take("a", 1.0)
    clock.happens = [(0.9, made.moved), (1.8, made.moved), (2.5, lambda: made.give_back("a"))]
    assert made.take("b", 1.0)
    assert clock.now == 2.5

    clock.happens = [(3.0, made.moved)]
    assert not made.take("c", 1.0)
    assert clock.now == 4.0


def test_who_is_interrupted_leaves_its_place_to_the_next(clock: Clock) -> None:
    made = places(clock, 1)
    assert made.take("a", 1.0)

    def interrupt() -> None:
        made.give_back("a")  # which lets it in at that moment
        raise KeyboardInterrupt

    clock.happens = [(0.5, interrupt)]
    with pytest.raises(KeyboardInterrupt):
        made.take("b", 1.0)
    assert made.take("c", 1.0)


def test_a_place_is_wanted_by_who_could_have_it(clock: Clock) -> None:
    made = places(clock, 3)
    assert [made.take(name, 1.0) for name in ("a", "a", "b")] == [True] * 3
    wanted: list[tuple[bool, bool]] = []
    clock.happens = [(0.5, lambda: wanted.append((made.is_wanted_beside("a"), made.is_wanted_beside("b"))))]
    assert not made.take("a", 1.0)
    clock.happens = [(1.5, lambda: wanted.append((made.is_wanted_beside("a"), made.is_wanted_beside("b"))))]
    assert not made.take("b", 1.0)
    clock.happens = [(2.5, lambda: wanted.append((made.is_wanted_beside("a"), made.is_wanted_beside("b"))))]
    assert not made.take("c", 1.0)
    assert wanted == [(False, False), (True, False), (True, True)]

    made.give_back("b")
    clock.happens = [(3.5, lambda: wanted.append((made.is_wanted_beside("a"), made.is_wanted_beside("b"))))]
    assert not made.take("a", 1.0)
    assert wanted[-1] == (False, False), "a place is free"


def test_who_waits_is_told_to_end(clock: Clock) -> None:
    made = places(clock, 1)
    assert made.take("a", 1.0)

    def check() -> None:
        if clock.now >= 5 * LOOK:
            raise KeyError

    with pytest.raises(KeyError):
        made.take("b", 30.0, check)
    assert clock.now == 5 * LOOK
    made.give_back("a")
    assert made.take("c", 0.0 + LOOK), "it waits no more"


def test_closing_lets_all_in(clock: Clock) -> None:
    made = places(clock, 1)
    assert made.take("a", 1.0)
    clock.happens = [(0.5, made.close)]
    assert made.take("b", 1.0)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=40), st.integers(1, 5))
def test_places_are_never_more_than_there_are_and_none_is_lost(steps: list[tuple[str, bool]], most: int) -> None:
    made, taken = places(Clock(), most), []
    for node, is_end in steps:
        if is_end and node in taken:
            made.give_back(node)
            taken.remove(node)
        elif made.take(node, 0.5):
            taken.append(node)
            assert len(taken) <= most
            assert taken.count(node) <= MOST_OF_NODE
        else:
            assert len(taken) == most or taken.count(node) == MOST_OF_NODE
