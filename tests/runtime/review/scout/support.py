"""Small code bases in temporary folders."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from ether.review.scout.explore import see_all
from ether.review.scout.files.source import Source
from ether.review.scout.findings.finding import Finding
from ether.review.scout.passes.bugs import BugPass
from ether.review.scout.python.module import PythonModule, parse


def module_of(code: str, name: str = "sample.py") -> PythonModule:
    """Parse an example, which must be valid Python."""
    text = textwrap.dedent(code).lstrip("\n")
    parsed = parse(Source(name, "Python", text, len(text)))
    assert isinstance(parsed, PythonModule), parsed
    return parsed


def findings_in(code: str, name: str = "sample.py") -> list[Finding]:
    """What the bug pass finds in an example, ruff's part included."""
    text = textwrap.dedent(code).lstrip("\n")
    notes: list[str] = []
    one = BugPass()
    for seen in see_all([Source(name, "Python", text, len(text))], notes):
        one.see(seen)
    assert notes == []
    return one.finish(Path()).findings


def rules_in(code: str, name: str = "sample.py") -> set[str]:
    """The rules that the checks tell of an example."""
    return {finding.rule for finding in findings_in(code, name)}


def write_tree(root: Path, files: dict[str, str | bytes]) -> Path:
    """Write files, with their folders; texts are dedented."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(textwrap.dedent(content).lstrip("\n"), encoding="utf-8")
    return root


def by_rule(result: dict[str, Any], pass_name: str) -> dict[str, list[dict[str, Any]]]:
    """{rule: findings} of one pass of an exploration."""
    grouped: dict[str, list[dict[str, Any]]] = {}
    for finding in result["passes"][pass_name]["findings"]:
        grouped.setdefault(finding["rule"], []).append(finding)
    return grouped
