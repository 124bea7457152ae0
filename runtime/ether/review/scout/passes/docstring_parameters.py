"""Parameters: docstrings that document what the signature does not have, or leave one out."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from typing import Final

from ether.review.scout.files.words import words
from ether.review.scout.findings.finding import Confidence, Finding, Severity
from ether.review.scout.findings.rule import Rule
from ether.review.scout.python.docstring import DocumentedParameter, docstring_node, documented_parameters
from ether.review.scout.python.module import FUNCTIONS, Function, PythonModule
from ether.review.scout.python.syntax_queries import arguments_of, last_name

__all__ = ["RULES", "parameter_findings"]

STALE = Rule(
    "stale-parameter",
    Severity.WARNING,
    "a reader who passes it gets a TypeError",
    "Correct the name, or delete the entry.",
    codes=("D417", "DAR102", "DOC102", "PR02"),
    in_tests=True,
)
UNDOCUMENTED = Rule(
    "undocumented-parameter",
    Severity.INFO,
    "the others are explained, so a reader takes the list for complete",
    "Add the entry.",
    Confidence.MEDIUM,
    codes=("D417", "DAR101", "DOC101", "PR01"),
)
RULES: Final = (STALE, UNDOCUMENTED)

_SAME_SIGNATURE: Final = words(
    "staticmethod classmethod abstractmethod override overload final contextmanager asynccontextmanager "
    "cache lru_cache property cached_property deprecated"
)
"""Decorators after which a function is still called with the parameters that it declares."""
_MIN_DOCUMENTED: Final = 2
_MAX_MISSING: Final = 2
"""A docstring that leaves out more was not meant to be complete."""


def parameter_findings(module: PythonModule) -> Iterator[Finding]:
    """Compare the parameter sections of all docstrings with the signatures they belong to.

    Functions that take `**kwargs` or carry a decorator that may change the signature are let pass, as are
    classes whose parameters come from elsewhere.
    """
    for function in module.functions:
        if all(last_name(decorator) in _SAME_SIGNATURE for decorator in function.decorator_list):
            yield from _compare(module, function, function, set())
    for owner in module.of(ast.ClassDef):
        init = next((part for part in owner.body if isinstance(part, FUNCTIONS) and part.name == "__init__"), None)
        if init is not None and not init.decorator_list:
            yield from _compare(module, owner, init, _attributes(module, owner))


def _attributes(module: PythonModule, owner: ast.ClassDef) -> set[str]:
    """Names that a class binds in its body or on `self`: its docstring may list them among the parameters."""
    names = {node.id for node in module.walk(owner) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    stores = (
        node for node in module.walk(owner) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    )
    return names | {node.attr for node in stores} | {part.name for part in owner.body if isinstance(part, FUNCTIONS)}


def _compare(
    module: PythonModule, documented: Function | ast.ClassDef, signature: Function, also: set[str]
) -> Iterator[Finding]:
    literal = docstring_node(documented)
    if literal is None or signature.args.kwarg is not None:
        return
    entries = documented_parameters(str(literal.value))
    if not entries:
        return
    arguments = [arg.arg for arg in arguments_of(signature) if arg.arg not in {"self", "cls"}]
    known = {*arguments, *also, "self", "cls"}
    for entry in entries:
        if entry.name not in known:
            yield _stale(module, documented, literal, entry, arguments)
    yield from _missing(module, documented, signature, entries)


def _stale(
    module: PythonModule,
    documented: Function | ast.ClassDef,
    literal: ast.Constant,
    entry: DocumentedParameter,
    arguments: list[str],
) -> Finding:
    near = difflib.get_close_matches(entry.name, arguments, n=1)
    hint = f" (did you mean `{near[0]}`?)" if near else ""
    line = min(literal.lineno + entry.line, literal.end_lineno or literal.lineno)
    what = f"`{entry.name}` is documented, and `{documented.name}` takes no such parameter{hint}"
    return STALE.on(module.name, line, what, symbol=module.symbol(documented))


def _missing(
    module: PythonModule,
    documented: Function | ast.ClassDef,
    signature: Function,
    entries: list[DocumentedParameter],
) -> Iterator[Finding]:
    if isinstance(documented, ast.ClassDef) or documented.name.startswith("_") or module.source.is_test:
        return
    told = {entry.name for entry in entries}
    spec = signature.args
    wanted = [arg.arg for arg in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]
    text = ast.get_docstring(documented, clean=False) or ""
    missing = [
        name for name in wanted if name not in {"self", "cls", *told} and not name.startswith("_") and name not in text
    ]
    if len(told) >= _MIN_DOCUMENTED and 0 < len(missing) <= _MAX_MISSING:
        names = " and ".join(f"`{name}`" for name in missing)
        verb = "are" if missing[1:] else "is"
        what = f"{names} of `{documented.name}` {verb} not documented"
        yield UNDOCUMENTED.at(module, documented, what)
