"""Exceptions that are lost, never raised, or never caught."""

from __future__ import annotations

import ast
import builtins
import itertools
from collections.abc import Iterator
from typing import Final

from ether.review.scout.files.words import words
from ether.review.scout.findings.finding import Confidence, Finding, Severity
from ether.review.scout.findings.rule import Rule
from ether.review.scout.python.module import FUNCTIONS, SCOPES, PythonModule
from ether.review.scout.python.syntax_queries import last_name, shown

__all__ = ["RULES", "check"]

BARE_EXCEPT = Rule(
    "bare-except",
    Severity.WARNING,
    "it also catches KeyboardInterrupt and SystemExit, so Ctrl-C or an exit can be lost here",
    "Catch `Exception`, or what the body can raise; or re-raise.",
    codes=("E722", "W0702", "bare-except", "BLE001"),
)
SWALLOWED = Rule(
    "swallowed-exception",
    Severity.WARNING,
    "any error in the body, a typo included, vanishes without a trace",
    "Catch the exception that is expected, or log it; a comment that says why also settles it.",
    Confidence.MEDIUM,
    codes=(
        "S110",
        "S112",
        "B110",
        "B112",
        "BLE001",
        "W0703",
        "W0718",
        "broad-except",
        "broad-exception-caught",
    ),
)
EXCEPT_ORDER = Rule(
    "unreachable-except",
    Severity.ERROR,
    "the first clause that matches wins, so this one never runs",
    "Put the subclass first.",
    codes=("B014", "B025", "E0701", "bad-except-order"),
)
NOT_IMPLEMENTED = Rule(
    "raise-notimplemented",
    Severity.ERROR,
    "NotImplemented is a value for operators and no exception, so this raises TypeError",
    "Raise NotImplementedError.",
    codes=("F901", "E0711", "notimplemented-raised"),
)
RAISED_VALUE = Rule(
    "raise-non-exception",
    Severity.ERROR,
    "only exceptions can be raised, so this raises TypeError and the message is lost",
    "Raise an exception with that message.",
    codes=("E0702", "B016", "raising-bad-type"),
)
NOT_RAISED = Rule(
    "exception-not-raised",
    Severity.ERROR,
    "the exception is made and thrown away, so the error goes unnoticed",
    "Put `raise` before it.",
    codes=("PLW0133", "W0133", "pointless-exception-statement"),
    in_tests=True,
)
FINALLY_LEAVES = Rule(
    "finally-swallows",
    Severity.WARNING,
    "leaving a `finally` drops whatever exception is under way",
    "Move it after the `try` statement.",
    codes=("B012", "SIM107", "W0150", "lost-exception"),
)
RULES: Final = (
    BARE_EXCEPT,
    SWALLOWED,
    EXCEPT_ORDER,
    NOT_IMPLEMENTED,
    RAISED_VALUE,
    NOT_RAISED,
    FINALLY_LEAVES,
)

_PASSES_ON: Final = words(
    "exc_info _exit exit abort interrupt_main set_exception print_exc format_exc print_exception "
    "handleError excepthook exception fail"
)
"""Calls in a handler that keep the exception, or end the program: nothing is lost then."""
_PROBE: Final = 2
"""Statements: so short a body asks whether something works, which is mostly meant."""
_BROAD: Final = frozenset({"Exception", "BaseException"})


def check(module: PythonModule) -> Iterator[Finding]:
    """Handlers that catch too much, hide everything or never run; raises that raise something else."""
    statements: list[ast.Try | ast.TryStar] = [*module.of(ast.Try), *module.of(ast.TryStar)]
    for statement in statements:
        yield from _order(module, statement)
        yield from _finally(module, statement.finalbody)
        for handler in statement.handlers:
            yield from _handler(module, statement, handler)
    for raised in module.of(ast.Raise):
        yield from _raise(module, raised)
    for expression in module.of(ast.Expr):
        yield from _not_raised(module, expression)


def _handler(module: PythonModule, statement: ast.Try | ast.TryStar, handler: ast.ExceptHandler) -> Iterator[Finding]:
    silent = all(_is_silent(part) for part in handler.body)
    if getattr(module.function(handler), "name", "") == "__del__":
        return  # nobody can hear it there
    earlier = statement.handlers[: statement.handlers.index(handler)]
    if any(_is_exit(clause.type) for clause in earlier):
        return  # Ctrl-C has its own clause
    if handler.type is None or (silent and last_name(handler.type) == "BaseException"):
        if not _is_settled(module, handler) and not _passes_on(module, handler):
            clause = "except BaseException" if handler.type else "except"
            yield BARE_EXCEPT.at(module, handler, f"`{clause}:`{' with nothing in it' if silent else ''}")
        return
    if not (silent and _is_broad(handler.type)) or _is_settled(module, handler):
        return
    imports_only = all(isinstance(part, (ast.Import, ast.ImportFrom)) for part in statement.body)
    if imports_only:
        return
    probe = sum(1 for part in statement.body for _ in _statements(part)) <= _PROBE
    severity = Severity.INFO if probe else Severity.WARNING
    yield SWALLOWED.at(module, handler, f"`except {shown(handler.type)}:` with nothing in it", severity=severity)


def _statements(statement: ast.stmt) -> Iterator[ast.stmt]:
    return (part for part in ast.walk(statement) if isinstance(part, ast.stmt))


def _is_exit(caught: ast.expr | None) -> bool:
    parts = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(part is not None and last_name(part) in {"KeyboardInterrupt", "BaseException"} for part in parts)


def _is_silent(statement: ast.stmt) -> bool:
    return isinstance(statement, (ast.Pass, ast.Continue)) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def _is_broad(caught: ast.expr) -> bool:
    parts = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(isinstance(part, ast.Name) and part.id in _BROAD for part in parts)


def _is_settled(module: PythonModule, handler: ast.ExceptHandler) -> bool:
    """Whether a comment in the handler, or on the line above it, says why."""
    last = handler.end_lineno or handler.lineno
    return any(line in module.comments for line in range(handler.lineno - 1, last + 1))


def _passes_on(module: PythonModule, handler: ast.ExceptHandler) -> bool:
    for part in module.walk_scope(handler):
        if isinstance(part, ast.Raise) or (isinstance(part, ast.Call) and last_name(part) in _PASSES_ON):
            return True
        if handler.name and isinstance(part, ast.Name) and part.id == handler.name:
            return True
    return False


def _order(module: PythonModule, statement: ast.Try | ast.TryStar) -> Iterator[Finding]:
    seen: list[tuple[type[BaseException], ast.ExceptHandler]] = []
    for handler in statement.handlers:
        caught = _classes(module, handler.type)
        covering = [
            next(
                (earlier for earlier, clause in seen if issubclass(kind, earlier) and clause is not handler),
                None,
            )
            for kind in caught
        ]
        if caught and all(covering):
            first = covering[0]
            assert first is not None
            names = shown(handler.type) if handler.type else ""
            yield EXCEPT_ORDER.at(module, handler, f"`except {names}` after `except {first.__name__}`")
        seen.extend((kind, handler) for kind in caught)


def _classes(module: PythonModule, caught: ast.expr | None) -> list[type[BaseException]]:
    """The builtin exceptions that a clause names; empty when one of them is not a builtin."""
    parts = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    kinds = [_builtin(module, part) for part in parts]
    return [kind for kind in kinds if kind] if all(kinds) else []


def _builtin(module: PythonModule, node: ast.expr | None) -> type[BaseException] | None:
    if not isinstance(node, ast.Name) or node.id in module.rebound or node.id in module.origins:
        return None
    kind = getattr(builtins, node.id, None)
    return kind if isinstance(kind, type) and issubclass(kind, BaseException) else None


def _finally(module: PythonModule, body: list[ast.stmt]) -> Iterator[Finding]:
    for statement in body:
        below = () if isinstance(statement, SCOPES) else module.walk_scope(statement)
        for node in (statement, *below):
            if isinstance(node, ast.Return):
                yield FINALLY_LEAVES.at(module, node, "`return` in `finally`")
            elif isinstance(node, (ast.Break, ast.Continue)) and not _loops_between(module, node, body):
                word = "break" if isinstance(node, ast.Break) else "continue"
                yield FINALLY_LEAVES.at(module, node, f"`{word}` in `finally`")


def _loops_between(module: PythonModule, node: ast.AST, body: list[ast.stmt]) -> bool:
    """Whether the loop that `break` leaves stands in the `finally` itself."""
    for above in (node, *module.ancestors(node)):
        if isinstance(above, (ast.For, ast.AsyncFor, ast.While)):
            return True
        if above in body:
            return False
    return False


def _raise(module: PythonModule, raised: ast.Raise) -> Iterator[Finding]:
    what = raised.exc.func if isinstance(raised.exc, ast.Call) else raised.exc
    if isinstance(what, ast.Name) and what.id == "NotImplemented":
        yield NOT_IMPLEMENTED.at(module, raised, "`raise NotImplemented`")
    elif isinstance(raised.exc, (ast.Constant, ast.JoinedStr, ast.List, ast.Dict, ast.Tuple)):
        yield RAISED_VALUE.at(module, raised, f"`raise {shown(raised.exc)}`")


def _not_raised(module: PythonModule, expression: ast.Expr) -> Iterator[Finding]:
    call = expression.value
    if not isinstance(call, ast.Call) or not _builtin(module, call.func):
        return
    if _in_with(module, expression):
        return
    yield NOT_RAISED.at(module, expression, f"`{shown(call)}` stands alone")


def _in_with(module: PythonModule, node: ast.AST) -> bool:
    """Whether a `with` of its function is round a node: `with raises(...)` expects the error."""
    inside = itertools.takewhile(lambda above: not isinstance(above, FUNCTIONS), module.ancestors(node))
    return any(isinstance(above, (ast.With, ast.AsyncWith)) for above in inside)
