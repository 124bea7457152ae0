"""Modules and names that newer Pythons have removed; `removed.toml` beside this module lists them."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ether.review.scout.findings.finding import Severity
from ether.review.scout.python.module import PythonModule

__all__ = ["removed_from_python"]

_REMOVED: Final[dict[str, dict[str, Any]]] = tomllib.loads(
    Path(__file__).with_name("removed.toml").read_text(encoding="utf-8")
)


def removed_from_python(module: PythonModule) -> Iterator[tuple[ast.AST, str, Severity, str]]:
    """(node, what, severity, fix) of each; code that asks first, by `try` or by the version, is let pass.

    A removed module is a warning, as the project may bring its own; a removed name is an error.
    """
    modules, names, assertions = (_REMOVED[kind] for kind in ("modules", "names", "assertions"))
    found: list[tuple[ast.AST, str, dict[str, Any], str, Severity]] = []
    for node in module.of(ast.Import):
        found += [(node, one.name, modules, one.name.partition(".")[0], Severity.WARNING) for one in node.names]
    for source in module.of(ast.ImportFrom):
        if source.module and not source.level:
            found.append((source, source.module, modules, source.module.partition(".")[0], Severity.WARNING))
            full = [f"{source.module}.{alias.name}" for alias in source.names]
            found += [(source, name, names, name, Severity.ERROR) for name in full]
    for attribute in module.of(ast.Attribute):
        name = module.dotted(attribute)
        found.append((attribute, name, names, name, Severity.ERROR))
        if isinstance(attribute.value, ast.Name) and attribute.value.id == "self":
            called = isinstance(module.parent(attribute), ast.Call)
            key = attribute.attr if called else ""
            found.append((attribute, f"self.{key}", assertions, key, Severity.ERROR))
    for node_, shown_, table, key, severity in found:
        if key in table and not module.is_guarded(node_):
            version, instead = table[key]
            yield node_, f"`{shown_}` was removed in Python {version}", severity, f"Use {instead}."
