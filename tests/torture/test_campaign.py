"""Small campaigns on real processes; docs/reliability.md has the large ones."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from ether.lab.harness.leak_check import MARK
from ether.lab.render import render
from ether.lab.torture.campaign import reread, run
from ether.lab.torture.settings import Durability, TortureSettings
from ether_broker.errors import UsageError
from tests.cli.command import Command
from tests.support import has_environment, processes_with, wait_until


@pytest.mark.slow
@pytest.mark.alone  # a delegator whose first word of the broker comes late believes its clock to be early
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("durability", "transport", "seconds"),
    [("journal", "ipc", 12.0), ("journal", "tcp", 8.0), ("memory", "ipc", 8.0)],
)
def test_a_bus_under_torture_keeps_its_promises(
    durability: Durability, transport: str, seconds: float, tmp_path: Path
) -> None:
    count = int(50 * seconds)
    kills = int(0.7 * seconds)
    settings = TortureSettings(
        delegations=count, seconds=seconds, kills=kills, seed=20_261_122, durability=durability, transport=transport,
        keep=tmp_path / "kept",
    )  # fmt: skip

    report = run(settings)

    assert report.ok, render(report)
    figures = {figure.name: figure.value for figure in report.figures}
    assert figures["delegations"] == count
    assert sum(row["count"] for row in report.tables["outcomes"]) == count
    assert figures["runs"] > count / 2
    assert sum(row["count"] for row in report.tables["strikes"]) >= 5
    assert figures["messages observed"] > count


@pytest.mark.slow
@pytest.mark.alone  # as above
@pytest.mark.timeout(120)
def test_logs_that_are_kept_can_be_checked_again_and_a_forged_one_is_found(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    settings = TortureSettings(delegations=60, seconds=2.0, kills=0, nodes=1, delegators=1, seed=1, keep=kept)
    assert run(settings).ok
    assert reread(kept).ok

    logs = list((kept / "runs").iterdir())
    begun = [line for log in logs for line in log.read_text().splitlines() if '"start"' in line and "once" in line]
    with logs[0].open("a") as file:
        file.write(begun[0] + "\n")

    assert {violation.rule for violation in reread(kept).violations} == {"twice"}
    with pytest.raises(UsageError, match="not empty"):
        run(settings)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_nothing_outlives_a_campaign_that_is_killed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    words = ("torture", "--delegations", "5000", "--victims", "node", "--keep", str(kept))
    with Command(tmp_path, None).started(*words) as process:
        wait_until(lambda: (kept / "history").exists() and len(list((kept / "history").iterdir())) == 2, 60)
        marks = {mark for entry in Path("/proc").glob("[0-9]*") if (mark := _mark_of(int(entry.name)))}
        assert len(marks) == 1
        process.send_signal(signal.SIGKILL)
        process.wait()

        (mark,) = marks
        wait_until(lambda: not list(processes_with(MARK, mark)), 20, "all processes of the campaign have ended")


def _mark_of(pid: int) -> str | None:
    """The mark of a campaign of this very test."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    marks = [
        variable.partition(b"=")[2].decode() for variable in variables if variable.startswith(MARK.encode() + b"=")
    ]
    is_ours = has_environment(pid, "LEAK_CENSUS_RUN", os.environ["LEAK_CENSUS_RUN"])
    return marks[0] if marks and is_ours else None


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_an_interrupted_campaign_leaves_nothing(tmp_path: Path) -> None:
    with Command(tmp_path, None).started("torture", "--delegations", "5000", "-o", "json") as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "strikes" in line:
                break
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)

    assert process.returncode == 130
    assert out == ""


def test_a_report_is_plain_data(tmp_path: Path) -> None:
    from tests.torture.story import Story

    story = Story(tmp_path)
    story.done()
    story.end()
    story.write()

    report = reread(tmp_path)

    plain = json.loads(json.dumps(report.plain(), default=str))
    assert plain["ok"] is True
    assert plain["outcomes"] == [{"outcome": "ok COMPLETED", "count": 1}]
    assert "no promise was broken" in render(report)
