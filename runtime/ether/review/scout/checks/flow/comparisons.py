"""Comparisons and conditions that do not ask what they seem to ask."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from typing import Final

from ether.review.scout.files.words import words
from ether.review.scout.findings.finding import Confidence, Finding, Severity
from ether.review.scout.findings.rule import Rule
from ether.review.scout.python.module import FUNCTIONS, PythonModule
from ether.review.scout.python.syntax_queries import is_literal, is_pure, same, shown

__all__ = ["RULES", "check"]

IS_LITERAL = Rule(
    "is-literal",
    Severity.ERROR,
    "`is` asks for the same object, which two equal literals may or may not be",
    "Compare with == or !=.",
    codes=("F632", "R0123", "literal-comparison"),
)
NONE_EQUALITY = Rule(
    "none-comparison",
    Severity.INFO,
    "it calls a class's own `__eq__`, which may answer anything for None",
    "Compare with `is None` or `is not None`.",
    codes=("E711", "C0121", "singleton-comparison"),
)
FLOAT_EQUALITY = Rule(
    "float-equality",
    Severity.INFO,
    "the literal has no exact binary value, so a computed result hardly ever equals it",
    "Use math.isclose, or compare with a tolerance.",
    Confidence.MEDIUM,
    codes=("PLR1714", "RUF069"),
)
CONSTANT_CONDITION = Rule(
    "constant-condition",
    Severity.ERROR,
    "the condition has the same outcome whatever the values are",
    "Say which values are meant, for instance with `in` or `not in`.",
    codes=(
        "PLR0124",
        "SIM222",
        "SIM223",
        "W0125",
        "R1727",
        "condition-evals-to-constant",
        "using-constant-test",
    ),
)
REPEATED_OPERAND = Rule(
    "repeated-operand",
    Severity.WARNING,
    "the repetition changes nothing, so another operand was probably meant",
    "Delete it, or write the operand that was meant.",
    codes=("PLR0124", "SIM220", "SIM221", "PLR1714"),
)
UNUSED_COMPARISON = Rule(
    "unused-comparison",
    Severity.WARNING,
    "its result is thrown away, so it neither assigns nor checks anything",
    "Write `=` or `assert`, or delete it.",
    codes=("B015", "W0104", "W0106", "pointless-statement", "B018"),
)
ASSERT_TUPLE = Rule(
    "assert-tuple",
    Severity.ERROR,
    "a tuple that is not empty is true, so this never fails",
    "Take the parentheses away: `assert condition, message`.",
    codes=("F631", "W0199", "assert-on-tuple"),
    in_tests=True,
)
RULES: Final = (
    IS_LITERAL,
    NONE_EQUALITY,
    FLOAT_EQUALITY,
    CONSTANT_CONDITION,
    REPEATED_OPERAND,
    UNUSED_COMPARISON,
    ASSERT_TUPLE,
)

_OWN_EQUALITY: Final = words("sqlalchemy numpy pandas peewee django polars pyspark ibis dask xarray torch pony sympy")
"""Libraries whose `==` with None builds an expression; there `is` would be the bug."""


def check(module: PythonModule) -> Iterator[Finding]:
    """Identity with literals, equality with None, constant conditions, comparisons without effect."""
    overloads_equality = any(origin.partition(".")[0] in _OWN_EQUALITY for origin in module.origins.values())
    for compare in module.of(ast.Compare):
        yield from _identity(module, compare)
        yield from _float(module, compare)
        if not overloads_equality:
            yield from _none(module, compare)
    for operation in module.of(ast.BoolOp):
        yield from _contradiction(module, operation)
        yield from _literal_operand(module, operation)
        yield from _repeated(module, operation)
    for expression in module.of(ast.Expr):
        yield from _unused(module, expression)
    for statement in module.of(ast.Assert):
        if isinstance(statement.test, ast.Tuple) and statement.test.elts:
            yield ASSERT_TUPLE.at(module, statement, f"`assert {shown(statement.test)}`")


def _pairs(compare: ast.Compare) -> Iterator[tuple[ast.expr, ast.cmpop, ast.expr]]:
    operands = [compare.left, *compare.comparators]
    return zip(operands, compare.ops, operands[1:], strict=False)


def _identity(module: PythonModule, compare: ast.Compare) -> Iterator[Finding]:
    for left, operator, right in _pairs(compare):
        if isinstance(operator, (ast.Is, ast.IsNot)) and (_is_value(left) or _is_value(right)):
            yield IS_LITERAL.at(module, compare, f"`{shown(compare)}`")


def _is_value(node: ast.expr) -> bool:
    """A literal that is no singleton."""
    if isinstance(node, ast.Constant):
        return node.value is not None and node.value is not Ellipsis and not isinstance(node.value, bool)
    return isinstance(node, (ast.List, ast.Dict, ast.Set, ast.Tuple, ast.JoinedStr))


def _none(module: PythonModule, compare: ast.Compare) -> Iterator[Finding]:
    for left, operator, right in _pairs(compare):
        equality = isinstance(operator, (ast.Eq, ast.NotEq))
        if equality and any(isinstance(side, ast.Constant) and side.value is None for side in (left, right)):
            yield NONE_EQUALITY.at(module, compare, f"`{shown(compare)}`")


def _float(module: PythonModule, compare: ast.Compare) -> Iterator[Finding]:
    for left, operator, right in _pairs(compare):
        if isinstance(operator, (ast.Eq, ast.NotEq)) and any(_is_inexact(side) for side in (left, right)):
            yield FLOAT_EQUALITY.at(module, compare, f"`{shown(compare)}`")


def _is_inexact(node: ast.expr) -> bool:
    """A float literal that binary cannot hold exactly: 0.1, but not 0.5 (seen by its denominator)."""
    if not (isinstance(node, ast.Constant) and isinstance(node.value, float)):
        return False
    return math.isfinite(node.value) and node.value.as_integer_ratio()[1] > 1 << 16


def _contradiction(module: PythonModule, operation: ast.BoolOp) -> Iterator[Finding]:
    """`x != 1 or x != 2` is always true, `x == 1 and x == 2` always false."""
    wanted = ast.NotEq if isinstance(operation.op, ast.Or) else ast.Eq
    compared = [_against_constant(value, wanted) for value in operation.values]
    known = [pair for pair in compared if pair]
    for index, (name, constant) in enumerate(known):
        if any(same(name, other) and not _equal(constant, value) for other, value in known[:index]):
            outcome = "true" if isinstance(operation.op, ast.Or) else "false"
            yield CONSTANT_CONDITION.at(module, operation, f"`{shown(operation, 60)}` is always {outcome}")
            return


def _against_constant(node: ast.expr, operator: type[ast.cmpop]) -> tuple[ast.expr, ast.Constant] | None:
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[ast.Constant() as constant]):
            return (left, constant) if isinstance(op, operator) and is_pure(left) else None
        case _:
            return None


def _equal(one: ast.Constant, other: ast.Constant) -> bool:
    return bool(one.value == other.value)


def _literal_operand(module: PythonModule, operation: ast.BoolOp) -> Iterator[Finding]:
    """`if kind == "a" or "b":` asks nothing after the first `or`."""
    holder = module.parent(operation)
    if not (isinstance(holder, (ast.If, ast.While)) and holder.test is operation and isinstance(operation.op, ast.Or)):
        return
    for value in operation.values[1:]:
        if isinstance(value, ast.Constant) and isinstance(value.value, (str, bytes)) and value.value:
            yield CONSTANT_CONDITION.at(
                module, operation, f"`{shown(operation, 60)}` is always true, because {shown(value)} is"
            )
            return


def _repeated(module: PythonModule, operation: ast.BoolOp) -> Iterator[Finding]:
    for index, value in enumerate(operation.values):
        if not is_literal(value) and is_pure(value) and any(same(value, other) for other in operation.values[:index]):
            yield REPEATED_OPERAND.at(module, operation, f"`{shown(value)}` stands twice in `{shown(operation, 60)}`")
            return


def _unused(module: PythonModule, expression: ast.Expr) -> Iterator[Finding]:
    compare = expression.value
    if not isinstance(compare, ast.Compare) or isinstance(compare.ops[0], (ast.In, ast.NotIn)):
        return
    for above in module.ancestors(expression):
        if isinstance(above, FUNCTIONS):
            break
        if isinstance(above, (ast.With, ast.AsyncWith, ast.Try)):
            return  # run for the exception that it may raise
    yield UNUSED_COMPARISON.at(module, expression, f"`{shown(compare)}` stands alone")
