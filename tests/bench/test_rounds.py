"""Interleaved rounds and the figures that come of them."""

from __future__ import annotations

import pytest

from ether.lab.bench.rounds import interleave, row
from ether.lab.harness.deployment import Sample
from ether.lab.harness.role import nearest_rank, summary
from ether.lab.report import Bound, Figure, Report, amount, ratio


def test_every_round_reverses_the_order_of_the_one_before():
    seen: list[str] = []

    def turn(name: str):
        def take() -> Sample:
            seen.append(name)
            return Sample(1, 1.0)

        return take

    samples = interleave({"a": turn("a"), "b": turn("b"), "c": turn("c")}, 3)

    assert seen == ["a", "b", "c", "c", "b", "a", "a", "b", "c"]
    assert {name: len(found) for name, found in samples.items()} == {"a": 3, "b": 3, "c": 3}


def test_a_ratio_is_the_median_of_the_ratios_of_the_rounds():
    # The machine was three times as slow in the second round, for both.
    figure = ratio("case", "ours / theirs", [200.0, 66.0, 210.0], [100.0, 30.0, 100.0])

    assert figure.value == pytest.approx(2.1)
    assert figure.spread == (2.0, 2.2)
    assert figure.unit == "×"


def test_rounds_of_different_number_are_not_compared():
    with pytest.raises(ValueError, match="shorter"):
        ratio("case", "ours / theirs", [1.0, 2.0], [1.0])


@pytest.mark.parametrize(
    ("bound", "value", "met"),
    [
        (Bound(2.0, at_least=True), 2.0, True),
        (Bound(2.0, at_least=True), 1.9, False),
        (Bound(8.0, at_least=False), 8.0, True),
        (Bound(8.0, at_least=False), 8.1, False),
    ],
)
def test_a_bound_includes_its_limit(bound, value, met):
    assert amount("case", "name", [value], "µs", bound).is_met is met


def test_a_figure_without_a_bound_is_neither_met_nor_missed():
    assert Figure("case", "name", 1.0).is_met is None


def test_a_report_names_what_was_missed():
    met = Figure("case", "met", 3.0, bound=Bound(2.0, at_least=True))
    missed = Figure("case", "missed", 1.0, bound=Bound(2.0, at_least=True))
    told = Figure("case", "told", 0.0)

    assert Report((met, missed, told)).missed == (missed,)


def test_a_round_trip_is_two_envelopes():
    sample = Sample(count=500, seconds=0.5, cpu={"broker": 0.01})

    assert sample.rate == 1000.0
    assert sample.cpu_per_envelope("broker") == pytest.approx(10e-6)


def test_a_row_has_the_medians_of_the_rounds():
    samples = [
        Sample(count=count, seconds=1.0, cpu={"broker": 2e-6 * count * each}, p50=p50, p99=2 * p50)
        for count, each, p50 in ((100, 3, 0.1), (300, 1, 0.3), (200, 2, 0.2))
    ]

    found = row("case", "ether", samples)

    assert (found["round trips/s"], found["p50 µs"], found["p99 µs"]) == (200.0, 0.2e6, 0.4e6)
    assert found["CPU µs an envelope"]["broker"] == pytest.approx(2.0)


def test_the_median_of_pipelined_samples_is_none():
    assert row("case", "ether", [Sample(1, 1.0)])["p50 µs"] is None


@pytest.mark.parametrize(("part", "rank"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.001, 1)])
def test_percentiles_are_nearest_rank(part, rank):
    assert nearest_rank([float(number) for number in range(1, 101)], part) == rank


def test_a_summary_of_unordered_times_is_of_the_ordered_ones():
    assert summary([0.3, 0.1, 0.2], 0.6) == {"count": 3, "seconds": 0.6, "p50": 0.2, "p99": 0.3}
