"""Suppression: the comments by which a maintainer has settled a finding."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import Final

from ether.review.scout.findings.finding import Finding, Severity
from ether.review.scout.findings.rule import RULES
from ether.review.scout.python.module import FUNCTIONS, PythonModule, last_name

__all__ = ["is_told"]

_NOQA: Final = re.compile(r"#\s*+noqa(?P<codes>:\s*[A-Za-z0-9_\-, ]+)?", re.IGNORECASE)
_PYLINT: Final = re.compile(r"#\s*+(?:pylint:\s*+disable=|type:\s*+ignore\[)(?P<codes>[\w\-, ]+)")
_FILE_WIDE: Final = re.compile(
    r"#\s*+(?:flake8|ruff):\s*+noqa\s*+(?::\s*+(?P<codes>[A-Z0-9,][A-Z0-9, ]*+))?+\s*+$", re.IGNORECASE
)


def is_told(module: PythonModule, finding: Finding) -> bool:
    """Whether a finding concerns the file, and its maintainer has not decided otherwise in a comment."""
    rule = RULES[finding.rule]
    if module.source.is_test and not rule.in_tests:
        return False
    if finding.severity is Severity.INFO and module.once(_shows_use, finding.line):
        return False
    settled = module.once(_settled_in_file, None) | module.once(_settled_at, finding.line)
    about_security = any(code.startswith("S") and code[1:].isdigit() for code in rule.ruff)
    if "*" in settled or (about_security and "nosec" in settled):
        return False
    return settled.isdisjoint(name.lower() for name in (rule.name, *rule.ruff, *rule.codes))


def _shows_use(module: PythonModule, line: int) -> bool:
    """Whether a line is part of a demonstration."""
    return any(module.is_inside(node, _is_demonstration) for node in module.at(line))


def _is_demonstration(node: ast.AST) -> bool:
    """Whether what is below runs as a script only, or shows how the module is used."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Compare):
        return last_name(node.test.left) == "__name__"
    return isinstance(node, FUNCTIONS) and "demo" in node.name


def _settled_in_file(module: PythonModule, _: None) -> frozenset[str]:
    """The rules that comments settle for the whole file, in small letters; `*` stands for all."""
    return _codes(map(_FILE_WIDE.search, module.comments.values()))


def _settled_at(module: PythonModule, line: int) -> frozenset[str]:
    """The rules that the comment of a line settles, or one that ends an import over several lines there."""
    around = module.once(_import_ends, None).get(line, ())
    comments = [module.comments.get(one, "") for one in {line, *around}]
    codes = _codes(pattern.search(comment) for comment in comments for pattern in (_NOQA, _PYLINT))
    return codes | {"nosec"} if any("nosec" in comment for comment in comments) else codes


def _codes(marks: Iterable[re.Match[str] | None]) -> frozenset[str]:
    """The rules that comments name; without a name they mean all."""
    found = [mark["codes"] or "*" for mark in marks if mark]
    return frozenset(code.lower() for codes in found for code in re.split(r"[,\s:]+", codes) if code)


def _import_ends(module: PythonModule, _: None) -> dict[int, set[int]]:
    """{line: the last lines of the imports that it is a part of}."""
    ends: dict[int, set[int]] = {}
    for node in module.of(ast.ImportFrom):
        last = node.end_lineno or node.lineno
        for line in range(node.lineno, last + 1):
            ends.setdefault(line, set()).add(last)
    return ends
