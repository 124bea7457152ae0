"""The bug pass: what is wrong in the code, as far as it shows without running it."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import Final

from ether.review.scout.checks import check_module
from ether.review.scout.files.language import PYTHON
from ether.review.scout.files.source import Source, Unreadable
from ether.review.scout.files.words import plural
from ether.review.scout.findings.finding import Finding, Severity
from ether.review.scout.findings.once import once
from ether.review.scout.findings.rule import RULES
from ether.review.scout.passes.pass_report import Pass, PassReport, Seen
from ether.review.scout.python.module import PythonModule
from ether.review.scout.suppression import is_told

__all__ = ["BugPass"]

_JSON_WITH_COMMENTS: Final = re.compile(
    r"tsconfig|jsconfig|\.vscode|\.eslintrc|devcontainer|\.jsonc|renovate|\.babelrc"
)
_DOTS: Final = 100
"""In a line of TOML: the parser takes a time that grows with the square of the parts of a key."""
_TEMPLATE: Final = re.compile(r"\{\{|\{%|<%")
_TOKENS: Final = re.compile(
    r"\b(?:AKIA(?![0-9A-Z]*EXAMPLE)[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{60,}|sk_live_[A-Za-z0-9]{24,}"
    r"|xox[baprs]-[0-9]{8,}-[A-Za-z0-9-]{16,}|AIza[0-9A-Za-z_\-]{35}|glpat-[A-Za-z0-9_\-]{20})\b"
)
"""Tokens whose form gives them away: AWS, GitHub, Stripe, Slack, Google, GitLab."""
_DOTTED: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")


class BugPass(Pass):
    """The pass that looks for bugs, file by file.

    What others import from a module settles its unused imports last.
    """

    def __init__(self) -> None:
        self._findings: list[Finding] = []
        self._imported: set[tuple[str, str]] = set()
        self._parts: set[str] = set()
        self._builtins: set[str] = set()
        self._checked = 0
        self._lines = 0
        self._foreign = 0

    def see(self, seen: Seen) -> None:
        """Check one file; vendored and generated ones are counted only: their maintainer is somebody else."""
        source = seen.source
        self._parts.update(PurePosixPath(source.name).with_suffix("").parts)
        if seen.module:
            self._imported.update(_names_taken(seen.module))
            stored = (one for one in seen.module.of(ast.Attribute) if isinstance(one.ctx, ast.Store))
            self._builtins.update(one.attr for one in stored if seen.module.dotted(one.value) == "builtins")
        if not source.is_ours:
            self._foreign += 1
            return
        self._checked += 1
        self._lines += source.line_count
        if problem := seen.problem:
            self._refuse(source.name, problem.message, problem.line, problem.column, is_meant=source.is_test)
        if module := seen.module:
            self._findings += seen.found_for("bugs")
            self._findings += [finding for finding in check_module(module) if is_told(module, finding)]
        self._findings += _in_text(source)

    def miss(self, file: Unreadable) -> None:
        """A Python file that Python itself would refuse is a finding; others are notes of the survey."""
        if file.is_source:
            is_data = any("test" in part or "data" in part for part in PurePosixPath(file.name).parts)
            self._refuse(file.name, f"the file {file.reason}", 1, 1, is_meant=is_data)

    def _refuse(self, path: str, why: str, line: int, column: int, *, is_meant: bool) -> None:
        """Take note of what Python refuses; in tests and their data that may be meant."""
        severity = Severity.INFO if is_meant else Severity.ERROR
        what = why[:1].upper() + why[1:]
        self._findings.append(RULES["syntax-error"].on(path, line, what, column=column, severity=severity))

    def finish(self, root: Path) -> PassReport:
        """Drop what the rest of the directory explains, and count."""
        del root
        kept = once([finding for finding in self._findings if not self._is_explained(finding)])
        data = {
            "files_checked": self._checked,
            "lines_checked": self._lines,
            "files_of_others": self._foreign,
            "findings_per_1000_lines": round(1000 * len(kept) / self._lines, 2) if self._lines else 0.0,
        }
        severe = sum(finding.severity is Severity.ERROR for finding in kept)
        files = plural(self._checked, "file")
        told = [f"{plural(len(kept), 'finding')} in {files}, {plural(severe, 'error')} among them."]
        if kept:
            rules = Counter(finding.rule for finding in kept)
            told.append(f"Most often: {', '.join(f'{name} ({count})' for name, count in rules.most_common(3))}.")
        if self._foreign:
            told.append(f"Not judged: {plural(self._foreign, 'vendored or generated file')}.")
        return PassReport(kept, data, told)

    def _is_explained(self, finding: Finding) -> bool:
        if finding.rule == "unused-import":
            name = finding.subject.rpartition(" ")[2].rpartition(".")[2]
            return (PurePosixPath(finding.path).stem, name) in self._imported
        if finding.rule == "undefined-name":
            return finding.subject in self._builtins
        if finding.rule == "removed-from-python":  # the project brings its own, as setuptools brings distutils
            top = finding.subject.partition(".")[0]
            return top in self._parts or "_" + top in self._parts
        return False


def _names_taken(module: PythonModule) -> set[tuple[str, str]]:
    """(last part of a module's name, name) of all that is taken from other modules, also by dotted text."""
    taken: set[tuple[str, str]] = set()
    for node in module.of(ast.ImportFrom):
        source = (node.module or "").rpartition(".")[2]
        taken.update((source, alias.name) for alias in node.names)
    for attribute in module.of(ast.Attribute):
        if isinstance(attribute.value, (ast.Name, ast.Attribute)):
            owner = attribute.value.id if isinstance(attribute.value, ast.Name) else attribute.value.attr
            taken.add((owner, attribute.attr))
    for constant in module.of(ast.Constant):  # `mock.patch("package.module.name")`
        if isinstance(constant.value, str) and _DOTTED.fullmatch(constant.value):
            parts = constant.value.split(".")
            taken.add((parts[-2], parts[-1]))
    return taken


def _in_text(source: Source) -> list[Finding]:
    """What any text can hold: tokens, and data that does not parse."""
    found: list[Finding] = []
    if token := _TOKENS.search(source.text):
        line = source.text.count("\n", 0, token.start()) + 1
        found.append(RULES["token-in-source"].on(source.name, line, f"`{token[0][:8]}…` has the form of a live token"))
    if source.language != PYTHON and not source.is_test and not _TEMPLATE.search(source.text):
        found += _data(source)
    return found


def _data(source: Source) -> list[Finding]:
    try:
        if source.language == "JSON" and source.text.strip() and not _JSON_WITH_COMMENTS.search(source.name):
            json.loads(source.text)
        elif source.language == "TOML" and all(line.count(".") <= _DOTS for line in source.lines):
            tomllib.loads(source.text)
    except json.JSONDecodeError as error:
        return [RULES["data-syntax"].on(source.name, error.lineno, f"JSON: {error.msg}", column=error.colno)]
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"line (\d+), column (\d+)", str(error))
        line, column = (int(place[1]), int(place[2])) if place else (source.line_count, 1)
        return [RULES["data-syntax"].on(source.name, line, f"TOML: {str(error).partition(' (at ')[0]}", column=column)]
    except (RecursionError, ValueError):
        return []  # nested or large beyond what the parser takes: that says nothing about the file
    return []
