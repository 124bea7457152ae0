"""One report in text, in Markdown and as plain data."""

from __future__ import annotations

import json

from ether.lab.render import render
from ether.lab.report import Figure, Report, Violation, amount, at_least, at_most

REPORT = Report(
    figures=(
        Figure("load", "rate", 1234.5, "delegations/s", at_least(1000)),
        amount("broker", "memory | grown", [3.0, 5.0, 25.25], "MiB", at_most(4)),
    ),
    tables={"outcomes": [{"outcome": "COMPLETED", "count": 9, "CPU µs": {"a": 1.234, "b": 2.0}, "p50": None}]},
    about={"seed": 20_261_122, "victims": ("node", "broker"), "pin": None},
    headline="not flat: 1",
    violations=(Violation("lost", "nobody was told", "d1"),),
)


def test_text_is_what_it_came_to_what_broke_figures_tables_and_settings_without_empty_columns() -> None:
    assert render(REPORT).split("\n\n") == [
        "not flat: 1",
        "rule  delegation  broken promise\nlost  d1          nobody was told",
        (
            "case    figure          measured             range   target\n"
            "load    rate            1,234 delegations/s          ≥ 1,000  met\n"
            "broker  memory | grown  5 MiB                3–25.2  ≤ 4      missed"
        ),
        "outcome    count  CPU µs\nCOMPLETED  9      a 1.23, b 2",
        "seed 20261122, victims node broker\n",
    ]


def test_a_cell_of_a_markdown_table_stays_one_cell() -> None:
    lines = render(REPORT, markdown=True).splitlines()

    assert "| case | figure | measured | range | target |  |" in lines
    assert "| broker | memory \\| grown | 5 MiB | 3–25.2 | ≤ 4 | missed |" in lines


def test_plain_data_has_every_value_and_whether_it_is_within_its_bound() -> None:
    plain = json.loads(json.dumps(REPORT.plain()))

    assert (plain["ok"], plain["headline"]) == (False, "not flat: 1")
    assert plain["violations"] == [{"rule": "lost", "text": "nobody was told", "id": "d1"}]
    assert [(figure["value"], figure["met"]) for figure in plain["figures"]] == [(1234.5, True), (5.0, False)]
    assert plain["outcomes"] == [{"outcome": "COMPLETED", "count": 9, "CPU µs": {"a": 1.234, "b": 2.0}, "p50": None}]


def test_a_report_is_ok_when_no_figure_is_missed_and_no_promise_is_broken() -> None:
    within = Figure("load", "rate", 2.0, bound=at_least(1))

    assert Report((within, Figure("load", "told", 0.0))).ok
    assert not Report((within, Figure("load", "missed", 0.0, bound=at_least(1)))).ok
    assert not Report((within,), violations=(Violation("lost", "it"),)).ok
