"""The outline of a Python module: its classes and functions, with what can be counted of each."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from ether.review.scout.python.module import FUNCTIONS, Function, PythonModule, last_name, shown

__all__ = ["Symbol", "outline"]


_LONG: Final = 200
"""Characters of the parameters of a function."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A class, function or method of a module, with what can be counted of it."""

    kind: str
    """`class`, `function` or `method`; `async` is in the signature."""
    name: str
    qualname: str
    line: int
    end_line: int
    signature: str
    decorators: tuple[str, ...]
    documented: bool
    body_lines: int = 0
    """Lines without its signature and docstring: long ones make nothing harder to change."""
    children: tuple[Symbol, ...] = field(default=())

    @property
    def is_public(self) -> bool:
        """Whether no part of its dotted name starts with an underscore."""
        return not any(part.startswith("_") for part in self.qualname.split("."))

    def walk(self) -> Iterator[Symbol]:
        """Itself and everything inside it."""
        yield self
        for child in self.children:
            yield from child.walk()

    def to_json(self) -> dict[str, Any]:
        """The symbol and its children as a JSON object; what is empty or zero is left out."""
        data: dict[str, Any] = {
            "kind": self.kind,
            "name": self.name,
            "line": self.line,
            "end_line": self.end_line,
            "signature": self.signature,
            "decorators": list(self.decorators),
            "documented": self.documented,
            "children": [child.to_json() for child in self.children],
        }
        return {key: value for key, value in data.items() if value or key == "documented"}


def outline(module: PythonModule) -> list[Symbol]:
    """The symbols of a module in the order of the text, nested as in it; those in `if` and `try` too."""
    return list(_symbols(module.tree.body, "", in_class=False))


def _symbols(body: list[ast.stmt], prefix: str, *, in_class: bool) -> Iterator[Symbol]:
    """Without recursion but for classes and functions: a chain of `elif` nests as deep as it is long."""
    pending = body[::-1]
    while pending:
        statement = pending.pop()
        if isinstance(statement, (ast.ClassDef, *FUNCTIONS)):
            yield _symbol(statement, prefix, in_class=in_class)
        else:
            handlers = [part for handler in getattr(statement, "handlers", []) for part in handler.body]
            parts = (getattr(statement, name, []) for name in ("body", "orelse", "finalbody"))
            pending += [*itertools.chain(*parts, handlers)][::-1]


def _symbol(node: ast.ClassDef | Function, prefix: str, *, in_class: bool) -> Symbol:
    qualname = prefix + node.name
    is_class = isinstance(node, ast.ClassDef)
    documented = ast.get_docstring(node, clean=False) is not None
    body = node.body[documented:]
    return Symbol(
        kind="class" if is_class else "method" if in_class else "function",
        name=node.name,
        qualname=qualname,
        line=node.lineno,
        end_line=node.end_lineno or node.lineno,
        signature=_signature(node),
        decorators=tuple(last_name(decorator) or "…" for decorator in node.decorator_list),
        documented=documented,
        body_lines=(node.end_lineno or node.lineno) - body[0].lineno + 1 if body else 0,
        children=tuple(_symbols(node.body, qualname + ".", in_class=is_class)),
    )


def _signature(node: ast.ClassDef | Function) -> str:
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(shown(base) for base in node.bases)
        return f"class {node.name}({bases})" if bases else f"class {node.name}"
    word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returns = f" -> {shown(node.returns)}" if node.returns else ""
    return f"{word} {node.name}({shown(node.args, _LONG)}){returns}"
