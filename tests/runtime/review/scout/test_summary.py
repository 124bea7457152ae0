"""Findings, their bounds, and their summary."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from ether.review.scout.explore import examine, explore
from ether.review.scout.files.limits import AnalysisLimits
from ether.review.scout.files.words import plural
from ether.review.scout.findings.finding import Confidence, Finding, Severity
from ether.review.scout.findings.rule import RULES
from ether.review.scout.findings.truncation import bounded_findings, fit, size_of
from ether.review.scout.summary import Group, summarise
from tests.runtime.review.scout.support import write_tree


def finding(rule="is-literal", severity=Severity.ERROR, path="a.py", line=1, **more):
    fields = {"confidence": Confidence.HIGH, "column": 1, "message": "`x`: why", "fix": "mend", **more}
    return Finding(rule=rule, severity=severity, path=path, line=line, **fields)


FINDINGS = st.builds(
    Finding,
    rule=st.sampled_from(sorted(RULES)),
    severity=st.sampled_from(Severity),
    confidence=st.sampled_from(Confidence),
    path=st.text(min_size=1, max_size=10),
    line=st.integers(1, 10**6),
    column=st.integers(1, 1000),
    message=st.text(max_size=50),
    fix=st.text(max_size=20),
    symbol=st.text(max_size=10),
)


@given(FINDINGS)
def test_a_finding_survives_json(one):
    assert TypeAdapter(Finding).validate_json(json.dumps(one.to_json())) == one


@given(st.lists(FINDINGS, max_size=20), st.integers(1, 10))
def test_bounded_findings_count_all_and_keep_the_gravest(findings, limit):
    result = bounded_findings(findings, limit)
    assert sum(result["counts"].values()) == sum(result["by_rule"].values()) == len(findings)
    assert len(result["findings"]) + result["findings_omitted"] == len(findings)
    ranks = [Severity(one["severity"]).rank for one in result["findings"]]
    assert ranks == sorted(ranks)


def test_a_result_is_shortened_to_its_bound_and_says_by_how_much(tmp_path):
    write_tree(tmp_path, {f"m{n}.py": "def f(x):\n    return x is 'a'\n" * 40 for n in range(10)})
    whole = explore(tmp_path)
    for limit in (size_of(whole) - 1, 20_000, 8_000):
        short = explore(tmp_path, limits=AnalysisLimits(result_bytes=limit))
        bugs = short["passes"]["bugs"]
        assert size_of(short) <= limit
        assert bugs["counts"] == whole["passes"]["bugs"]["counts"]
        assert len(bugs["findings"]) + bugs["findings_omitted"] == sum(bugs["counts"].values())


def test_tables_go_last_and_are_named():
    result = {
        "passes": {"bugs": {"findings": [], "findings_omitted": 0, "data": {"x": "y" * 5_000}}},
        "notes": ["n"],
        "notes_omitted": 0,
    }
    short = fit(result, 1_000)
    assert short["passes"]["bugs"]["data"] == {"omitted": "The tables alone are over 1,000 bytes."}
    assert (short["notes"], short["notes_omitted"]) == ([], 1)


@given(st.lists(FINDINGS, max_size=30), st.integers(1, 12))
@settings(max_examples=50)
def test_a_summary_adds_up(findings, top):
    half = len(findings) // 2
    groups = [_group("one", findings[:half]), _group("two", findings[half:])]
    result = summarise(groups, top)
    assert result["total_findings"] == result["findings_seen"] == len(findings)
    assert sum(row["count"] for row in result["by_rule"]) == len(findings)
    assert len(result["top_findings"]) <= top
    ranks = [Severity(one["severity"]).rank for one in result["top_findings"]]
    assert ranks == sorted(ranks)
    assert all(place["source"] in {"one", "two"} for row in result["by_rule"] for place in row["places"])
    json.dumps(result)


def _group(source, findings):
    told = bounded_findings(findings, 1_000)
    return Group(source, tuple(findings), told["counts"], told["by_rule"])


def test_counts_of_what_was_not_passed_on_stay_in_the_summary():
    result = summarise([Group("a", (finding(),), {"error": 5, "info": 2}, {"is-literal": 5, "large-file": 2})])
    assert (result["total_findings"], result["findings_seen"]) == (7, 1)
    assert result["summary"] == "7 findings: 5 errors, 0 warnings, 2 infos."
    assert [(row["rule"], row["severity"], row["count"]) for row in result["by_rule"]] == [
        ("is-literal", "error", 5), ("large-file", "info", 2),
    ]  # fmt: skip
    assert result["by_rule"][0]["places"] == [{"source": "a", "path": "a.py", "line": 1}]


def test_bugs_stand_before_documents_of_the_same_gravity():
    warning = Severity.WARNING
    groups = [_group("a", [finding("stale-parameter", warning), finding("mutable-default", warning, path="z.py")])]
    assert [one["rule"] for one in summarise(groups)["top_findings"]] == ["mutable-default", "stale-parameter"]


def test_a_frequent_rule_hides_no_other():
    many = [finding("unused-import", Severity.INFO, line=line) for line in range(1, 50)]
    result = summarise([_group("a", [*many, finding("large-file", Severity.INFO, path="z.py")])], top=10)
    rules = [one["rule"] for one in result["top_findings"]]
    assert rules.count("unused-import") == 3
    assert "large-file" in rules


def test_the_files_with_the_gravest_findings_are_named_first():
    findings = [finding(severity=Severity.INFO, path="a.py", line=n) for n in range(1, 9)]
    result = summarise([_group("s", [*findings, finding(path="b.py")])])
    assert result["hot_files"][0] == {"source": "s", "path": "b.py", "findings": 1, "errors": 1, "warnings": 0}


def test_nothing_found_is_said_so():
    assert summarise([])["summary"] == "Nothing was found."


def test_every_rule_explains_itself_in_a_sentence_without_a_full_stop():
    for name, rule in RULES.items():
        assert rule.name == name
        assert rule.why
        assert not rule.why.endswith(".")
        assert rule.why[0].islower() or rule.why.startswith(("Python", "NotImplemented", "NaN", "`"))
        assert rule.fix == "" or rule.fix.endswith((".", "..."))


def test_one_file_is_examined_in_all_three_ways(tmp_path):
    write_tree(tmp_path, {"a.py": '''
        def fetch(url):
            """Fetch.

            Args:
                link: where.
            """
            return url is "a"
        '''})  # fmt: skip
    result = examine(tmp_path / "a.py")
    assert set(result["by_rule"]) == {"is-literal", "stale-parameter"}
    assert (result["language"], result["readable"], result["lines"]) == ("Python", True, 7)
    assert [symbol["name"] for symbol in result["symbols"]] == ["fetch"]


def test_a_file_that_cannot_be_examined_says_why(tmp_path):
    write_tree(tmp_path, {"a.py": b"x = '\xff'\n", "big.py": "#" * 100, "b.txt": b"a\0b"})
    result = examine(tmp_path / "a.py")
    assert (result["readable"], result["by_rule"]) == (False, {"syntax-error": 1})
    assert "over the 50 that are read" in examine(tmp_path / "big.py", limits=AnalysisLimits(file_bytes=50))["notes"][0]
    assert examine(tmp_path / "b.txt")["notes"] == ["b.txt: binary."]
    with pytest.raises(FileNotFoundError):
        examine(tmp_path / "none.py")


def test_the_structure_of_a_file_is_its_outline(tmp_path):
    write_tree(tmp_path, {"a.py": "class A:\n    def f(self): ...\n", "b.js": "function g() {\n}\n", "c.py": "def (\n"})
    (symbol,) = examine(tmp_path / "a.py", ())["symbols"]
    assert (symbol["kind"], symbol["children"][0]["name"]) == ("class", "f")
    assert examine(tmp_path / "b.js", ())["notes"] == ["Only Python has an outline, and this is JavaScript."]
    assert examine(tmp_path / "c.py", ())["notes"] == ["Line 1: invalid syntax."]


def test_an_outline_is_bounded_and_says_by_how_much(tmp_path):
    write_tree(tmp_path, {"a.py": "".join(f"def f{n}(): ...\n" for n in range(100))})
    result = examine(tmp_path / "a.py", (), limits=AnalysisLimits(findings=10))
    assert (len(result["symbols"]), result["symbols_omitted"]) == (10, 90)
    tight = examine(tmp_path / "a.py", (), limits=AnalysisLimits(result_bytes=2_000))
    assert size_of(tight["symbols"]) <= 1_000
    assert len(tight["symbols"]) + tight["symbols_omitted"] == 100


def test_words_count_in_english():
    assert [plural(0, "file"), plural(1, "file"), plural(1_000, "file")] == ["0 files", "1 file", "1,000 files"]
