"""The whole review: files, exit codes, wrong arguments, and the real bus."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest

from ether.review.bus import default_processes
from ether.review.job import review
from ether.review.scout.explore import PassName
from ether_broker.envelope.status import Status
from ether_broker.errors import Closed, UsageError
from tests.runtime.review.doubles import FakeBus, failed
from tests.support import REPOSITORY, SOURCE_ROOTS


def done(sources, output, outcomes=None, **options):
    bus = FakeBus(outcomes)
    stream = io.StringIO()
    return review([sources / "alpha", sources / "beta"], output, stream=stream, bus=bus, **options)


def test_both_files_are_written_from_the_same_data(sources, tmp_path):
    finished = done(sources, tmp_path / "new" / "folder")
    assert finished.exit_code == 0
    assert json.loads(finished.json_path.read_text()) == json.loads(json.dumps(finished.report))
    assert finished.markdown_path == tmp_path / "new" / "folder" / "review.md"
    assert sorted(path.name for path in finished.json_path.parent.iterdir()) == ["review.json", "review.md"]


def test_an_earlier_review_is_replaced(sources, tmp_path):
    (tmp_path / "review.md").write_text("old")
    assert done(sources, tmp_path).markdown_path.read_text().startswith("# Code review")


def test_findings_are_no_failure_and_a_failed_task_is(sources, tmp_path):
    assert done(sources, tmp_path).report["summary"]["findings"]["error"] > 0
    assert done(sources, tmp_path, {("alpha", "bugs"): failed("r", Status.TIMEOUT)}).exit_code == 1


def test_a_failed_reduction_is_made_up_for_and_is_a_failure(sources, tmp_path):
    whole = done(sources, tmp_path)
    for scripted in (Closed("gone"), failed("r")):
        finished = done(sources, tmp_path, {"summary": scripted})
        assert finished.exit_code == 1
        assert finished.report["top_findings"] == whole.report["top_findings"]
        assert finished.report["failures"][0]["message"].startswith("The summary was made without an agent: ")


def test_passes_and_processes_can_be_chosen(sources, tmp_path):
    bus = FakeBus()
    finished = review([sources / "alpha"], tmp_path, passes=[PassName.BUGS], processes=3, stream=io.StringIO(), bus=bus)
    assert finished.report["summary"]["processes"] == 3
    assert list(finished.report["directories"][0]["passes"]) == ["bugs"]
    assert default_processes(1) == 1
    assert default_processes(0) == 1


@pytest.mark.parametrize(
    ("directories", "options", "words"),
    [
        (["no/such"], {}, "There is no directory no/such"),
        ([], {}, "No directory was given"),
        (["."], {"timeout": 0}, "give each task some seconds"),
        (["."], {"processes": -1}, "0 runs everything in this process"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_starts(tmp_path, directories, options, words):
    with pytest.raises(UsageError, match=words):
        review(directories, tmp_path, **options)
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_is_a_file_is_refused(sources, tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(UsageError, match="is a file: name a folder"):
        done(sources, tmp_path / "taken")
    with pytest.raises(UsageError, match="cannot be made"):
        done(sources, tmp_path / "taken" / "below")


def test_an_interruption_writes_nothing(sources, tmp_path, monkeypatch):
    def interrupted(processes):
        raise KeyboardInterrupt

    monkeypatch.setattr("ether.review.job.open_bus", interrupted)
    with pytest.raises(KeyboardInterrupt):
        review([sources / "alpha"], tmp_path / "out", stream=io.StringIO(), processes=1)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_review_in_this_process_on_the_real_bus(sources, tmp_path):
    told = io.StringIO()
    finished = review([sources / "alpha", sources / "beta"], tmp_path, processes=0, stream=told)
    assert finished.exit_code == 0
    made = json.loads((tmp_path / "review.json").read_text())
    assert made["summary"]["tasks"] == {"total": 6, "completed": 6, "partial": 0, "failed": 0}
    assert {rule["rule"] for rule in made["rules"]} >= {"is-literal", "unused-import", "self-assignment"}
    assert str(finished).startswith(f"{made['summary']['sentence']} See ")
    assert told.getvalue().count("▶ scout.explore_directory starting...") == 6
    assert told.getvalue().count("✅ scout complete") == 6


@pytest.mark.slow
def test_the_example_reviews_in_several_processes(sources, tmp_path):
    script = REPOSITORY / "examples" / "code_review.py"
    command = [
        sys.executable,
        str(script),
        str(sources / "alpha"),
        str(sources / "beta"),
        "--output",
        str(tmp_path),
        "--processes",
        "2",
    ]
    environment = {"PYTHONPATH": ":".join(map(str, SOURCE_ROOTS)), "PATH": "/usr/bin:/bin"}
    finished = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=100, check=False)
    assert finished.returncode == 0, finished.stderr
    made = json.loads((tmp_path / "review.json").read_text())
    assert made["summary"]["processes"] == 2
    agents = {one["agent"] for directory in made["directories"] for one in directory["passes"].values()}
    assert len(agents) == 2
    assert "✅ scout complete" in finished.stderr
