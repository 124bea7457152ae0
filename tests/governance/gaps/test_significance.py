"""Significance: the binomial test against exact sums, and the control of false discoveries."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether.governance.gaps.significance import discoveries, upper_tail


def exact(successes: int, trials: int, chance: Fraction) -> float:
    terms = (math.comb(trials, n) * chance**n * (1 - chance) ** (trials - n) for n in range(successes, trials + 1))
    return float(sum(terms))


@given(trials=st.integers(0, 120), share=st.floats(0, 1), percent=st.integers(1, 99))
def test_the_tail_is_the_sum_of_its_terms(trials: int, share: float, percent: int):
    successes = round(trials * share)

    found = upper_tail(successes, trials, percent / 100)

    assert found == pytest.approx(exact(successes, trials, Fraction(percent, 100)), rel=1e-9, abs=1e-13)


def test_of_very_many_trials_only_the_terms_that_count_are_summed():
    assert upper_tail(60_000, 1_000_000, 0.06) == pytest.approx(0.5, abs=0.01)
    assert upper_tail(62_000, 1_000_000, 0.06) < 1e-15
    assert upper_tail(58_000, 1_000_000, 0.06) == pytest.approx(1.0, abs=1e-12)
    assert upper_tail(0, 0, 0.06) == 1.0


def test_discoveries_are_those_up_to_the_last_below_its_rank():
    assert discoveries([0.001, 0.04, 0.012, 0.9], 0.05) == [True, False, True, False]
    assert discoveries([0.03, 0.03, 0.03, 0.03], 0.03) == [True] * 4
    assert discoveries([0.02, 0.02], 0.01) == [False, False]
    assert discoveries([], 0.01) == []


@given(st.lists(st.floats(0, 1), max_size=30), st.floats(0.001, 0.2))
def test_a_discovery_is_never_less_likely_than_what_is_none(probabilities: list[float], level: float):
    found = discoveries(probabilities, level)

    kept = [p for p, is_real in zip(probabilities, found, strict=True) if is_real]
    left = [p for p, is_real in zip(probabilities, found, strict=True) if not is_real]
    assert max(kept, default=0.0) <= min(left, default=1.0)
    assert all(p <= level for p in kept)
    assert all(p > level / len(probabilities) for p in left)
