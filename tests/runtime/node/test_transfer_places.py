"""The places of transfers: who is let in, and who waits for how long."""

from __future__ import annotations

from queue import Empty, SimpleQueue
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether.node.artifacts.transfer_places import LOOK, MOST_OF_NODE, Place, TransferPlaces


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


def taken(made: TransferPlaces, node: str) -> Place:
    """A place that is free."""
    place = made.take(node, 1.0)
    assert place is not None
    return place


def test_a_node_has_some_of_the_places_and_others_the_rest(clock: Clock) -> None:
    made = places(clock)
    first = [made.take("a", 1.0) for _ in range(MOST_OF_NODE + 1)]
    assert [place is not None for place in first] == [True] * MOST_OF_NODE + [False]
    assert [made.take(name, 1.0) is not None for name in ("b", "c", "d")] == [True, True, False]
    assert clock.now == 2.0
    assert first[0] is not None
    made.give_back(first[0])
    assert made.take("d", 0.0), "what is free is taken without waiting"


def test_who_waits_is_let_in_by_who_ends_and_waits_as_long_as_something_moves(clock: Clock) -> None:
    made = places(clock, 1)
    held = taken(made, "a")
    clock.happens = [
        (0.9, lambda: made.moved(held)),
        (1.8, lambda: made.moved(held)),
        (2.5, lambda: made.give_back(held)),
    ]
    held = taken(made, "b")
    assert clock.now == 2.5

    clock.happens = [(3.0, lambda: made.moved(held))]
    assert made.take("c", 1.0) is None
    assert clock.now == 4.0


def test_who_is_interrupted_leaves_its_place_to_the_next(clock: Clock) -> None:
    made = places(clock, 1)
    held = taken(made, "a")

    def interrupt() -> None:
        made.give_back(held)  # which lets it in at that moment
        raise KeyboardInterrupt

    clock.happens = [(0.5, interrupt)]
    with pytest.raises(KeyboardInterrupt):
        made.take("b", 1.0)
    assert made.take("c", 1.0)


def leaving(
    clock: Clock, made: TransferPlaces, held: list[Place], node: str, **waiting: bool
) -> list[tuple[bool, ...]]:
    """Which places are to be left, each second while a transfer from a node waits until 20 s after the beginning."""
    seen: list[tuple[bool, ...]] = []
    clock.happens = [
        (at + 0.25, lambda: seen.append(tuple(made.is_to_leave(place) for place in held)))
        for at in range(int(clock.now), 20)
    ]
    assert made.take(node, 20.0 - clock.now, **waiting) is None
    return seen


def test_a_place_is_left_after_a_while_to_one_of_another_node(clock: Clock) -> None:
    made = places(clock, 3)
    held = [taken(made, name) for name in ("a", "a", "b")]
    made.moved(held[0])
    seen = leaving(clock, made, held, "c")
    assert [seen.index((True, False, False)), seen[-1]] == [2, (True, False, False)], "one is left for one that waits"

    made.give_back(held[0])
    assert taken(made, "c")


def test_who_is_silent_leaves_its_place_later(clock: Clock) -> None:
    made = places(clock, 1)
    assert leaving(clock, made, [taken(made, "a")], "b").index((True,)) == 8


def test_who_had_a_place_wants_that_of_another_only_after_a_long_wait(clock: Clock) -> None:
    made = places(clock, 1)
    assert leaving(clock, made, [taken(made, "a")], "b", had_one=True).index((True,)) == 16


def test_no_place_is_left_to_who_could_not_have_it(clock: Clock) -> None:
    made = places(clock, 3)
    held = [taken(made, name) for name in ("a", "a", "b")]
    assert not any(map(any, leaving(clock, made, held, "a"))), "its node has two"


def test_no_place_is_left_while_one_is_free(clock: Clock) -> None:
    made = places(clock, 3)
    held = [taken(made, name) for name in ("a", "a")]
    assert not any(map(any, leaving(clock, made, held, "a")))


def test_who_waits_is_told_to_end(clock: Clock) -> None:
    made = places(clock, 1)
    held = taken(made, "a")

    def check() -> None:
        if clock.now >= 5 * LOOK:
            raise KeyError

    with pytest.raises(KeyError):
        made.take("b", 30.0, check)
    assert clock.now == 5 * LOOK
    made.give_back(held)
    assert made.take("c", LOOK), "it waits no more"


def test_closing_lets_all_in(clock: Clock) -> None:
    made = places(clock, 1)
    assert made.take("a", 1.0)
    clock.happens = [(0.5, made.close)]
    assert made.take("b", 1.0)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["end", "take", "chunk", "look"])), max_size=40),
    st.integers(1, 5),
)
def test_places_are_never_more_than_there_are_and_none_is_lost(steps: list[tuple[str, str]], most: int) -> None:
    clock = Clock()
    made, held = places(clock, most), list[Place]()
    for node, step in steps:
        own = [place for place in held if place.node == node]
        clock.now += 3.0
        if step == "chunk" and own:
            made.moved(own[0])
        elif step == "look" and own:
            made.is_to_leave(own[0])
        elif step == "end" and own:
            made.give_back(own[0])
            held.remove(own[0])
        elif (place := made.take(node, 0.5)) is not None:
            held.append(place)
            assert len(held) <= most
            assert sum(one.node == node for one in held) <= MOST_OF_NODE
        else:
            assert len(held) == most or len(own) == MOST_OF_NODE
        assert made._leaving == sum(place.is_leaving for place in held)
