"""Keys and elements that are written twice."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, Final

from ether.review.scout.findings.finding import Finding, Severity
from ether.review.scout.findings.rule import Rule
from ether.review.scout.python.module import PythonModule
from ether.review.scout.python.syntax_queries import same, shown

__all__ = ["RULES", "check"]

DUPLICATE_KEY = Rule(
    "duplicate-key",
    Severity.ERROR,
    "the last one wins, so the first value is lost",
    "Delete one of them, or correct the key.",
    codes=("F601", "W0109", "duplicate-key", "B041"),
)
REPEATED_ENTRY = Rule(
    "repeated-entry",
    Severity.INFO,
    "the repetition has no effect; another entry may have been meant",
    "Delete one of them.",
    codes=("B033", "W0130", "duplicate-value", "F601", "PLW0130"),
)
RULES: Final = (DUPLICATE_KEY, REPEATED_ENTRY)


_SHOWN: Final = 4
"""Entries named in a message."""


def check(module: PythonModule) -> Iterator[Finding]:
    """Constants that stand twice among the keys of a dict or the elements of a set."""
    for display in module.of(ast.Dict):
        yield from _keys(module, display)
    for elements in module.of(ast.Set):
        yield from _elements(module, elements)


def _keys(module: PythonModule, display: ast.Dict) -> Iterator[Finding]:
    seen: dict[tuple[type, Any], tuple[ast.expr, ast.expr]] = {}
    repeated: list[ast.expr] = []
    for key, value in zip(display.keys, display.values, strict=True):
        if key is None:
            seen.clear()  # `**other` may replace what stands before it; what follows is meant to win
            continue
        identity = _constant(key)
        if identity is None:
            continue
        if identity in seen:
            first, first_value = seen[identity]
            if same(first_value, value):
                repeated.append(key)
            else:
                yield DUPLICATE_KEY.at(module, key, f"The key {shown(key)} stands already in line {first.lineno}")
        seen[identity] = (key, value)
    yield from _told_once(module, repeated)


def _elements(module: PythonModule, elements: ast.Set) -> Iterator[Finding]:
    seen: set[tuple[type, Any]] = set()
    repeated: list[ast.expr] = []
    for element in elements.elts:
        identity = _constant(element)
        if identity is not None and identity in seen:
            repeated.append(element)
        elif identity is not None:
            seen.add(identity)
    yield from _told_once(module, repeated)


def _told_once(module: PythonModule, repeated: list[ast.expr]) -> Iterator[Finding]:
    """One finding a display: a long table is mended in one go."""
    if repeated:
        names = ", ".join(shown(node, 20) for node in repeated[:_SHOWN])
        more = f" and {len(repeated) - _SHOWN} more" if len(repeated) > _SHOWN else ""
        verb = "stand" if repeated[1:] else "stands"
        yield REPEATED_ENTRY.at(module, repeated[0], f"{names}{more} {verb} here for the second time")


def _constant(node: ast.expr | None) -> tuple[type, Any] | None:
    """What makes two constants the same key; the type keeps 1 and True apart, which are rarely a slip."""
    return (type(node.value), node.value) if isinstance(node, ast.Constant) else None
