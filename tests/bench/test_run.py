"""A tiny run of the benchmark with its real processes: the numbers mean nothing, and the report is whole."""

from __future__ import annotations

import json

import pytest

from ether.lab.bench import main
from ether.lab.bench.settings import BenchSettings
from ether.lab.render import render
from ether_broker.errors import MissingExtra, UsageError

TINY = {
    "rounds": 1,
    "seconds": 0.05,
    "window": 8,
    "agents": 400,  # fewer fit into memory that the process has already
    "crowd": 50,
    "registered": 3,
    "rows": 2_000,
    "kills": 1,
    "artifact": 1_000_000,
    "mapped": 500,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        "pipelined",
        "bytes",
        "serial",
        "registered",
        "agents",
        "crowd",
        "embedded",
        "durable",
        "curve",
        "recovery",
        "failover",
        "artifact",
        "map",
    ],
)
def test_a_case_measures_all_its_contenders(case: str) -> None:
    report = main.run([case], BenchSettings(**TINY))

    assert report.figures
    assert all(figure.value > 0 for figure in report.figures if not figure.name.startswith("growth"))
    for row in report.tables["rows"]:
        assert row["round trips/s"] > 0
        assert row["CPU µs an envelope"]
    contenders = {row["contender"] for row in report.tables["rows"]}
    assert contenders >= {"pipelined": {"ether", "nats"}, "bytes": {"ether", "nats", "raw", "proxy"}}.get(case, set())


@pytest.mark.slow
def test_what_is_left_out_is_not_started_and_not_compared() -> None:
    report = main.run(["pipelined"], BenchSettings(**TINY, without=("nats",)))

    assert [row["contender"] for row in report.tables["rows"]] == ["ether"]
    assert not [figure for figure in report.figures if "nats" in figure.name]


@pytest.mark.slow
def test_a_report_is_the_same_in_every_form() -> None:
    report = main.run(["crowd"], BenchSettings(**TINY))

    plain = json.loads(json.dumps(report.plain()))
    for figure in report.figures:
        assert figure.name in json.dumps(plain)
        assert figure.name in render(report)
        assert figure.name in render(report, markdown=True)


def test_an_unknown_case_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="Did you mean 'serial'"):
        main.run(["seriall"])


def test_a_missing_peer_is_named_with_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(MissingExtra, match="agent-ether\\[dev\\]"):
        main.run(["pipelined"], BenchSettings(**TINY))


@pytest.mark.parametrize(
    "wrong", [{"rounds": 0}, {"seconds": -1.0}, {"transport": "udp"}, {"pin": 10_000}, {"rows": 0}, {"kills": 0}]
)
def test_a_setting_that_cannot_be_is_refused_by_name(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        BenchSettings(**wrong)  # type: ignore[arg-type]
