"""What counts as flat."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ether.lab.render import render
from ether.lab.report import Report
from ether.lab.soak.report import Measured, Size, Window, make_report
from ether.lab.soak.settings import SoakSettings
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
    )


def report(*sizes: Size, last: float = 0.01, **fields: object) -> Report:
    windows = [Window(at, 10_000, 0.001, 0.01 if at <= 400 else last, {"broker": 1 << 20}) for at in range(10, 610, 10)]
    measured = Measured(
        seconds=600.0, maximum=2 * RATE, rate=RATE, sent=600_000, statuses={"COMPLETED": 600_000}, sizes=sizes,
        windows=windows, stops=4, stalled=100.0,
        observed={"observer": {"seen": 5, "missed": 0, "position": 9}, "laggard": {"seen": 4, "missed": 0, "position": 9}},
        stored=1 << 30,
    )  # fmt: skip
    return make_report(replace(measured, **fields), SoakSettings(seconds=600.0))  # type: ignore[arg-type]


def missed(found: Report) -> list[tuple[str, str]]:
    return [(figure.case, figure.name) for figure in found.missed]


def test_memory_that_only_wavers_is_flat() -> None:
    found = report(size())

    assert found.ok
    assert found.plain()["headline"] == "flat"
    assert render(found).startswith("flat")


def test_a_small_object_kept_for_each_delegation_is_found() -> None:
    found = report(size(grows=28.0))

    assert missed(found) == [("broker", "memory grown")]
    assert render(found).startswith("not flat: 1\n")


def test_a_process_that_becomes_smaller_is_no_complaint() -> None:
    assert report(size(grows=-50.0)).ok


def test_a_descriptor_kept_each_minute_is_found() -> None:
    assert missed(report(size(descriptors=1.0))) == [("broker", "descriptors more")]


def test_a_tail_that_doubles_is_found() -> None:
    assert report(size(), last=0.019).ok
    assert missed(report(size(), last=0.021)) == [("soak", "p99, last third / first")]


@pytest.mark.parametrize(
    ("fields", "case", "name"),
    [
        ({"statuses": {"COMPLETED": 599_999, "TIMEOUT": 1}}, "soak", "delegations not completed"),
        ({"observed": {"observer": {"seen": 5, "missed": 2, "position": 9}}}, "observer", "messages missed"),
        (
            {"observed": {"a": {"missed": 0, "position": 9}, "b": {"missed": 0, "position": 7}}},
            "soak", "messages that one observer is behind another",
        ),
    ],
)  # fmt: skip
def test_what_was_lost_is_a_problem_too(fields: dict[str, object], case: str, name: str) -> None:
    assert missed(report(size(), **fields)) == [(case, name)]
