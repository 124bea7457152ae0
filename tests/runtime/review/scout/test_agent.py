"""Scout on a bus: its five capabilities, what they refuse, and what they answer when time runs out."""

from __future__ import annotations

import json

import pytest

from ether.review.scout.agent import Scout
from ether.review.scout.explore import PassName
from ether.review.scout.params import Exploration
from ether.testing import TestRuntime
from ether_actors.task.task import Task
from ether_broker.envelope.delegation import Delegation
from ether_broker.envelope.status import AgentStatus, Status
from ether_broker.envelope.views.agent_io import AgentInput
from tests.runtime.review.scout.support import write_tree


@pytest.fixture
def bus():
    with TestRuntime() as runtime:
        runtime.start(Scout)
        yield runtime


@pytest.fixture
def root(tmp_path):
    return write_tree(tmp_path, {"a.py": "def f(x):\n    return x is 'a'\n", "sub/b.py": "import os\n\nclass A: ...\n"})


def ask(bus, action, **params):
    return bus.delegate(f"scout.{action}", params, timeout=60).result()


def test_scout_has_the_five_actions_of_the_spec():
    assert Scout().capabilities == [
        "scout.analyze_file",
        "scout.explore_directory",
        "scout.extract_structure",
        "scout.search_content",
        "scout.summarize_findings",
    ]
    assert Scout().can_handle("explore_directory")
    assert all(one.idempotent for one in Scout.manifest().capabilities)


def test_explore_directory_runs_all_passes_or_those_asked_for(bus, root):
    response = ask(bus, "explore_directory", path=str(root)).unwrap()
    data = response.data_payload.thawed()
    assert set(data["passes"]) == {"structure", "bugs", "documentation"}
    assert (data["files_found"], data["structure"]) == (2, {".": 1, "sub": 1})
    assert response.summary == data["insights"][0]
    data = ask(bus, "explore_directory", path=str(root), passes=["bugs"], depth=0, max_findings=1).unwrap().data
    assert set(data["passes"]) == {"bugs"}
    assert data["files_found"] == 1


def test_explore_directory_tells_its_progress(bus, root):
    handle = bus.delegate("scout.explore_directory", {"path": str(root)}, timeout=60)
    told = [response.progress for response in handle.stream() if response.status is Status.PROGRESS]
    assert told[-1] == 1.0


def test_analyze_file_and_extract_structure(bus, root):
    analysis = ask(bus, "analyze_file", path=str(root / "a.py")).unwrap()
    assert analysis.data["by_rule"] == {"is-literal": 1}
    assert analysis.summary == "1 finding in a.py."
    structure = ask(bus, "extract_structure", path=str(root / "sub" / "b.py")).unwrap()
    assert [symbol["name"] for symbol in structure.data["symbols"]] == ["A"]


def test_search_content(bus, root):
    response = ask(bus, "search_content", path=str(root), pattern="import", include=["*.py"]).unwrap()
    assert [(hit["path"], hit["line"]) for hit in response.data["matches"]] == [("sub/b.py", 1)]


def test_summarize_findings_takes_groups_or_a_plain_list(bus, root):
    findings = ask(bus, "analyze_file", path=str(root / "a.py")).data_payload.thawed()["findings"]
    one = ask(bus, "summarize_findings", findings=findings).unwrap()
    assert (one.data["total_findings"], one.summary) == (1, "1 finding: 1 error, 0 warnings, 0 infos.")
    two = ask(
        bus, "summarize_findings", groups=[{"source": "a", "findings": findings, "counts": {"error": 3}}]
    ).unwrap()
    assert two.data["total_findings"] == 3
    assert two.data["top_findings"][0]["source"] == "a"


@pytest.mark.parametrize(
    ("action", "params", "field"),
    [
        ("explore_directory", {}, "path"),
        ("explore_directory", {"path": "/no/such/folder"}, "path"),
        ("explore_directory", {"path": "/", "passes": ["style"]}, "passes.0"),
        ("explore_directory", {"path": "/", "deep": 1}, "deep"),
        ("analyze_file", {"path": "/no/such/file"}, "path"),
        ("analyze_file", {"file": "/no/such/file"}, "file"),
        ("extract_structure", {"path": "/"}, "path"),
        ("extract_structure", {"file": "/"}, "file"),
        ("search_content", {"path": "/no/such/folder", "pattern": "x"}, "path"),
        ("search_content", {"path": "/", "pattern": "(", "regex": True}, "pattern"),
        ("summarize_findings", {"findings": [{"rule": "x", "line": "many"}]}, "findings.0.line"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_field(bus, action, params, field):
    response = ask(bus, action, **params)
    assert response.status is Status.REJECTED_CONTEXT
    assert field in response.required_fields + response.unexpected_fields
    assert (field in response.required_fields) == (not params)


class SlowHost:
    """A node whose clock goes on by a second at every look."""

    now = 0.0

    def monotonic(self):
        self.now += 1.0
        return self.now

    def wall(self):
        return 0.0

    def progress(self, task, response): ...


def test_an_exploration_near_its_deadline_answers_with_what_it_has(root):
    write_tree(root, {f"m{number}.py": "raise 'x'\n" for number in range(90)})
    delegation = Delegation.parse({"request_id": "r", "capability": "scout.explore_directory"})
    task = Task(delegation, "scout", SlowHost(), 60.0)
    response = Scout().explore_directory(Exploration(path=str(root), passes=[PassName.BUGS]), task)
    assert response.status is Status.PARTIAL
    assert response.unresolved[0].startswith("Stopped early, after ")
    assert 0 < response.data["passes"]["bugs"]["counts"]["error"] < 90
    assert task.remaining > 0


def test_scout_works_off_the_bus_as_the_spec_says(root):
    task = AgentInput(task_id="t", agent="scout", action="explore_directory", params={"path": str(root)})
    output = Scout().execute(task)
    assert output.status is AgentStatus.SUCCESS
    assert output.data["files_found"] == 2
    wrong = Scout().execute(AgentInput(task_id="t", agent="scout", action="fly", params={}))
    assert wrong.status is AgentStatus.ERROR


def test_answers_are_plain_json_and_fit_into_an_envelope(bus, root):
    write_tree(root, {f"deep/m{n}.py": "def f(x):\n    return x is 'a'\n" * 300 for n in range(20)})
    response = ask(bus, "explore_directory", path=str(root), max_findings=2_000).unwrap()
    assert len(json.dumps(response.data_payload.thawed())) < 1_000_000
    assert response.data["passes"]["bugs"]["findings_omitted"] > 0
