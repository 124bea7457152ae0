"""The complexity of a function: how many ways lead through it, and how deep they go."""

from __future__ import annotations

import ast
from typing import Final

from ether.review.scout.python.module import Function, PythonModule

__all__ = ["complexity", "nesting"]

_BRANCHES: Final = (ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler)
_NESTING: Final = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.Try,
    ast.TryStar,
    ast.With,
    ast.AsyncWith,
    ast.Match,
)


def complexity(module: PythonModule, function: Function) -> int:
    """The cyclomatic complexity after McCabe: 1, and 1 more for each decision.

    Decisions are `if`, `elif`, `for`, `while`, `except`, a conditional expression, each `for` and `if` of a
    comprehension, each further operand of `and` and `or`, and each `case` but the catch-all. Nested functions
    and classes count for themselves.
    """
    return 1 + sum(_decisions(node) for node in module.walk_scope(function))


def _decisions(node: ast.AST) -> int:
    match node:
        case ast.BoolOp(values=values):
            return len(values) - 1
        case ast.comprehension(ifs=conditions):
            return 1 + len(conditions)
        case ast.match_case(pattern=ast.MatchAs(pattern=None), guard=None):
            return 0
        case ast.match_case():
            return 1
        case _:
            return 1 if isinstance(node, _BRANCHES) else 0


def nesting(module: PythonModule, function: Function) -> int:
    """How many blocks stand inside one another at the deepest place; an `elif` is no deeper than its `if`."""
    depths: dict[ast.AST, int] = {function: 0}
    for node in module.walk_scope(function):
        if isinstance(node, _NESTING):
            holder = next(above for above in module.ancestors(node) if above in depths)
            is_elif = isinstance(node, ast.If) and isinstance(holder, ast.If) and holder.orelse == [node]
            depths[node] = depths[holder] + (not is_elif)
    return max(depths.values())
