"""Branches that never run, or that make no difference."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from ether.review.scout.findings.finding import Finding, Severity
from ether.review.scout.findings.rule import Rule
from ether.review.scout.python.module import SCOPES, PythonModule
from ether.review.scout.python.syntax_queries import ends_flow, is_pure, same, shown

__all__ = ["RULES", "check"]

UNREACHABLE = Rule(
    "unreachable-code",
    Severity.WARNING,
    "no path leads here, so it never runs",
    "Delete it, or move it before the statement that leaves.",
    codes=("W0101", "unreachable", "PLW0101"),
)
REPEATED_CONDITION = Rule(
    "repeated-condition",
    Severity.ERROR,
    "an earlier branch of the same `if` asks the same, so this one never runs",
    "Ask what was meant, or delete the branch.",
    codes=("SIM114", "PLR5501"),
)
IDENTICAL_BRANCHES = Rule(
    "identical-branches",
    Severity.WARNING,
    "both branches do the same, so the condition decides nothing",
    "Delete the `if`, or write what the other branch was to do.",
    codes=("RUF034", "SIM108"),
)
LOOP_ELSE = Rule(
    "else-without-break",
    Severity.INFO,
    "without a `break` it is nothing but the code after the loop, and reads as if it ran only sometimes",
    "Take the code out of the `else`.",
    codes=("PLW0120", "W0120", "useless-else-on-loop"),
)
RULES: Final = (UNREACHABLE, REPEATED_CONDITION, IDENTICAL_BRANCHES, LOOP_ELSE)


def check(module: PythonModule) -> Iterator[Finding]:
    """Unreachable statements, conditions asked twice, branches alike, a loop's `else` without a `break`."""
    for _, block in module.blocks:
        yield from _unreachable(module, block)
    for branch in module.of(ast.If):
        yield from _chain(module, branch)
        if _alike(branch.body, branch.orelse) and not _is_explained(module, branch):
            yield IDENTICAL_BRANCHES.at(module, branch, f"`if {shown(branch.test)}:` and its `else`")
    for choice in module.of(ast.IfExp):
        if same(choice.body, choice.orelse):
            yield IDENTICAL_BRANCHES.at(module, choice, f"`{shown(choice, 60)}`")
    loops: list[ast.For | ast.While] = [*module.of(ast.For), *module.of(ast.While)]
    for loop in loops:
        if loop.orelse and not _breaks(module, loop):
            yield LOOP_ELSE.at(module, loop.orelse[0], f"The loop of line {loop.lineno} has an `else` and no `break`")


def _unreachable(module: PythonModule, block: list[ast.stmt]) -> Iterator[Finding]:
    for position in range(1, len(block)):
        if ends_flow(block[position - 1 : position]):
            if not _is_idiom(block[position]):
                line = block[position - 1].lineno
                yield UNREACHABLE.at(module, block[position], f"The statement before it, in line {line}, always leaves")
            return


def _is_idiom(statement: ast.stmt) -> bool:
    """`return; yield` makes an empty generator, and a constant or `pass` says nothing."""
    if isinstance(statement, ast.Pass):
        return True
    return isinstance(statement, ast.Expr) and isinstance(statement.value, (ast.Yield, ast.YieldFrom, ast.Constant))


def _chain(module: PythonModule, branch: ast.If) -> Iterator[Finding]:
    """An `elif` is an `if` of its own in the tree: each asks the ones above it in the same chain."""
    if not is_pure(branch.test):
        return
    below, holder = branch, module.parent(branch)
    while isinstance(holder, ast.If) and holder.orelse == [below]:
        if same(holder.test, branch.test):
            what = f"`{shown(branch.test)}` was already asked in line {holder.lineno}"
            yield REPEATED_CONDITION.at(module, branch, what)
            return
        if not is_pure(holder.test):
            return  # it may have changed what is asked here
        below, holder = holder, module.parent(holder)


def _alike(body: list[ast.stmt], orelse: list[ast.stmt]) -> bool:
    if len(body) != len(orelse) or all(isinstance(statement, ast.Pass) for statement in body):
        return False
    return all(same(one, other) for one, other in zip(body, orelse, strict=True))


def _is_explained(module: PythonModule, branch: ast.If) -> bool:
    """Whether a comment stands in one of the branches, or right above: then their likeness is meant."""
    return any(line in module.comments for line in range(branch.lineno - 1, (branch.end_lineno or branch.lineno) + 1))


def _breaks(module: PythonModule, loop: ast.For | ast.While) -> bool:
    """Whether a `break` leaves this loop, not one inside it."""
    return any(_loop_of(module, node) is loop for node in module.of(ast.Break))


def _loop_of(module: PythonModule, leaving: ast.Break) -> ast.AST | None:
    below: ast.AST = leaving
    for above in module.ancestors(leaving):
        if isinstance(above, SCOPES):
            return None
        if isinstance(above, (ast.For, ast.AsyncFor, ast.While)) and below in above.body:
            return above
        below = above
    return None
