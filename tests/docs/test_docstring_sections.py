"""What docstrings list under `Args:` and `Raises:`: parameters that there are, and exceptions that have such a name."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator

from tests.docs.glossary import sources

_OF_LIBRARIES = {"Empty", "sqlite3.Error", "sqlite3.OperationalError", "struct.error", "zmq.ZMQError"}
_SECTION = re.compile(r"^(Args|Raises|Returns|Yields|Example|Attributes):$")


def entries(docstring: str, section: str) -> Iterator[str]:
    """The names that a section of a docstring lists."""
    current, indent = "", 0
    for line in docstring.splitlines():
        depth = len(line) - len(line.lstrip())
        if found := _SECTION.match(line.strip()):
            current, indent = found[1], depth
        elif (
            current == section
            and depth == indent + 4
            and (name := re.match(r"\s+\*{0,2}([\w.]+)(?: \([^)]*\))?:", line))
        ):
            yield name[1]
        elif line.strip() and depth <= indent:
            current = ""


def documented() -> Iterator[tuple[str, ast.AST, str]]:
    """Each class and function with a docstring: (where, node, docstring)."""
    for module, source in sources().items():
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
                said := ast.get_docstring(node)
            ):
                yield f"{module}:{node.lineno} {node.name}", node, said


def parameters(node: ast.AST) -> set[str] | None:
    """What may be given; None for a class whose `__init__` is not written here."""
    if isinstance(node, ast.ClassDef):
        fields = {
            one.target.id for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
        }
        made = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name in {"__init__", "__new__"}]
        if not made:
            return fields if fields and not node.bases else None
        return fields.union(*(parameters(one) or () for one in made))
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    listed = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return {one.arg for one in (*listed, node.args.vararg, node.args.kwarg) if one is not None}


def test_every_argument_that_a_docstring_names_is_there() -> None:
    wrong = {}
    for where, node, said in documented():
        there = parameters(node)
        is_open = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.args.kwarg is not None
        if (
            there is not None
            and not is_open
            and (missing := [name for name in entries(said, "Args") if name not in there])
        ):
            wrong[where] = missing
    assert wrong == {}


def test_every_exception_that_a_docstring_names_is_one() -> None:
    known = _OF_LIBRARIES | {one.name for source in sources().values() for one in source.classes} | set(dir(builtins))
    wrong = {
        where: missing
        for where, _, said in documented()
        if (missing := [name for name in entries(said, "Raises") if name not in known])
    }
    assert wrong == {}
