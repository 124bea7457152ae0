"""The straight line through samples."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether.lab.soak.trend import Series


@given(slope=st.floats(-1e6, 1e6), start=st.floats(-1e6, 1e6), count=st.integers(2, 50))
def test_the_slope_of_a_line_is_its_own(slope: float, start: float, count: int) -> None:
    series = Series(range(count), [start + slope * at for at in range(count)])

    assert series.slope == pytest.approx(slope, rel=1e-6, abs=1e-3)


def test_one_high_sample_in_the_middle_does_not_make_a_slope() -> None:
    assert Series(range(5), [1.0, 1.0, 9.0, 1.0, 1.0]).slope == pytest.approx(0.0, abs=1e-9)


def test_samples_before_a_time_are_left_out() -> None:
    later = Series([0.0, 1.0, 2.0], [9.0, 1.0, 2.0]).since(1.0)

    assert (later.slope, later.span) == (1.0, 1.0)


@pytest.mark.parametrize("times", [[], [1.0]])
def test_too_few_samples_have_no_slope(times: list[float]) -> None:
    assert Series(times, times).slope == 0.0
