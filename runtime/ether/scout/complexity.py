"""The complexity of a function: how many ways lead through it, and how deep they go."""

from __future__ import annotations

import ast
from typing import Final

from ether.scout.python_module import SCOPES, Function

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


def complexity(function: Function) -> int:
    """The cyclomatic complexity after McCabe: 1, and 1 more for each decision.

    Decisions are `if`, `elif`, `for`, `while`, `except`, a conditional expression, each `for` and `if` of a
    comprehension, each further operand of `and` and `or`, and each `case` but the catch-all. Nested functions
    and classes count for themselves.
    """
    total = 1
    stack: list[ast.AST] = list(function.body)
    while stack:
        node = stack.pop()
        if isinstance(node, SCOPES):
            continue
        total += _decisions(node)
        stack.extend(ast.iter_child_nodes(node))
    return total


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


def nesting(function: Function) -> int:
    """How many blocks stand inside one another at the deepest place; an `elif` is no deeper than its `if`."""
    deepest = 0
    stack: list[tuple[ast.AST, int]] = [(statement, 0) for statement in function.body]
    while stack:
        node, depth = stack.pop()
        if isinstance(node, SCOPES):
            continue
        inside = depth + isinstance(node, _NESTING)
        deepest = max(deepest, inside)
        elif_ = node.orelse[0] if isinstance(node, ast.If) and len(node.orelse) == 1 else None
        for child in ast.iter_child_nodes(node):
            same_level = child is elif_ and isinstance(child, ast.If)
            stack.append((child, depth if same_level else inside))
    return deepest
