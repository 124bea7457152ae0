"""How a running review is shown."""

from __future__ import annotations

import io

import pytest

from ether.review.outcome import Outcome
from ether.review.plan import ReviewTarget, ReviewTask
from ether.review.progress import Progress, short
from ether.review.scout.explore import PassName
from ether_broker.envelope.status import Status

ID = "0190e2f0-1111-7022-8333-444444abcdef"


@pytest.fixture
def task(tmp_path):
    return ReviewTask(ReviewTarget(tmp_path, "rich[1]"), PassName.BUGS)


def outcome(task, status=Status.COMPLETED, cost=0.0012, **more):
    data = {"passes": {}} if status in {Status.COMPLETED, Status.PARTIAL} else {}
    return Outcome(task, status, request_id=ID, seconds=3.5, cost=cost, data=data, **more)


def test_the_lines_name_task_progress_cost_and_time(task):
    stream = io.StringIO()
    progress = Progress(stream)
    progress.started(task, ID)
    for fraction in (0.1, 0.26, 0.3, 0.5, 1.0):
        progress.progressed(task, ID, fraction, "a.py")
    progress.finished(outcome(task))
    progress.finished(outcome(task, Status.TIMEOUT, message="Too late."))
    progress.finished(outcome(task, Status.PARTIAL, unresolved=("Half.",)))
    progress.finished(outcome(task, cost=0.0))
    tag = f"[{short(ID)}]"
    assert stream.getvalue().splitlines() == [
        f"{tag} ▶ scout.explore_directory starting... (rich[1] · bugs)",
        f"{tag} █████                26% a.py",
        f"{tag} ██████████           50% a.py",
        f"{tag} {'█' * 20} 100% a.py",
        f"{tag} ✅ scout complete (rich[1] · bugs, Cost: $0.0012, Time: 3500ms)",
        f"{tag} ❌ scout TIMEOUT (rich[1] · bugs, Cost: $0.0012, Time: 3500ms)",
        "  └─ Error: Too late.",
        f"{tag} ⚠️ scout PARTIAL (rich[1] · bugs, Cost: $0.0012, Time: 3500ms)",
        "  └─ Left out: Half.",
        f"{tag} ✅ scout complete (rich[1] · bugs, Time: 3500ms)",
    ]


def test_short_ids_tell_tasks_of_one_run_apart():
    one, other = "0190e2f0-1111-7022-8333-444444abcdef", "0190e2f0-1111-7022-8337-844444abcdef"
    assert short(one) != short(other)
    assert len(short(one)) == 8
    assert short("") == "--------"
