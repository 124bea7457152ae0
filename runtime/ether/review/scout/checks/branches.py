"""Branches that never run: code after a statement that leaves, conditions asked twice, clauses in wrong order."""

from __future__ import annotations

import ast
import builtins
import itertools
from collections.abc import Iterator, Sequence
from typing import Final

from ether.review.scout.python.module import PythonModule, shown

__all__ = ["repeated_condition", "unreachable_code", "unreachable_except"]

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
    """`return; yield` makes an empty generator, and a constant or `pass` says nothing."""
    if isinstance(statement, ast.Pass):
        return True
    return isinstance(statement, ast.Expr) and isinstance(statement.value, (ast.Yield, ast.YieldFrom, ast.Constant))


def repeated_condition(module: PythonModule) -> Iterator[tuple[ast.AST, str]]:
    """An `elif` is an `if` of its own in the tree: each asks the ones above it in the same chain."""
    for branch in module.of(ast.If):
        below, holder = branch, module.parent(branch)
        while isinstance(holder, ast.If) and holder.orelse == [below] and _is_pure(holder.test):
            if ast.dump(holder.test) == ast.dump(branch.test):
                yield branch, f"`{shown(branch.test)}` was already asked in line {holder.lineno}"
                break
            below, holder = holder, module.parent(holder)


def _is_pure(node: ast.AST) -> bool:
    """Whether evaluating it twice must give the same: no call, `await`, `yield` or assignment in it."""
    return not any(isinstance(part, _IMPURE) for part in ast.walk(node))


def unreachable_except(module: PythonModule) -> Iterator[tuple[ast.AST, str]]:
    """A clause all of whose builtin exceptions an earlier clause of the same `try` catches."""
    own = module.stored_names(module.tree)
    statements: list[ast.Try | ast.TryStar] = [*module.of(ast.Try), *module.of(ast.TryStar)]
    for statement in statements:
        seen: list[type[BaseException]] = []
        for handler in statement.handlers:
            caught = _classes(handler.type, own)
            covering = [one for kind in caught for one in seen if issubclass(kind, one)]
            if handler.type and caught and all(issubclass(kind, tuple(seen)) for kind in caught):
                yield handler, f"`except {shown(handler.type)}` after `except {covering[0].__name__}`"
            seen += caught


def _classes(caught: ast.expr | None, own: set[str]) -> list[type[BaseException]]:
    """The builtin exceptions that a clause names; empty when one of them is not a builtin."""
    parts = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    names = [part.id if isinstance(part, ast.Name) and part.id not in own else "" for part in parts]
    kinds = [getattr(builtins, name, None) for name in names]
    found = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseException)]
    return found if len(found) == len(parts) else []
