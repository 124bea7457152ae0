"""`ether bench`, as a command; tests/bench has the benchmarks."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from ether.lab.bench import main
from ether.lab.bench.earlier import EarlierRun
from ether.lab.bench.settings import BenchSettings
from ether.lab.report import Bound, Figure, Report
from tests.cli.command import Command, table

LAST: Final = Path(__file__).parents[2] / "docs" / "bench.json"
"""The figures of the last measurement that docs/performance.md shows."""
REPORT = Report(
    figures=(
        Figure("serial", "p50, ether / raw", 12.0, bound=Bound(10, at_least=False)),
        Figure("idle", "CPU", 0.5, unit="%", bound=Bound(1, at_least=False)),
    ),
    about={"cores": "2"},
)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], BenchSettings]]:
    """What was asked for, in place of minutes of measuring."""
    asked: list[tuple[list[str], BenchSettings]] = []

    def run(cases: Iterable[str], settings: BenchSettings) -> Report:
        asked.append((list(cases), settings))
        return REPORT

    monkeypatch.setattr(main, "run", run)
    return asked


def test_cases_are_listed(alone: Command) -> None:
    assert [row[0] for row in table(alone("bench", "--list"))[1:]] == list(main.CASES)


def test_options_are_settings(alone: Command, runs: list[tuple[list[str], BenchSettings]]) -> None:
    alone("bench", "serial", "idle", "--rounds", "7", "--quick", "--transport", "ipc", "--without", "nats")

    ((cases, settings),) = runs
    assert cases == ["serial", "idle"]
    assert (settings.rounds, settings.seconds, settings.transport) == (7, 0.25, "ipc")
    assert settings.without == ("nats",)


def test_a_report_has_every_format(alone: Command, runs: list[tuple[list[str], BenchSettings]]) -> None:
    assert "missed" in alone("bench").out
    assert alone("bench", "--markdown").out.startswith("| case |")
    assert [figure["met"] for figure in alone("bench", "-o", "json").json["figures"]] == [False, True]
    assert [line["case"] for line in alone("bench", "-o", "jsonl").lines] == ["serial", "idle"]


def test_a_missed_target_is_code_1_only_where_it_is_to_be_checked(
    alone: Command, runs: list[tuple[list[str], BenchSettings]]
) -> None:
    assert alone("bench").code == 0
    assert alone("bench", "--check").code == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["serail"], "There is no case 'serail'. Did you mean 'serial'?"),
        (["--without", "nots"], "There is no system 'nots'. Did you mean 'nats'?"),
        (["--seconds", "0"], "should be greater than 0"),
        (["--transport", "udp"], "Input should be 'ipc' or 'tcp'"),
        (["--pin", "4096"], "may run on the cores"),
        (["--markdown", "-o", "json"], "--markdown is a format of its own"),
    ],
)
def test_a_benchmark_that_cannot_be_is_a_usage_error(alone: Command, words: list[str], said: str) -> None:
    done = alone("bench", *words)

    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_a_run_is_compared_with_an_earlier_one(
    alone: Command, runs: list[tuple[list[str], BenchSettings]], tmp_path: Path
) -> None:
    earlier = tmp_path / "earlier.json"
    earlier.write_text(json.dumps({"figures": [{"case": "serial", "name": "p50, ether / raw", "value": 20.5}]}))

    lines = alone("bench", "--against", str(earlier), "--markdown").out.splitlines()
    head, _, first, second = ([cell.strip() for cell in line.split("|")] for line in lines[:4])

    assert (first[head.index("before")], second[head.index("before")]) == ("20.5", "")
    assert "before" not in alone("bench").out
    before = [figure["before"] for figure in alone("bench", "--against", str(earlier), "-o", "json").json["figures"]]
    assert before == [20.5, None]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{}", "figures: Field required"), ("[", "Invalid JSON"), (None, "No such file"),
        ('{"figures": [{"case": 1}]}', "figures.0.case"),
    ],
)  # fmt: skip
def test_what_is_no_earlier_run_is_said_before_anything_is_measured(
    alone: Command, runs: list[tuple[list[str], BenchSettings]], tmp_path: Path, text: str | None, why: str
) -> None:
    earlier = tmp_path / "earlier.json"
    if text is not None:
        earlier.write_text(text)

    said = alone("bench", "--against", str(earlier))

    assert said.code == 2
    assert why in said.err
    assert "ether bench -o json" in said.err
    assert not runs


def test_the_last_release_is_an_earlier_run() -> None:
    names = {figure.name for figure in EarlierRun.read(LAST).figures}

    assert "median, delegate / pykka ask" in names


def test_rates_are_drawn_and_a_picture_that_cannot_be_written_is_said_before_anything_is_measured(
    alone: Command, runs: list[tuple[list[str], BenchSettings]], tmp_path: Path
) -> None:
    picture = tmp_path / "bars.svg"
    assert alone("bench", "--svg", str(picture)).code == 0
    assert picture.read_text().startswith("<svg ")
    runs.clear()

    said = alone("bench", "--svg", str(tmp_path / "nowhere" / "bars.svg"))

    assert said.code == 2
    assert "cannot be written: No such file or directory" in said.err
    assert not runs
