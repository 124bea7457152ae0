"""The simulator of months: the same by its seed, true to what it says of itself, and what the rules find in it."""

from __future__ import annotations

import random
from collections import Counter
from statistics import fmean, pvariance

import pytest

from ether.governance.gaps.rules import Cause
from ether.governance.gaps.simulator.binomial import binomial, poisson
from ether.governance.gaps.simulator.judgement import Judgement
from ether.governance.gaps.simulator.month import Month
from ether.governance.gaps.simulator.troubles import CONFOUNDERS, GAPS


@pytest.mark.parametrize(("trials", "chance"), [(20, 0.1), (20, 0.9), (1000, 0.004), (1000, 0.3), (100_000, 0.7)])
def test_counts_have_the_mean_and_variance_of_their_distribution(trials: int, chance: float):
    chances = random.Random(1)
    drawn = [binomial(chances, trials, chance) for _ in range(4000)]

    assert all(0 <= count <= trials for count in drawn)
    assert fmean(drawn) == pytest.approx(trials * chance, rel=0.05)
    assert pvariance(drawn) == pytest.approx(trials * chance * (1 - chance), rel=0.12)


def test_counts_of_nothing_and_of_all():
    chances = random.Random(1)
    assert [binomial(chances, 0, 0.5), binomial(chances, 9, 0.0), binomial(chances, 9, 1.0)] == [0, 0, 9]
    for mean in (0.0, 0.5, 8.0, 300.0):
        drawn = [poisson(chances, mean) for _ in range(4000)]
        assert fmean(drawn) == pytest.approx(mean, rel=0.06, abs=1e-9)


def test_a_seed_gives_the_same_month_and_another_one_another():
    one, again, other = Month(7), Month(7), Month(8)

    assert one.traffic.capabilities == again.traffic.capabilities
    assert (one.gaps, one.innocent) == (again.gaps, again.innocent)
    assert one.traffic.capabilities != other.traffic.capabilities


def test_a_gap_says_how_many_it_affected_and_from_when():
    for gap in (gap for seed in range(6) for gap in Month(seed).gaps):
        assert gap.affected > 0
        assert (gap.kind, gap.cause) in {
            ("missing", Cause.UNSERVED), ("retired", Cause.UNSERVED), ("partly", Cause.REFUSED),
            ("slow", Cause.SLOW), ("unclear", Cause.UNCLEAR),
            *(("emergent", cause) for cause in (Cause.REFUSED, Cause.SLOW, Cause.UNCLEAR)),
        }  # fmt: skip
        late = gap.kind in {"emergent", "retired"}
        assert (gap.first - 20_000 >= 12) == late or not late


def test_every_kind_of_gap_and_of_what_only_looks_so_is_drawn():
    months = [Month(seed) for seed in range(15)]

    assert {gap.kind for month in months for gap in month.gaps} == set(GAPS)
    assert {kind for month in months for kind in month.innocent.values()} == {*CONFOUNDERS, "misspelt"}


@pytest.mark.slow
def test_the_rules_find_nearly_all_gaps_and_take_little_else_for_one():
    judged = Judgement.of(range(2000, 2006))

    assert judged.precision >= 0.93
    assert judged.recall(30) >= 0.97
    assert judged.days_to_detection is not None
    assert judged.days_to_detection <= 6
    assert judged.summary()["gaps_found"] == len(judged.found) >= 30
    found = Counter(gap.kind for gap, _ in judged.found)
    assert set(found) == set(GAPS)


@pytest.mark.slow
def test_without_gaps_there_is_nearly_nothing_to_find():
    judged = Judgement()
    for seed in range(3000, 3005):
        judged.add(Month(seed, gap=0.0))

    assert (judged.found, judged.missed) == ([], [])
    assert judged.wrong.total() <= 2, "of 200 capabilities, of which nearly half look as if they had one"
    assert judged.precision == 0.0
