"""Files that nothing closes, and calls that may wait for ever."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from ether.review.scout.files.words import words
from ether.review.scout.findings.finding import Finding, Severity
from ether.review.scout.findings.rule import Rule
from ether.review.scout.python.module import FUNCTIONS, PythonModule
from ether.review.scout.python.syntax_queries import shown

__all__ = ["RULES", "check"]

UNCLOSED_FILE = Rule(
    "unclosed-file",
    Severity.WARNING,
    "nothing closes the file, so it stays open until the garbage collector finds it (and warns)",
    "Open it in a `with` statement.",
    codes=("SIM115", "R1732", "consider-using-with"),
)
NO_TIMEOUT = Rule(
    "request-without-timeout",
    Severity.WARNING,
    "requests waits for ever by default, so a server that never answers hangs the caller",
    "Pass `timeout=`.",
    codes=("S113", "B113", "W3101", "missing-timeout"),
)
RULES: Final = (UNCLOSED_FILE, NO_TIMEOUT)

_OPENERS: Final = frozenset({"open", "io.open", "codecs.open", "gzip.open", "bz2.open", "lzma.open"})
_CONSUMERS: Final = frozenset({"json.load", "pickle.load", "yaml.load", "yaml.safe_load", "tomllib.load", "toml.load"})
_READS: Final = frozenset({"read", "readline", "readlines", "write", "writelines"})
_REQUESTS: Final = words(
    "requests.get requests.post requests.put requests.patch requests.delete requests.head "
    "requests.options requests.request"
)


def check(module: PythonModule) -> Iterator[Finding]:
    """Files opened, used and dropped in one breath, or left open in a function; requests without end."""
    for call in module.of(ast.Call):
        target = module.dotted(call.func)
        if target in _OPENERS:
            yield from _opened(module, call)
        elif target in _REQUESTS and not any(keyword.arg in {"timeout", None} for keyword in call.keywords):
            yield NO_TIMEOUT.at(module, call, f"`{shown(call)}` has no timeout")


def _opened(module: PythonModule, call: ast.Call) -> Iterator[Finding]:
    holder = module.parent(call)
    if isinstance(holder, ast.Attribute) and holder.attr in _READS:
        yield UNCLOSED_FILE.at(module, call, f"`{shown(module.parent(holder), 60)}` drops the file after use")
    elif isinstance(holder, ast.For) and holder.iter is call:
        yield UNCLOSED_FILE.at(module, call, f"`for ... in {shown(call)}` drops the file after use")
    elif isinstance(holder, ast.Call) and module.dotted(holder.func) in _CONSUMERS:
        yield UNCLOSED_FILE.at(module, call, f"`{shown(holder, 60)}` drops the file after use")
    elif isinstance(holder, ast.Assign) and _never_leaves(module, holder):
        yield UNCLOSED_FILE.at(module, call, f"`{shown(holder, 60)}` is never closed in this function")


def _never_leaves(module: PythonModule, assignment: ast.Assign) -> bool:
    """Whether a file in a variable is only read or written: not closed, returned, stored, passed on."""
    function = module.function(assignment)
    if not isinstance(function, FUNCTIONS) or len(assignment.targets) != 1:
        return False
    target = assignment.targets[0]
    if not isinstance(target, ast.Name):
        return False
    uses = [
        node
        for node in module.walk(function)
        if isinstance(node, ast.Name) and node.id == target.id and node is not target
    ]
    return bool(uses) and all(_only_reads(module, use) for use in uses)


def _only_reads(module: PythonModule, use: ast.Name) -> bool:
    holder = module.parent(use)
    if isinstance(holder, ast.Attribute):
        return holder.attr in _READS
    return isinstance(holder, (ast.For, ast.comprehension)) and holder.iter is use
