"""The bug pass: what is wrong in the code, as far as it shows without running it."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from ether.review.scout.checks.catalogue import BUG_RULES, check_module
from ether.review.scout.checks.names.imports import REMOVED, UNUSED_IMPORT, is_guarded
from ether.review.scout.checks.text.leftovers import CONFLICT, conflict_line
from ether.review.scout.checks.text.security import TOKEN_IN_TEXT, TOKENS
from ether.review.scout.files.language import PYTHON
from ether.review.scout.files.source import Source, Unreadable
from ether.review.scout.files.words import plural
from ether.review.scout.findings.finding import Finding, Severity
from ether.review.scout.findings.rule import Rule
from ether.review.scout.passes.pass_report import PassReport, Seen
from ether.review.scout.python.module import PythonModule

__all__ = ["RULES", "BugPass"]

SYNTAX = Rule(
    "syntax-error",
    Severity.ERROR,
    "Python cannot compile the file, so importing it fails",
    "Correct the syntax, or keep the file out of the package.",
)
DATA_SYNTAX = Rule(
    "data-syntax",
    Severity.ERROR,
    "no standard parser reads the file",
    "Correct it at the place named.",
)
RULES: Final[dict[str, Rule]] = {**BUG_RULES, SYNTAX.name: SYNTAX, DATA_SYNTAX.name: DATA_SYNTAX}
"""{name: rule} of everything that this pass can tell."""

_JSON_WITH_COMMENTS: Final = re.compile(
    r"tsconfig|jsconfig|\.vscode|\.eslintrc|devcontainer|\.jsonc|renovate|\.babelrc"
)
_TEMPLATE: Final = re.compile(r"\{\{|\{%|<%")
_DOTTED: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")


class BugPass:
    """Collects findings file by file; what others import from a module settles its unused imports last."""

    def __init__(self) -> None:
        self._findings: list[Finding] = []
        self._notes: list[str] = []
        self._imported: set[tuple[str, str]] = set()
        self._parts: set[str] = set()
        self._guarded: set[str] = set()
        self._unguarded: set[str] = set()
        self._checked = 0
        self._lines = 0
        self._foreign = 0

    def see(self, seen: Seen) -> None:
        """Check one file; vendored and generated ones are counted only: their maintainer is somebody else."""
        source = seen.source
        self._parts.update(PurePosixPath(source.name).with_suffix("").parts)
        if seen.module:
            self._imported.update(_names_taken(seen.module))
            for guarded, names in _modules_imported(seen.module):
                (self._guarded if guarded else self._unguarded).update(names)
        if not source.is_ours:
            self._foreign += 1
            return
        self._checked += 1
        self._lines += source.line_count
        if seen.problem:
            self._findings.append(_syntax(source, seen.problem.message, seen.problem.line, seen.problem.column))
        if seen.module:
            findings, notes = check_module(seen.module)
            self._findings += findings
            self._notes += notes
        else:
            self._findings += _in_text(source)

    def miss(self, file: Unreadable) -> None:
        """A Python file that Python itself would refuse is a finding; others are notes of the survey."""
        if file.is_source:
            severity = Severity.INFO if _is_test_data(file.name) else Severity.ERROR
            self._findings.append(SYNTAX.on(file.name, 1, f"The file {file.reason}", severity=severity))

    def finish(self, root: Path) -> PassReport:
        """Drop what the rest of the directory explains, and count."""
        del root
        kept = [finding for finding in self._findings if not self._is_explained(finding)]
        rules = Counter(finding.rule for finding in kept)
        data = {
            "files_checked": self._checked,
            "lines_checked": self._lines,
            "files_of_others": self._foreign,
            "findings_per_1000_lines": round(1000 * len(kept) / self._lines, 2) if self._lines else 0.0,
        }
        return PassReport(kept, data, _insights(kept, rules, self._checked, self._foreign), self._notes)

    def _is_explained(self, finding: Finding) -> bool:
        if finding.rule == UNUSED_IMPORT.name:
            return (PurePosixPath(finding.path).stem, finding.subject) in self._imported
        if finding.rule == REMOVED.name:  # the project brings its own, as setuptools brings distutils
            top = finding.subject.partition(".")[0]
            own = top in self._parts or "_" + top in self._parts
            return own or PurePosixPath(finding.path).stem in self._guarded - self._unguarded
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


def _modules_imported(module: PythonModule) -> Iterator[tuple[bool, set[str]]]:
    """(whether code asks first, last parts of the names of modules) of each import: some are for old Pythons only."""
    for node in module.of(ast.Import):
        yield is_guarded(module, node), {alias.name.rpartition(".")[2] for alias in node.names}
    for source in module.of(ast.ImportFrom):
        names = {alias.name for alias in source.names} | {(source.module or "").rpartition(".")[2]}
        yield is_guarded(module, source), names


def _syntax(source: Source, message: str, line: int, column: int) -> Finding:
    severity = Severity.INFO if source.is_test else Severity.ERROR
    return SYNTAX.on(source.name, line, message[:1].upper() + message[1:], column=column, severity=severity)


def _is_test_data(name: str) -> bool:
    return any("test" in part or "data" in part for part in PurePosixPath(name).parts)


def _in_text(source: Source) -> list[Finding]:
    """What any text can hold: conflict markers, tokens, and data files that do not parse."""
    found: list[Finding] = []
    if source.language not in {"Markdown", "reStructuredText", "Text"} and (line := conflict_line(source.text)):
        found.append(CONFLICT.on(source.name, line, "Conflict markers"))
    if token := TOKENS.search(source.text):
        line = source.text.count("\n", 0, token.start()) + 1
        found.append(TOKEN_IN_TEXT.on(source.name, line, f"`{token[0][:8]}…` has the form of a live token"))
    if source.language != PYTHON and not source.is_test and not _TEMPLATE.search(source.text):
        found += _data(source)
    return found


def _data(source: Source) -> list[Finding]:
    try:
        if source.language == "JSON" and source.text.strip() and not _JSON_WITH_COMMENTS.search(source.name):
            json.loads(source.text)
        elif source.language == "TOML":
            tomllib.loads(source.text)
    except json.JSONDecodeError as error:
        return [DATA_SYNTAX.on(source.name, error.lineno, f"JSON: {error.msg}", column=error.colno)]
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"line (\d+), column (\d+)", str(error))
        line, column = (int(place[1]), int(place[2])) if place else (source.line_count, 1)
        return [DATA_SYNTAX.on(source.name, line, f"TOML: {str(error).partition(' (at ')[0]}", column=column)]
    except (RecursionError, ValueError):
        return []  # nested or large beyond what the parser takes: that says nothing about the file
    return []


def _insights(findings: list[Finding], rules: Counter[str], checked: int, foreign: int) -> list[str]:
    severe = sum(1 for finding in findings if finding.severity is Severity.ERROR)
    files = plural(checked, "file")
    told = [f"{plural(len(findings), 'finding')} in {files}, {plural(severe, 'error')} among them."]
    if not findings:
        told = [f"Nothing found in {files}."]
    if rules:
        often = ", ".join(f"{name} ({count})" for name, count in rules.most_common(3))
        told.append(f"Most often: {often}.")
    if foreign:
        told.append(f"Not judged: {plural(foreign, 'vendored or generated file')}.")
    return told
