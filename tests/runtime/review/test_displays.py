"""How a running review is shown."""

from __future__ import annotations

import io

import pytest

from ether.review.outcome import Outcome
from ether.review.plan import ReviewTask, Target
from ether.review.progress_bars import BarDisplay
from ether.review.progress_lines import PlainDisplay, short
from ether.review.scout.explore import PassName
from ether.text_io.terminal import is_drawn
from ether_broker.envelope.status import Status

ID = "0190e2f0-1111-7022-8333-444444abcdef"


@pytest.fixture
def task(tmp_path):
    return ReviewTask(Target(tmp_path, "rich[1]"), PassName.BUGS)


def outcome(task, status=Status.COMPLETED, **more):
    data = {"passes": {}} if status in {Status.COMPLETED, Status.PARTIAL} else {}
    return Outcome(task, status, request_id=ID, seconds=3.5, cost=0.0012, data=data, **more)


def test_plain_lines_have_the_form_of_the_spec(task):
    stream = io.StringIO()
    with PlainDisplay(stream) as display:
        display.started(task, ID)
        for fraction in (0.1, 0.26, 0.3, 0.5, 1.0):
            display.progressed(task, ID, fraction, "a.py")
        display.finished(outcome(task))
        display.finished(outcome(task, Status.TIMEOUT, message="Too late."))
        display.finished(outcome(task, Status.PARTIAL, unresolved=("Half.",)))
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
    ]


def test_short_ids_tell_tasks_of_one_run_apart():
    one, other = "0190e2f0-1111-7022-8333-444444abcdef", "0190e2f0-1111-7022-8337-844444abcdef"
    assert short(one) != short(other)
    assert len(short(one)) == 8
    assert short("") == "--------"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_bars_need_a_terminal_that_can_draw(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    assert is_drawn(Terminal())
    assert not is_drawn(io.StringIO())
    for dumb in ("dumb", ""):
        monkeypatch.setenv("TERM", dumb)
        assert not is_drawn(Terminal())


def test_bars_show_each_task_and_leave_a_line(task, monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = Terminal()
    with BarDisplay(stream, total=2) as display:
        display.started(task, ID)
        display.started(task, ID)
        display.progressed(task, ID, 0.5, "a/very/long/path/to/some/module/in/the/tree.py")
        display.finished(outcome(task))
        display.finished(outcome(ReviewTask(task.target, PassName.STRUCTURE), Status.TIMEOUT, message="Too [late]."))
    text = stream.getvalue()
    assert "rich[1] · bugs" in text
    assert "TIMEOUT" in text
    assert "Too [late]." in text
    assert "2 of 2" in text


def test_no_color_takes_the_colours_away(task, monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    with BarDisplay(stream, total=1) as display:
        display.finished(outcome(task, Status.TIMEOUT))
    assert "\x1b[31m" not in stream.getvalue()
    assert "\x1b[32m" not in stream.getvalue()
