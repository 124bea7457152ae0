"""The report: review.md and review.json tell the same."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ether.review import markdown_report as markdown
from ether.review import report
from ether.review.driver import reduce_outcomes, run_tasks
from ether.review.outcome import Outcome
from ether.review.plan import ReviewTarget, ReviewTask, plan, targets
from ether.review.scout.explore import PassName, explore
from ether.review.scout.findings.finding import Confidence, Finding, Severity
from ether.review.scout.findings.rule import RULES
from ether.review.scout.findings.truncation import bounded_findings
from ether.review.scout.summary import Group, summarise
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import Status
from tests.runtime.review.doubles import FakeBus, RecordingProgress, failed

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def report_of(sources, outcomes=None, **options):
    bus = FakeBus(outcomes)
    reviewed = targets([sources / "alpha", sources / "beta"])
    done = run_tasks(bus, plan(reviewed), RecordingProgress(), timeout=7, window=2)
    reduction, problem = reduce_outcomes(bus, done)
    assert problem == ""
    return report.build(done, reviewed, reduction, generated=NOW, wall_seconds=1.5, processes=2, **options)


def numbers(text):
    return {int(found.replace(",", "")) for found in re.findall(r"(?<![\d.])\d[\d,]*(?![\d.])", text)}


def numbers_in(value):
    if isinstance(value, dict):
        return {number for item in value.values() for number in numbers_in(item)}
    if isinstance(value, list):
        return {len(value)} | {number for item in value for number in numbers_in(item)}
    if isinstance(value, str):
        return numbers(value)
    return {int(value)} if isinstance(value, (int, float)) else set()


def test_every_finding_of_the_json_stands_in_the_markdown(sources):
    made = report_of(sources)
    text = markdown.render(made)
    rules = {rule["rule"]: rule["why"] for rule in made["rules"]}
    told = 0
    for directory in made["directories"]:
        start = text.index(f"## {directory['name']}\n")
        for name, one in directory["passes"].items():
            section = text[text.index(f"### {name.capitalize()}\n", start) :]
            for finding in one["findings"]:
                what = finding["message"].removesuffix(f": {rules[finding['rule']]}")
                (line,) = [
                    line for line in section.split("\n### ")[0].split("\n")
                    if line.startswith(f"- `{finding['path']}:{finding['line']}`") and plain(what) in plain(line)
                ]  # fmt: skip
                assert line
                told += 1
    assert told == made["summary"]["findings"]["total"] > 3


def plain(text):
    return re.sub(r"[\\`'\"]", "", text)


def test_every_place_and_number_of_the_markdown_comes_from_the_json(sources):
    made = report_of(sources, {("beta", "bugs"): failed("r")})
    text = markdown.render(made)
    whole = json.dumps(made)
    for place in re.findall(r"`([^`\s]+\.(?:py|md)):(\d+)`", text):
        assert place[0].rpartition("/")[2] in whole
        assert int(place[1]) in numbers_in(made)
    ordinals = set(range(len(made["rules"]) + 1))
    prose = re.sub(r"1,000 lines", "", text)
    differences = {one["count"] - len(one["places"]) for one in made["rules"]}
    assert numbers(prose) <= numbers_in(made) | ordinals | differences


def test_the_summary_table_holds_the_figures_of_the_json(sources):
    made = report_of(sources, {("beta", "bugs"): failed("r")})
    rows = dict(re.findall(r"^\| ([A-Z][\w ]+) \| ([^|]+) \|$", markdown.render(made), re.MULTILINE))
    summary = made["summary"]
    assert rows["Directories"] == "2"
    assert rows["Total tasks"] == str(summary["tasks"]["total"]) == "6"
    assert (rows["Completed"], rows["Failed"]) == ("5", "1")
    assert rows["Findings"] == str(summary["findings"]["total"])
    assert rows["Errors"] == str(summary["findings"]["error"])
    assert rows["Time"] == "1.5 s"
    assert rows["Total cost"] == "$0.0050"
    assert summary["work_seconds"] == pytest.approx(5 * 0.25 + 0.5)
    assert rows["Processes"] == "2"


def test_a_failure_is_named_with_status_and_error(sources):
    made = report_of(sources, {("beta", "bugs"): failed("r", Status.TIMEOUT, "deadline")})
    (failure,) = made["failures"]
    assert failure == {
        "directory": "beta", "pass": "bugs", "status": "TIMEOUT", "code": "deadline",
        "message": "It | broke <badly>.", "request_id": "r",
    }  # fmt: skip
    text = markdown.render(made)
    assert r"| beta | bugs | TIMEOUT | deadline: It \| broke \<badly\>. |" in text
    assert "**TIMEOUT by `scout` in 0.5 s** It | broke \\<badly\\>." in text


def test_a_partial_task_is_named_and_its_findings_are_told(sources):
    def partial(request_id, result):
        return Response(request_id=request_id, status=Status.PARTIAL, data=result, unresolved=("Stopped early.",))

    made = report_of(sources, {("alpha", "bugs"): partial})
    assert made["summary"]["tasks"] == {"total": 6, "completed": 5, "partial": 1, "failed": 0}
    assert made["failures"][0]["message"] == "Stopped early."
    assert "| alpha | bugs | PARTIAL | cut short: Stopped early. |" in markdown.render(made)
    assert made["directories"][0]["passes"]["bugs"]["findings"]


def test_a_summary_made_without_an_agent_is_a_failure(sources):
    made = report_of(sources, reduction_problem="The summary was made without an agent: gone")
    assert made["failures"][0]["pass"] == "summary"


def test_notes_over_the_bound_are_counted(sources):
    for number in range(8):
        (sources / "alpha" / f"bad{number}.txt").write_bytes(b"\xff")
    limits = report_of(sources)["limits"]
    assert sum("Latin-1" in limit for limit in limits) == 5
    assert "alpha: 3 further notes in the JSON or past its bounds." in limits


def test_import_cycles_are_shown_step_by_step(sources):
    (sources / "beta" / "one.py").write_text("import two\n")
    (sources / "beta" / "two.py").write_text("import one\n")
    assert "- `one (one.py:1)` → `two (two.py:1)`" in markdown.render(report_of(sources))


def test_limits_name_what_was_left_out(sources):
    (sources / "alpha" / "bad.txt").write_bytes(b"\xff")
    (sources / "alpha" / "logo.png").write_bytes(b"\0")
    limits = report_of(sources)["limits"]
    assert limits == ["alpha: bad.txt: not UTF-8; read as Latin-1.", "alpha: 1 left out (binary)."]


def test_omitted_findings_are_limits(sources):
    def clipped(request_id, result):
        told = result["passes"]["bugs"]
        told["findings_omitted"], told["findings"] = len(told["findings"]), []
        return Response(request_id=request_id, status=Status.COMPLETED, data=result)

    made = report_of(sources, {("beta", "bugs"): clipped})
    assert made["limits"][0] == "beta, bugs: 2 findings of the least grave are counted and not shown."
    assert made["limits"][-1].startswith("The ranking rests on ")
    assert made["summary"]["findings"]["total"] == made["top_findings"].__len__() + 2


def test_markdown_tables_are_well_formed_whatever_the_cells_hold(sources):
    made = report_of(sources)
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown.render(made))
    widths: list[set[int]] = []
    cells = 0
    for token in tokens:
        if token.type == "table_open":
            widths.append(set())
        if token.type == "tr_open":
            cells = 0
        if token.type in {"td_open", "th_open"}:
            cells += 1
        if token.type == "tr_close":
            widths[-1].add(cells)
    assert len(widths) > 5
    assert all(len(width) == 1 for width in widths)
    assert not any(token.type in {"html_block", "html_inline"} for token in tokens)


FINDINGS = st.builds(
    Finding,
    rule=st.sampled_from(sorted(RULES)),
    severity=st.sampled_from(Severity),
    confidence=st.sampled_from(Confidence),
    path=st.text(min_size=1, max_size=12),
    line=st.integers(1, 10**6),
    column=st.just(1),
    message=st.text(max_size=60),
    fix=st.text(max_size=30),
)


@given(st.lists(FINDINGS, max_size=12))
@settings(max_examples=60, deadline=None)
def test_any_findings_make_both_files_and_the_same_number_in_each(tmp_path_factory, findings):
    empty = tmp_path_factory.getbasetemp() / "empty"
    empty.mkdir(exist_ok=True)
    target = ReviewTarget(empty, "any")
    result = explore(empty, [PassName.BUGS])
    told = bounded_findings(findings, 100)
    result["passes"]["bugs"].update(told)
    outcome = Outcome(ReviewTask(target, PassName.BUGS), Status.COMPLETED, data=result)
    reduction = summarise([Group("any", tuple(findings), told["counts"], told["by_rule"])])
    made = json.loads(json.dumps(report.build([outcome], [target], reduction, generated=NOW)))
    text = markdown.render(made)
    section = text[text.index("### Bugs\n") :].split("\n## ")[0]
    assert len(re.findall(r"^- `", section, re.MULTILINE)) == len(findings)
    assert "\n<" not in text


@pytest.mark.parametrize("said", [1e308, float("inf"), float("nan"), -1e308])
def test_what_no_task_can_have_taken_or_cost_is_not_believed(tmp_path, said):
    elapsed = said if said > 0 else None
    response = Response(request_id="r", status=Status.COMPLETED, elapsed=elapsed, metrics={"cost": said})

    outcome = Outcome.of(ReviewTask(ReviewTarget(tmp_path, "any"), PassName.BUGS), response)

    assert 0 <= outcome.seconds <= 1e9
    assert 0 <= outcome.cost <= 1e9
