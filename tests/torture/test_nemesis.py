"""The nemesis does what the plan says to real processes, and says what it did."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ether.lab.torture.fault_plan import Action, Strike
from ether.lab.torture.history.log import Line, LogWriter, read_log
from ether.lab.torture.history.outage import read_outages
from ether.lab.torture.nemesis import Nemesis
from ether.lab.torture.settings import Victim
from ether.process.process_supervisor import ProcessStatistics
from ether_actors.restarts.tree import Lifecycle
from tests.support import wait_until


class Sleepers:
    """A stage on which everybody sleeps."""

    def __init__(self, *names: str) -> None:
        self.processes = {name: subprocess.Popen(["sleep", "60"]) for name in names}

    def signal(self, name: str, number: int) -> int | None:
        process = self.processes[name]
        if process.poll() is not None:
            return None
        process.send_signal(number)
        return process.pid

    def statistics(self) -> list[ProcessStatistics]:
        return [
            ProcessStatistics(name, process.pid, Lifecycle.RUNNING, 0)
            for name, process in self.processes.items()
            if process.poll() is None
        ]

    def state(self, name: str) -> str:
        stat = Path(f"/proc/{self.processes[name].pid}/stat").read_text()
        return stat.rpartition(") ")[2][0]

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()


@pytest.fixture
def stage() -> Iterator[Sleepers]:
    with contextlib.closing(Sleepers("broker", "node-1")) as sleepers:
        yield sleepers


def perform(stage: Sleepers, folder: Path, *plan: Strike) -> list[Line]:
    """Execute a plan, and give the nemesis' log."""
    path = folder / "nemesis.jsonl"
    with contextlib.closing(LogWriter(path)) as log, Nemesis(stage, plan, time.monotonic(), log) as nemesis:
        assert nemesis.done.wait(20)
    return read_log(path)


def test_a_paused_process_stands_still_and_goes_on(stage: Sleepers, tmp_path: Path) -> None:
    plan = [Strike(1, 0.1, Action.PAUSE, Victim.NODE, ("node-1",), 0.5)]
    with (
        contextlib.closing(LogWriter(tmp_path / "n.jsonl")) as log,
        Nemesis(stage, plan, time.monotonic(), log) as nemesis,
    ):
        wait_until(lambda: stage.state("node-1") == "T", what="node-1 stands still")
        assert nemesis.done.wait(20)
    wait_until(lambda: stage.state("node-1") == "S", what="node-1 goes on")

    outage = read_outages(read_log(tmp_path / "n.jsonl")).all[0]
    assert (outage.name, outage.action, outage.pid) == ("node-1", Action.PAUSE, stage.processes["node-1"].pid)
    assert 0.5 <= outage.end - outage.begin < 10


def test_a_killed_process_is_down_from_then_on(stage: Sleepers, tmp_path: Path) -> None:
    lines = perform(stage, tmp_path, Strike(1, 0.1, Action.KILL, Victim.CLUSTER, ("broker", "node-1")))

    assert [process.wait(5) for process in stage.processes.values()] == [-signal.SIGKILL, -signal.SIGKILL]
    assert [line["name"] for line in lines if line["event"] == "strike"] == ["broker", "node-1"]


def test_an_orderly_restart_is_asked_for_with_sigterm(stage: Sleepers, tmp_path: Path) -> None:
    perform(stage, tmp_path, Strike(1, 0.1, Action.RESTART, Victim.BROKER, ("broker",)))

    assert stage.processes["broker"].wait(5) == -signal.SIGTERM
    assert stage.processes["node-1"].poll() is None


def test_who_is_down_is_struck_when_it_is_up_again(stage: Sleepers, tmp_path: Path) -> None:
    stage.processes["broker"].kill()
    stage.processes["broker"].wait()
    plan = [Strike(1, 0.0, Action.KILL, Victim.BROKER, ("broker",))]

    with (
        contextlib.closing(LogWriter(tmp_path / "n.jsonl")) as log,
        Nemesis(stage, plan, time.monotonic(), log) as nemesis,
    ):
        stage.processes["broker"] = subprocess.Popen(["sleep", "60"])
        assert nemesis.done.wait(20)

    assert stage.processes["broker"].wait(5) == -signal.SIGKILL
    assert read_outages(read_log(tmp_path / "n.jsonl")).missed == 0


def test_who_does_not_come_back_is_missed(stage: Sleepers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ether.lab.torture.nemesis._TRIES", 2)
    stage.processes["broker"].kill()
    stage.processes["broker"].wait()

    lines = perform(stage, tmp_path, Strike(1, 0.0, Action.KILL, Victim.BROKER, ("broker",)))

    assert [line["event"] for line in lines] == ["up", "missed"]


def test_nobody_stays_paused_when_the_nemesis_is_called_off(stage: Sleepers, tmp_path: Path) -> None:
    plan = [Strike(1, 0.0, Action.PAUSE, Victim.NODE, ("node-1",), 60.0)]
    with contextlib.closing(LogWriter(tmp_path / "n.jsonl")) as log:
        with Nemesis(stage, plan, time.monotonic(), log):
            wait_until(lambda: stage.state("node-1") == "T", what="node-1 stands still")

        wait_until(lambda: stage.state("node-1") == "S", what="node-1 goes on")


def test_the_time_of_several_outages_counts_once(tmp_path: Path) -> None:
    lines: list[Line] = []
    for pid, name, begin in ((1, "broker", 10.0), (2, "node-1", 11.0)):
        known = {"number": 1, "action": "kill", "victim": "cluster", "name": name, "pid": pid, "begin": begin}
        lines.append({"event": "strike", "at": begin, "seconds": 0.0, **known})
    lines.append({"event": "up", "at": 12.0, "name": "broker", "pid": 3})
    lines.append({"event": "stall", "at": 12.5, "seconds": 1.0})
    outages = read_outages(lines)

    assert outages.stopped(0.0, 20.0, "broker") == 2.5
    assert outages.stopped(11.0, 12.0, "broker") == 1.0
    assert outages.stopped(0.0, 20.0, "broker", "node") == 10.0
    assert outages.stopped(0.0, 5.0, "broker") == 0.0
    assert outages.of("node") == [outages.all[1]]


def test_the_end_of_a_process_that_was_paused_and_not_ended_is_a_crash() -> None:
    strike = {"number": 1, "action": "pause", "victim": "broker", "name": "broker", "pid": os.getpid(), "begin": 1.0}
    lines: list[Line] = [
        {"event": "strike", "at": 1.0, "seconds": 0.5, **strike},
        {"event": "down", "at": 1.2, "name": "broker", "pid": os.getpid()},
    ]

    assert [crash.name for crash in read_outages(lines).crashes] == ["broker"]
