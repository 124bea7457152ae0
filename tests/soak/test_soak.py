"""A short soak of real processes: too short for its slopes to mean something, and whole otherwise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ether.lab.soak.render import render
from ether.lab.soak.run import run
from ether.lab.soak.settings import Settings
from ether_broker.errors import UsageError
from tests.support import process_is_alive


@pytest.mark.slow
def test_a_short_soak_completes_everything_though_a_node_stops_and_an_observer_stands_still(tmp_path: Path) -> None:
    told: list[str] = []
    report = run(Settings(seconds=20.0, rate=200.0, folder=tmp_path, tell=told.append))

    assert report.statuses == {"COMPLETED": report.sent}
    assert report.sent >= 0.9 * 20 * 200
    assert {size.process for size in report.sizes} == {
        "broker", "node-1", "node-2", "delegator", "observer", "laggard"
    }  # fmt: skip
    assert report.stops >= 2  # fewer than four where the machine is slow
    assert report.stalled > 1
    assert {seen["missed"] for seen in report.observed.values()} == {0}
    assert len({seen["position"] for seen in report.observed.values()}) == 1
    assert all(size.descriptors.slope * size.descriptors.span < 1 for size in report.sizes)
    assert report.latencies
    assert 1000 < report.stored / report.sent < 10_000
    assert json.loads(json.dumps(report.plain()))["sent"] == report.sent
    assert f"node stopped {report.stops} times" in render(report)
    assert (tmp_path / "journal.db").exists()
    pids = [int(line.rpartition("pid ")[2].rstrip(")")) for line in told if "is up (pid" in line]
    assert len(pids) == 3
    assert not [pid for pid in pids if process_is_alive(pid)]


@pytest.mark.parametrize(
    "wrong", [{"seconds": 1.0}, {"load": 0.0}, {"load": 1.1}, {"rate": 0.0}, {"transport": "udp"}, {"seconds": float("nan")}]
)  # fmt: skip
def test_a_setting_that_cannot_be_is_refused_by_name(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        Settings(**wrong)  # type: ignore[arg-type]
