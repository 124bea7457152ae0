"""Scout's own checks, for what ruff has no rule, and how they are run over one module."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Final

from ether.review.scout.checks.branches import repeated_condition, unreachable_code
from ether.review.scout.checks.coroutines import missing_await
from ether.review.scout.findings.finding import Finding
from ether.review.scout.findings.rule import RULES
from ether.review.scout.python.module import PythonModule

__all__ = ["check_module"]

_CHECKS: Final[dict[str, Callable[[PythonModule], Iterator[tuple[ast.AST, str]]]]] = {
    "missing-await": missing_await,
    "repeated-condition": repeated_condition,
    "unreachable-code": unreachable_code,
}


def check_module(module: PythonModule) -> Iterator[Finding]:
    """What the checks find in a module."""
    for name, check in _CHECKS.items():
        for node, what in check(module):
            line, symbol = getattr(node, "lineno", 1), module.symbol(node)
            yield RULES[name].on(module.name, line, what, column=module.column(node), symbol=symbol)
