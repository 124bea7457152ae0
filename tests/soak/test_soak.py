"""A short soak of real processes: too short for its slopes to mean something, and whole otherwise."""

from __future__ import annotations

import itertools
import json
import signal
from pathlib import Path

import pytest

from ether.lab.render import render
from ether.lab.soak.run import run
from ether.lab.soak.settings import SoakSettings
from ether_broker.errors import UsageError
from tests.cli.command import Command
from tests.support import process_is_alive

EXACT = (
    "delegations not completed", "messages missed", "messages that one observer is behind another", "descriptors more",
)  # fmt: skip
"""What has to be right however short the soak is."""


@pytest.mark.slow
def test_a_short_soak_completes_everything_though_a_node_stops_and_an_observer_stands_still(tmp_path: Path) -> None:
    told: list[str] = []
    report = run(SoakSettings(seconds=20.0, rate=200.0, keep=tmp_path, tell=told.append))

    figures = {(figure.case, figure.name): figure for figure in report.figures}
    (outcome,) = report.tables["outcomes"]
    assert outcome == {"outcome": "COMPLETED", "delegations": figures["soak", "delegations"].value}
    assert outcome["delegations"] >= 0.9 * 20 * 200
    assert {row["process"] for row in report.tables["processes"]} == {
        "broker", "node-1", "node-2", "delegator", "observer", "laggard"
    }  # fmt: skip
    assert figures["soak", "stops of a node"].value >= 2  # fewer than four where the machine is slow
    assert figures["soak", "an observer stood still"].value > 1
    assert all(figure.is_met for figure in report.figures if figure.name in EXACT)
    assert report.tables["windows"]
    assert 1000 < figures["soak", "journal a delegation"].value < 10_000
    assert json.loads(json.dumps(report.plain()))["outcomes"] == [outcome]
    assert "stops of a node" in render(report)
    assert (tmp_path / "journal.db").exists()
    pids = [int(line.rpartition("pid ")[2].rstrip(")")) for line in told if "is up (pid" in line]
    assert len(pids) == 3
    assert not [pid for pid in pids if process_is_alive(pid)]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_soak_that_is_ended_leaves_no_process_and_says_nothing_of_its_own_end(
    tmp_path: Path, number: int, code: int
) -> None:
    with Command(tmp_path, None).started("soak", "--seconds", "6", "--rate", "100") as process:
        assert process.stderr is not None
        said = list(itertools.takewhile(lambda line: not line.startswith("    3 s"), process.stderr))
        process.send_signal(number)  # a node is stopped most of this third
        out, rest = process.communicate(timeout=60)

    assert (process.returncode, out) == (code, "")
    assert "Traceback" not in rest
    pids = [int(line.rpartition("pid ")[2].rstrip(")\n")) for line in said if "is up (pid" in line]
    assert len(pids) == 3
    assert not [pid for pid in pids if process_is_alive(pid)]


@pytest.mark.parametrize(
    "wrong", [{"seconds": 1.0}, {"load": 0.0}, {"load": 1.1}, {"rate": 0.0}, {"transport": "udp"}, {"seconds": float("nan")}]
)  # fmt: skip
def test_a_setting_that_cannot_be_is_refused_by_name(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        SoakSettings(**wrong)  # type: ignore[arg-type]
