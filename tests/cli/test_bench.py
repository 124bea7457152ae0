"""`ether bench`, as a command; tests/bench has the benchmarks."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from ether.lab.bench import main
from ether.lab.bench.settings import BenchSettings
from ether.lab.report import Bound, Figure, Report
from tests.cli.command import Command, table

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
