"""What was for the author's eyes only: breakpoints, conflict markers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from ether.review.scout.findings.finding import Finding, Severity
from ether.review.scout.findings.rule import Rule
from ether.review.scout.python.module import PythonModule
from ether.review.scout.python.syntax_queries import is_main_guard, shown

__all__ = ["CONFLICT", "RULES", "check", "conflict_line"]

BREAKPOINT = Rule(
    "leftover-breakpoint",
    Severity.ERROR,
    "the program stops here and waits for a debugger's commands",
    "Delete it.",
    codes=("T100", "W1515", "forgotten-debug-statement"),
    in_tests=True,
)
CONFLICT = Rule(
    "merge-conflict",
    Severity.ERROR,
    "the file holds both sides of a conflict that nobody resolved",
    "Keep one side, and delete the markers.",
    in_tests=True,
)
RULES: Final = (BREAKPOINT, CONFLICT)

_DEBUGGERS: Final = frozenset({"breakpoint", "pdb.set_trace", "ipdb.set_trace", "pudb.set_trace"})
_MARKERS: Final = (
    re.compile(r"^<{7} \S", re.MULTILINE),
    re.compile(r"^={7}$", re.MULTILINE),
    re.compile(r"^>{7} \S", re.MULTILINE),
)


def check(module: PythonModule) -> Iterator[Finding]:
    """Calls that open a debugger, except where the code is about debugging."""
    about_debugging = ("debug", "pdb", "trace", "breakpoint")
    for call in module.of(ast.Call):
        target = module.dotted(call.func)
        if target not in _DEBUGGERS or any(word in module.name.lower() for word in about_debugging):
            continue
        named_for_it = any(word in module.symbol(call).lower() for word in about_debugging)
        asked_for = any(isinstance(above, ast.If) and not is_main_guard(above) for above in module.ancestors(call))
        if not named_for_it and not asked_for:
            yield BREAKPOINT.at(module, call, f"`{shown(call)}`")


def conflict_line(text: str) -> int | None:
    """The line of the first conflict marker; None unless all three kinds follow one another."""
    position = 0
    first: int | None = None
    for marker in _MARKERS:
        match = marker.search(text, position)
        if match is None:
            return None
        first = match.start() if first is None else first
        position = match.end()
    return None if first is None else text.count("\n", 0, first) + 1
