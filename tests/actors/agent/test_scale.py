"""The decision how many instances an agent has: within bounds, at once upwards, slowly downwards, never in a flap."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from ether import Agent, Event, InvalidSpec, Scale, UsageError, capability, every, on_event
from ether.node.agents.scalable import check_scalable
from ether.node.agents.scale_policy import ScalePolicy

scales = st.builds(
    lambda least, more, per, cooldown: Scale(max=least + more, min=least, per=per, cooldown=cooldown),
    st.integers(1, 5), st.integers(0, 20), st.integers(1, 9), st.floats(0.1, 100.0),
)  # fmt: skip
counts = st.integers(0, 300)


def enough(scale: Scale, outstanding: int) -> int:
    """The fewest instances that are enough."""
    return next(
        count for count in range(scale.min, scale.max + 1) if count * scale.per >= outstanding or count == scale.max
    )


class Life:
    """The instances of one agent, by the policy."""

    def __init__(self, scale: Scale) -> None:
        self.policy, self.count, self.now = ScalePolicy(scale), scale.min, 0.0
        self.changes: list[tuple[float, int]] = []

    def look(self, outstanding: int, later: float, most: int = 0) -> int:
        self.now += later
        self.policy.peaked(most, self.count)
        more = self.policy.decide(outstanding, self.count, self.now)
        if more:
            self.changes.append((self.now, more))
        self.count += more
        return more


@given(scales, st.lists(st.tuples(counts, st.floats(0.0, 50.0)), max_size=60))
def test_the_count_is_within_the_bounds_and_never_less_than_what_waits_needs(
    scale: Scale, looks: list[tuple[int, float]]
) -> None:
    life = Life(scale)
    for outstanding, later in looks:
        life.look(outstanding, later)
        assert scale.min <= life.count <= scale.max
        assert life.count >= enough(scale, outstanding)


@given(scales, st.lists(st.tuples(counts, st.just(0) | counts, st.floats(0.0, 50.0)), max_size=60))
def test_one_goes_at_a_time_and_only_when_one_fewer_was_enough_for_the_whole_cooldown(
    scale: Scale, looks: list[tuple[int, int, float]]
) -> None:
    life, seen = Life(scale), []
    for outstanding, most, later in looks:
        before = life.count
        more = life.look(outstanding, later, most)
        seen.append((life.now, enough(scale, max(outstanding, most))))
        if more < 0:
            assert more == -1
            first = next((at for at, needed in reversed(seen) if needed >= before), -inf)
            assert life.now - first >= scale.cooldown or first == -inf
            earlier = [at for at, change in life.changes[:-1] if change]
            assert not earlier or life.now - earlier[-1] >= scale.cooldown


def test_they_come_at_once_and_go_one_by_one() -> None:
    life = Life(Scale(max=5, per=2, cooldown=10.0))
    life.look(9, 0.0)
    for _ in range(100):
        life.look(1, 1.0)

    assert life.changes == [(0.0, 4), (11.0, -1), (21.0, -1), (31.0, -1), (41.0, -1)]


@given(scales, counts, counts)
def test_a_constant_load_has_a_constant_count(scale: Scale, before: int, outstanding: int) -> None:
    life = Life(scale)
    life.look(before, 0.0)
    for _ in range(scale.max + 1):
        life.look(outstanding, scale.cooldown * 1.01)

    assert life.count == enough(scale, outstanding)
    assert {life.look(outstanding, 7.3) for _ in range(100)} == {0}


@given(scales, counts, counts, st.floats(0.01, 0.49))
def test_a_load_that_comes_and_goes_sooner_than_the_cooldown_changes_nothing(
    scale: Scale, low: int, high: int, part: float
) -> None:
    life = Life(scale)
    life.look(max(low, high), 0.0)

    changes = [life.look(outstanding, scale.cooldown * part) for _ in range(50) for outstanding in (low, high)]

    assert set(changes) == {0}


@given(scales, st.integers(1, 40))
def test_more_instances_than_may_be_go_at_once(scale: Scale, more: int) -> None:
    assert ScalePolicy(scale).decide(0, scale.max + more, 5.0) == -more


def test_what_a_scale_may_not_be_is_told_with_the_key_and_the_fix() -> None:
    with pytest.raises(InvalidSpec, match=r"Scale: min is 3 and max is 2; give a min of 2 or less\."):
        Scale(max=2, min=3)
    with pytest.raises(InvalidSpec, match=r"Scale: min is 0.* 1 or more.*without an instance has no holder\.$"):
        Scale(max=2, min=0)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("max", 0), ("max", 1_001), ("max", True), ("max", 2.0), ("max", "4"), ("min", -1), ("min", 1.5), ("per", 0),
        ("per", "queue"), ("per", None), ("cooldown", 0), ("cooldown", -1.0), ("cooldown", inf), ("cooldown", nan),
        ("cooldown", "30"),
    ],
)  # fmt: skip
def test_values_out_of_range_are_refused(key: str, value: Any) -> None:
    with pytest.raises(InvalidSpec, match=f"Scale: {key} is {value!r}"):
        Scale(**{"max": 4, key: value})


class Totals(BaseModel):
    done: int = 0


class WithState(Agent):
    state: Totals


class Listening(Agent):
    @on_event("order.*")
    def noted(self, event: Event) -> None:
        """Take note."""


class Timed(Agent):
    @every(10.0)
    @capability("timed.tick")
    def tick(self) -> None:
        """Tick."""


@pytest.mark.parametrize(
    ("cls", "says"),
    [
        (WithState, "has a state, .* keep it outside, or in an agent that does not scale"),
        (Listening, "subscribes to events"),
        (Timed, "has a schedule"),
    ],
)
def test_what_cannot_scale_is_refused_with_the_fix(cls: type[Agent], says: str) -> None:
    with pytest.raises(UsageError, match=rf"{cls.__name__} cannot scale: it {says}"):
        check_scalable(cls)
