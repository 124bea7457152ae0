"""Format strings and their arguments that do not fit each other."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from ether.review.scout.findings.finding import Finding, Severity
from ether.review.scout.findings.rule import Rule
from ether.review.scout.python.module import PythonModule
from ether.review.scout.python.syntax_queries import last_name, literal_text, shown

__all__ = ["RULES", "check"]

PERCENT = Rule(
    "percent-format",
    Severity.ERROR,
    "the `%` raises TypeError, KeyError or ValueError when this line runs",
    "Make placeholders and values match.",
    codes=(
        "F501",
        "F502",
        "F503",
        "F504",
        "F505",
        "F506",
        "F507",
        "F508",
        "F509",
        "E1305",
        "E1306",
        "E1300",
        "E1304",
    ),
)
BRACES = Rule(
    "brace-format",
    Severity.ERROR,
    "`format` raises IndexError, KeyError or ValueError when this line runs",
    "Make placeholders and values match.",
    codes=("F521", "F524", "F525", "E1307", "E1308", "W1303", "W1304", "missing-format-argument-key"),
)
UNUSED_VALUE = Rule(
    "unused-format-value",
    Severity.WARNING,
    "the value is never shown, so a placeholder is missing or the value is left over",
    "Add the placeholder, or take the value away.",
    codes=("F522", "F523", "W1305", "W1302", "format-combined-specification"),
)
LOGGING = Rule(
    "logging-format",
    Severity.ERROR,
    "logging prints a traceback of its own instead of the message when this record is shown",
    "Give one value for each placeholder.",
    codes=("PLE1205", "PLE1206", "E1205", "E1206", "logging-too-many-args", "logging-too-few-args"),
)
RULES: Final = (PERCENT, BRACES, UNUSED_VALUE, LOGGING)

_PLACEHOLDER: Final = re.compile(
    r"%(?:\((?P<key>[^)]*)\))?[#0\- +]*(?P<width>\*|\d+)?(?:\.(?P<precision>\*|\d+)?)?[hlL]?(?P<kind>.)?",
    re.DOTALL,
)
_KINDS: Final = frozenset("diouxXeEfFgGcrsab%")
_LOGGERS: Final = frozenset({"log", "_log", "logger", "_logger", "logging", "LOG", "LOGGER", "_LOGGER", "_LOG"})
_LEVELS: Final = frozenset({"debug", "info", "warning", "warn", "error", "critical", "fatal", "exception"})
_FIELD_NAME: Final = re.compile(r"[^.\[]*")


@dataclass(slots=True)
class _Wanted:
    """What a format string asks for."""

    count: int = 0
    """Values by position."""
    names: set[str] = field(default_factory=set)
    problem: str = ""
    """Why the string itself is wrong."""


def check(module: PythonModule) -> Iterator[Finding]:
    """`%`, `str.format` and logging calls whose placeholders and values differ in number or name."""
    for operation in module.of(ast.BinOp):
        if isinstance(operation.op, ast.Mod) and isinstance(operation.left, ast.Constant):
            yield from _percent(module, operation)
    for call in module.of(ast.Call):
        if isinstance(call.func, ast.Attribute):
            yield from _braces(module, call, call.func)
            yield from _logging(module, call, call.func)


def _asked_by_percent(text: str) -> _Wanted:
    wanted = _Wanted()
    for match in _PLACEHOLDER.finditer(text):
        kind = match["kind"]
        if kind is None or kind not in _KINDS:
            wanted.problem = f"`{match[0]}` is no placeholder"
            return wanted
        if kind == "%":
            continue
        stars = (match["width"] == "*") + (match["precision"] == "*")
        if match["key"] is None:
            wanted.count += 1 + stars
        else:
            wanted.names.add(match["key"])
    return wanted


def _percent(module: PythonModule, operation: ast.BinOp) -> Iterator[Finding]:
    value = operation.left.value if isinstance(operation.left, ast.Constant) else None
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if not isinstance(value, str):
        return
    wanted = _asked_by_percent(value)
    problem = wanted.problem or _percent_problem(wanted, operation.right)
    if problem:
        yield PERCENT.at(module, operation, f"In `{shown(operation, 60)}` {problem}")


def _percent_problem(wanted: _Wanted, values: ast.expr) -> str:
    if wanted.names and wanted.count:
        return "placeholders with and without a name are mixed"
    if isinstance(values, ast.Tuple):
        return _tuple_problem(wanted, values)
    if isinstance(values, ast.Dict):
        return _dict_problem(wanted, values)
    single = isinstance(values, (ast.JoinedStr, ast.ListComp)) or literal_text(values) is not None
    if single and wanted.names:
        return "the placeholders have names and the value is no mapping"
    if single and wanted.count != 1:
        return f"there are {wanted.count} placeholders and one value"
    return ""


def _tuple_problem(wanted: _Wanted, values: ast.Tuple) -> str:
    if any(isinstance(element, ast.Starred) for element in values.elts):
        return ""
    if wanted.names:
        return "the placeholders have names and the values are a tuple"
    given = len(values.elts)
    return f"there are {wanted.count} placeholders and {given} values" if given != wanted.count else ""


def _dict_problem(wanted: _Wanted, values: ast.Dict) -> str:
    if wanted.count > 1:
        return f"there are {wanted.count} placeholders without a name and one mapping"
    keys = {literal_text(key) if key is not None else None for key in values.keys}
    missing = sorted(wanted.names - {key for key in keys if key is not None})
    return f"no value is named {missing[0]!r}" if missing and None not in keys else ""


def _asked_by_braces(text: str) -> _Wanted:
    wanted = _Wanted()
    pending = [text]
    automatic = 0
    try:
        while pending:
            for _, name, spec, _ in string.Formatter().parse(pending.pop()):
                if name is None:
                    continue
                match = _FIELD_NAME.match(name)
                first = match[0] if match else ""
                if not first:
                    automatic += 1
                elif first.isdecimal():
                    wanted.count = max(wanted.count, int(first) + 1)
                else:
                    wanted.names.add(first)
                if spec:
                    pending.append(spec)
    except ValueError as error:
        wanted.problem = str(error)
        return wanted
    if automatic and wanted.count:
        wanted.problem = "numbered and unnumbered placeholders are mixed"
    wanted.count = max(wanted.count, automatic)
    return wanted


def _braces(module: PythonModule, call: ast.Call, method: ast.Attribute) -> Iterator[Finding]:
    text = literal_text(method.value)
    if method.attr != "format" or text is None:
        return
    wanted = _asked_by_braces(text)
    starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    named = {keyword.arg for keyword in call.keywords}
    problem = wanted.problem
    if not problem and not starred and wanted.count > len(call.args):
        problem = f"there are {wanted.count} placeholders by position and {len(call.args)} values"
    missing = sorted(name for name in wanted.names if name not in named)
    if not problem and None not in named and missing:
        problem = f"no value is named {missing[0]!r}"
    if problem:
        yield BRACES.at(module, call, f"In `{shown(call, 60)}` {problem}")
    elif not starred and None not in named:
        yield from _unused(module, call, wanted)


def _unused(module: PythonModule, call: ast.Call, wanted: _Wanted) -> Iterator[Finding]:
    spare = [shown(argument) for argument in call.args[wanted.count :]]
    spare += [str(keyword.arg) for keyword in call.keywords if keyword.arg not in wanted.names]
    if spare:
        yield UNUSED_VALUE.at(module, call, f"`{shown(call, 60)}` has no placeholder for `{spare[0]}`")


def _logging(module: PythonModule, call: ast.Call, method: ast.Attribute) -> Iterator[Finding]:
    if method.attr not in _LEVELS or last_name(method.value) not in _LOGGERS or not call.args[1:]:
        return
    text, values = literal_text(call.args[0]), call.args[1:]
    if text is None or any(isinstance(value, ast.Starred) for value in values):
        return
    wanted = _asked_by_percent(text)
    problem = wanted.problem
    if not problem and not wanted.names and wanted.count != len(values):
        problem = f"there are {wanted.count} placeholders and {len(values)} values"
    if problem and (_imports_logging(module) or (wanted.count and "{" not in text)):
        yield LOGGING.at(module, call, f"In `{shown(call, 60)}` {problem}")


def _imports_logging(module: PythonModule) -> bool:
    """Whether the logger is the standard library's: others fill in braces, or print what they are given."""
    return any(origin.partition(".")[0] == "logging" for origin in module.origins.values())
