"""What counts as flat."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ether.lab.soak.render import render
from ether.lab.soak.report import ALLOWED, POINTER, Latency, Report, Size
from ether.lab.soak.trend import Series

RATE = 1000.0
TIMES = [float(second) for second in range(120, 601)]
SPAN = TIMES[-1] - TIMES[0]


def size(grows: float = 0.0, descriptors: float = 0.0) -> Size:
    """A process whose memory grows by that many bytes a delegation, and its descriptors by so many a minute."""
    return Size(
        "broker",
        Series(TIMES, [1e8 + grows * RATE * (at - TIMES[0]) + (at % 7) * 50_000 for at in TIMES]),
        Series(TIMES, [30.0 + descriptors * int((at - TIMES[0]) / 60) for at in TIMES]),
        ALLOWED + POINTER * RATE * SPAN,
    )


def report(*sizes: Size, last: float = 0.01, **fields: object) -> Report:
    latencies = [Latency(at, 10_000, 0.001, 0.01 if at <= 400 else last) for at in range(10, 610, 10)]
    whole = Report(
        seconds=600.0, maximum=2 * RATE, rate=RATE, sent=600_000, statuses={"COMPLETED": 600_000}, sizes=sizes,
        latencies=latencies, thirds=(200.0, 400.0), stops=4, stalled=100.0,
        observed={"observer": {"seen": 5, "missed": 0, "position": 9}, "laggard": {"seen": 4, "missed": 0, "position": 9}},
        stored=1 << 30, load=(1.0, 1.0, 1.0),
    )  # fmt: skip
    return replace(whole, **fields)  # type: ignore[arg-type]


def test_memory_that_only_wavers_is_flat() -> None:
    found = report(size())

    assert found.problems == []
    assert found.plain()["flat"] is True
    assert render(found).startswith("flat")


def test_a_small_object_kept_for_each_delegation_is_found() -> None:
    found = report(size(grows=28.0))

    assert len(found.problems) == 1
    assert "broker grew by" in found.problems[0]
    assert render(found).startswith("not flat: 1\n  broker grew by")


def test_a_process_that_becomes_smaller_is_no_complaint() -> None:
    assert report(size(grows=-50.0)).problems == []


def test_a_descriptor_kept_each_minute_is_found() -> None:
    assert "descriptors more" in report(size(descriptors=1.0)).problems[0]


def test_a_tail_that_doubles_is_found() -> None:
    assert report(size(), last=0.019).problems == []
    assert report(size(), last=0.021).problems == ["p99 rose from 10.0 to 21.0 ms"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"statuses": {"COMPLETED": 599_999, "TIMEOUT": 1}}, "1 of 600,000 delegations were not completed"),
        ({"observed": {"observer": {"seen": 5, "missed": 2, "position": 9}}}, "observer missed 2 messages"),
        ({"observed": {"a": {"missed": 0, "position": 9}, "b": {"missed": 0, "position": 7}}}, "has not caught up"),
    ],
)
def test_what_was_lost_is_a_problem_too(fields: dict[str, object], said: str) -> None:
    (problem,) = report(size(), **fields).problems

    assert said in problem
