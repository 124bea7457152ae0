from __future__ import annotations

import sys
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether_broker import sorted_keys
from ether_broker.sorted_keys import SortedKeys


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 60)), max_size=200), st.none() | st.integers(-1, 61))
def test_what_is_beside_a_key_is_what_a_sorted_set_has(changes: list[tuple[bool, int]], after: int | None):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_keys, "_CHUNK", 4)
        keys: SortedKeys[int] = SortedKeys()
        model: set[int] = set()
        for is_added, key in changes:
            if is_added and key not in model:
                keys.add(key)
                model.add(key)
            elif not is_added and key in model:
                keys.remove(key)
                model.remove(key)

    assert list(keys.after(after)) == sorted(key for key in model if after is None or key > after)
    if after is not None:
        around = list(keys.around(after))
        assert [key for key in around if key >= after] == sorted(key for key in model if key >= after)
        assert [key for key in around if key < after] == sorted((key for key in model if key < after), reverse=True)
        assert all((one < after) != (other < after) for one, other in pairwise(around[: 2 * _sides(model, after)]))


def _sides(model: set[int], key: int) -> int:
    """How many there are on the side where there are fewer."""
    below = sum(one < key for one in model)
    return min(below, len(model) - below)


@pytest.mark.parametrize("count", [2_000, 16_000])
def test_a_page_is_found_without_walking_through_the_keys_before_it(count: int):
    keys: SortedKeys[int] = SortedKeys()
    for key in range(count):
        keys.add(key)
    steps = 0

    def step(*_args: object) -> None:
        nonlocal steps
        steps += 1

    sys.setprofile(step)
    try:
        found = list(islice(keys.after(count - 20), 10))
    finally:
        sys.setprofile(None)

    assert found == list(range(count - 19, count - 9))
    assert steps < 60
