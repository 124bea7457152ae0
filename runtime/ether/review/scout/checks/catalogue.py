"""Scout's own checks, for what ruff has no rule, and how they are run over one module."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any, Final

from ether.review.scout.checks.branches import repeated_condition, unreachable_code, unreachable_except
from ether.review.scout.checks.coroutines import missing_await
from ether.review.scout.checks.literals import called_literal
from ether.review.scout.checks.removed import removed_from_python
from ether.review.scout.findings.finding import Finding
from ether.review.scout.findings.rule import RULES
from ether.review.scout.python.module import PythonModule

__all__ = ["check_module"]

_CHECKS: Final[dict[str, Callable[[PythonModule], Iterator[tuple[ast.AST, str]]]]] = {
    "called-literal": called_literal,
    "missing-await": missing_await,
    "repeated-condition": repeated_condition,
    "unreachable-code": unreachable_code,
    "unreachable-except": unreachable_except,
}


def check_module(module: PythonModule) -> Iterator[Finding]:
    """What the checks find in a module."""
    for name, check in _CHECKS.items():
        for node, what in check(module):
            yield RULES[name].on(module.name, _line(node), what, **_place(module, node))
    for node, what, severity, fix in removed_from_python(module):
        place = _place(module, node)
        yield RULES["removed-from-python"].on(module.name, _line(node), what, severity=severity, fix=fix, **place)


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 1)


def _place(module: PythonModule, node: ast.AST) -> dict[str, Any]:
    return {"column": module.column(node), "symbol": module.symbol(node)}
