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


def test_a_part_below_the_middle_is_of_the_lower_latency_and_none_has_no_percentile() -> None:
    histogram = Histogram()
    histogram.note(0.001)
    histogram.note(0.002)

    assert len(histogram) == 2
    assert histogram.percentile(0.5) < 0.0011
    assert histogram.percentile(1.0) > 0.0019
    assert Histogram().percentile(0.99) == 0.0
