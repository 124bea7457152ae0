"""Branches that never run: code after a statement that leaves, and conditions asked twice."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence
from typing import Final

from ether.review.scout.python.module import PythonModule, shown

__all__ = ["repeated_condition", "unreachable_code"]

_LEAVES: Final = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_IMPURE: Final = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr, ast.GeneratorExp)


def unreachable_code(module: PythonModule) -> Iterator[tuple[ast.AST, str]]:
    """The first statement after one that always leaves its block."""
    for owner in ast.walk(module.tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(owner, name, None)
            if isinstance(block, list):
                yield from _after_leaving(block)


def _after_leaving(block: list[ast.stmt]) -> Iterator[tuple[ast.AST, str]]:
    for before, statement in itertools.pairwise(block):
        if _always_leaves([before]):
            if not _is_idiom(statement):
                yield statement, f"The statement before it, in line {before.lineno}, always leaves"
            return


def _always_leaves(block: Sequence[ast.stmt]) -> bool:
    match block:
        case [*_, ast.If(body=body, orelse=orelse)]:
            return _always_leaves(body) and _always_leaves(orelse)
        case [*_, last]:
            return isinstance(last, _LEAVES)
        case _:
            return False


def _is_idiom(statement: ast.stmt) -> bool:
    """`return; yield` makes an empty generator, and a constant, `pass`, `break` or `continue` does nothing."""
    if isinstance(statement, (ast.Pass, ast.Break, ast.Continue)):
        return True
    return isinstance(statement, ast.Expr) and isinstance(statement.value, (ast.Yield, ast.YieldFrom, ast.Constant))


def repeated_condition(module: PythonModule) -> Iterator[tuple[ast.AST, str]]:
    """An `elif` is an `if` of its own in the tree: each is compared with the ones above it in the same chain."""
    for first in module.of(ast.If):
        if _follows(first, module.parent(first)):
            continue
        asked: dict[str, int] = {}
        branch: ast.stmt | None = first
        while isinstance(branch, ast.If):
            if not _is_pure(branch.test):
                asked.clear()  # what it changed may change the answers
            else:
                test = ast.dump(branch.test)
                if test in asked:
                    yield branch, f"`{shown(branch.test)}` was already asked in line {asked[test]}"
                asked[test] = branch.lineno
            branch = branch.orelse[0] if len(branch.orelse) == 1 else None


def _follows(branch: ast.If, holder: ast.AST) -> bool:
    """Whether it is all of the `else` of another `if`."""
    return isinstance(holder, ast.If) and holder.orelse == [branch]


def _is_pure(node: ast.AST) -> bool:
    """Whether evaluating it twice must give the same: no call, `await`, `yield` or assignment in it."""
    return not any(isinstance(part, _IMPURE) for part in ast.walk(node))
