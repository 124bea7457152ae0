from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ether_actors.observers.metrics.quantile_sketch import ACCURACY, QuantileSketch

durations = st.lists(st.floats(1e-6, 1e4), min_size=1, max_size=50)


def sketch_of(values: list[float]) -> QuantileSketch:
    sketch = QuantileSketch()
    for value in values:
        sketch.add(value)
    return sketch


@given(durations, st.floats(0.001, 1.0))
def test_a_quantile_is_the_nearest_rank_within_the_accuracy(values: list[float], part: float) -> None:
    nearest = sorted(values)[math.ceil(part * len(values)) - 1]

    assert sketch_of(values).quantile(part) == pytest.approx(nearest, rel=ACCURACY + 1e-9)


def test_the_accuracy_is_as_documented() -> None:
    assert round(ACCURACY, 3) == 0.048


@given(durations, durations)
def test_two_sketches_merge_into_that_of_all(one: list[float], other: list[float]) -> None:
    merged = sketch_of(one)
    merged.merge(sketch_of(other))

    assert merged._bins == sketch_of(one + other)._bins
    assert merged.count == len(one) + len(other)


@given(durations)
@example([1.0, 0.1, 0.01, 10.0, 100.0])
def test_counts_at_thirds_of_decades_are_exact(values: list[float]) -> None:
    thirds = range(-12, 10)
    bounds = [10 ** (third / 3) * (1 + 1e-12) for third in thirds]

    assert sketch_of(values).at_most(thirds) == [sum(value <= bound for value in values) for bound in bounds]


def test_what_is_out_of_range_is_counted_at_the_ends() -> None:
    sketch = sketch_of([0.0, 1e-9, 1e9])

    assert sketch.count == 3
    assert sketch.quantile(0.5) == pytest.approx(1e-6, rel=ACCURACY + 1e-9)
    assert sketch.quantile(1.0) == pytest.approx(1e4, rel=ACCURACY + 1e-9)


def test_without_durations_there_is_no_quantile() -> None:
    assert QuantileSketch().quantile(0.5) is None
