"""Latencies in buckets."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from ether.lab.harness.histogram import Histogram


@given(st.lists(st.floats(2e-6, 1e3), min_size=1), st.sampled_from([0.5, 0.9, 0.99, 1.0]))
def test_a_percentile_is_that_of_the_latencies_to_within_a_bucket(latencies: list[float], part: float) -> None:
    histogram = Histogram()
    for latency in latencies:
        histogram.note(latency)
    exact = sorted(latencies)[math.ceil(part * len(latencies)) - 1]

    assert exact * 0.999 <= histogram.percentile(part) <= exact * 1.06


def test_several_are_as_one_and_none_has_no_percentile() -> None:
    first, second = Histogram(), Histogram()
    first.note(0.001)
    second.note(0.002)
    both = Histogram.together([first, Histogram(second.counts), Histogram()])

    assert len(both) == 2
    assert both.percentile(0.5) < 0.0011
    assert both.percentile(1.0) > 0.0019
    assert Histogram().percentile(0.99) == 0.0
