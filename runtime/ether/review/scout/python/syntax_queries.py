"""Small questions about syntax trees that several checks ask."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ether.review.scout.python.module import Function, PythonModule

__all__ = [
    "arguments_of",
    "blocks_below",
    "ends_flow",
    "has_base_named",
    "is_docstring",
    "is_literal",
    "is_main_guard",
    "is_pure",
    "is_stub",
    "is_type_checking_guard",
    "last_name",
    "literal_text",
    "same",
    "shown",
    "stored_names",
]

_LEAVES: Final = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_IMPURE: Final = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr, ast.GeneratorExp)


def same(one: ast.AST, other: ast.AST) -> bool:
    """Whether two trees were written alike, wherever they stand."""
    return type(one) is type(other) and ast.dump(one) == ast.dump(other)


def is_pure(node: ast.AST) -> bool:
    """Whether evaluating it twice must give the same: no call, `await`, `yield` or assignment in it."""
    return not any(isinstance(part, _IMPURE) for part in ast.walk(node))


def is_literal(node: ast.AST) -> bool:
    """Whether it is a constant, or a display of constants only."""
    containers = (
        ast.Tuple,
        ast.List,
        ast.Set,
        ast.Dict,
        ast.Load,
        ast.UnaryOp,
        ast.USub,
        ast.UAdd,
        ast.Constant,
    )
    return all(isinstance(part, containers) for part in ast.walk(node))


def literal_text(node: ast.AST) -> str | None:
    """The value of a string literal, or None."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def shown(node: ast.AST, limit: int = 40) -> str:
    """The code of a node for a message, on one line and cut at `limit` characters."""
    try:
        text = " ".join(ast.unparse(node).split())
    except RecursionError:
        return "…"
    return text if len(text) <= limit else text[: limit - 1] + "…"


def is_docstring(statement: ast.stmt) -> bool:
    """Whether it is a bare string."""
    return isinstance(statement, ast.Expr) and literal_text(statement.value) is not None


def is_stub(function: Function) -> bool:
    """Whether the body says nothing: a docstring, `...`, `pass` or `raise NotImplementedError`."""
    return all(_says_nothing(statement) for statement in function.body)


def _says_nothing(statement: ast.stmt) -> bool:
    match statement:
        case ast.Pass() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Raise(exc=ast.Name(id="NotImplementedError") | ast.Call(func=ast.Name(id="NotImplementedError"))):
            return True
        case _:
            return False


def last_name(node: ast.AST) -> str:
    """The last part of a name or attribute chain, also when called: `a.b.C(1)` gives `C`; else empty."""
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def has_base_named(node: ast.ClassDef, names: Iterable[str]) -> bool:
    """Whether a base, or the metaclass, ends with one of these names."""
    bases = [last_name(base) for base in node.bases]
    bases += [last_name(keyword.value) for keyword in node.keywords]
    return any(base.endswith(tuple(names)) for base in bases if base)


def is_type_checking_guard(node: ast.AST) -> bool:
    """Whether it is `if TYPE_CHECKING:`."""
    return isinstance(node, ast.If) and last_name(node.test) == "TYPE_CHECKING"


def is_main_guard(node: ast.AST) -> bool:
    """Whether it is `if __name__ == "__main__":`."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Compare) and last_name(node.test.left) == "__name__"


def arguments_of(function: Function | ast.Lambda) -> list[ast.arg]:
    """All parameters in order, with `*args` and `**kwargs`."""
    spec = function.args
    starred = [arg for arg in (spec.vararg, spec.kwarg) if arg is not None]
    return [*spec.posonlyargs, *spec.args, *spec.kwonlyargs, *starred]


def stored_names(module: PythonModule, node: ast.AST) -> set[str]:
    """Names bound in the namespace of a function, class or module: by assignment, import, `def`, `as`."""
    names: set[str] = set()
    for part in module.walk_scope(node):
        match part:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
            case ast.MatchMapping(rest=str(name)):
                names.add(name)
            case ast.alias(name=origin, asname=asname):
                names.add(asname or origin.partition(".")[0])
    return names


def blocks_below(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Every list of statements below a node; `PythonModule.blocks` has those of a module."""
    for part in ast.walk(node):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(part, name, None)
            if isinstance(block, list) and block:
                yield block


def ends_flow(block: Sequence[ast.stmt]) -> bool:
    """Whether nothing after this block can run: it ends by leaving, or in an `if` whose branches all do."""
    if not block:
        return False
    last = block[-1]
    if isinstance(last, _LEAVES):
        return True
    return isinstance(last, ast.If) and ends_flow(last.body) and ends_flow(last.orelse)
