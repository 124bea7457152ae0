"""Functions made in a loop that all see the loop's last value."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final, TypeAlias

from ether.review.scout.findings.finding import Finding, Severity
from ether.review.scout.findings.rule import Rule
from ether.review.scout.python.module import FUNCTIONS, Function, PythonModule
from ether.review.scout.python.syntax_queries import arguments_of, stored_names

__all__ = ["RULES", "check"]

LOOP_CLOSURE = Rule(
    "loop-closure",
    Severity.WARNING,
    "a function reads the variable when it is called, so after the loop all of them see its last value",
    "Bind it as a default (`lambda x=x: ...`) or with functools.partial.",
    codes=("B023", "W0640", "cell-var-from-loop"),
)
RULES: Final = (LOOP_CLOSURE,)

_Loop: TypeAlias = ast.For | ast.AsyncFor | ast.While
_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)
_COLLECTS: Final = frozenset({"append", "appendleft", "add", "insert", "setdefault", "connect", "add_done_callback"})
_COLLECTS_LATER: Final = frozenset(
    {"call_later", "call_soon", "add_callback", "after", "after_idle", "register", "bind"}
)


def check(module: PythonModule) -> Iterator[Finding]:
    """Functions that are kept beyond the iteration that made them, and read what it changes.

    Only those that are visibly kept (appended, stored under a key or attribute, given to a callback) are
    told: one that is called in the same iteration, as `sorted(key=...)` does, is right.
    """
    for lambda_ in module.of(ast.Lambda):
        if _is_kept(module, lambda_):
            yield from _captures(module, lambda_, lambda_)
        yield from _in_comprehension(module, lambda_)
    for function in module.functions:
        kept = _kept_use(module, function)
        if kept is not None:
            yield from _captures(module, function, kept)


def _is_kept(module: PythonModule, node: ast.expr) -> bool:
    """Whether an expression is stored somewhere that outlives the iteration."""
    holder = module.parent(node)
    match holder:
        case ast.Assign(targets=[ast.Subscript() | ast.Attribute(), *_]):
            return True
        case ast.Call(func=ast.Attribute(attr=attr), args=args) if node in args:
            return attr in _COLLECTS or attr in _COLLECTS_LATER
        case ast.Call(func=ast.Name(id="setattr"), args=args):
            return node in args
        case ast.Tuple() | ast.List():
            return _is_kept(module, holder)
        case _:
            return False


def _kept_use(module: PythonModule, function: Function) -> ast.AST | None:
    """Where the loop that defines a function keeps it; None when it does not."""
    loop = _loop_of(module, function)
    if loop is None or function.decorator_list:
        return None
    uses = (node for node in module.of(ast.Name) if node.id == function.name and isinstance(node.ctx, ast.Load))
    return next((use for use in uses if _is_kept(module, use) and _loop_of(module, use) is loop), None)


def _loop_of(module: PythonModule, node: ast.AST) -> _Loop | None:
    """The loop whose body runs the node, without a function between them."""
    below = node
    for above in module.ancestors(node):
        if isinstance(above, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
            return None
        if isinstance(above, _LOOPS) and below in above.body:
            return above
        below = above
    return None


def _captures(module: PythonModule, function: Function | ast.Lambda, kept: ast.AST) -> Iterator[Finding]:
    loop = _loop_of(module, function)
    if loop is None or _leaves_after(module, kept):
        return
    changing = _bound_by(module, loop)
    captured = sorted(_free_names(module, function) & changing)
    if captured:
        what = f"The function made here reads `{captured[0]}`, which the loop of line {loop.lineno} changes"
        yield LOOP_CLOSURE.at(module, function, what)


def _bound_by(module: PythonModule, loop: _Loop) -> set[str]:
    names = stored_names(module, loop)
    return names - {node.name for node in module.walk(loop) if isinstance(node, (*FUNCTIONS, ast.ClassDef))}


def _free_names(module: PythonModule, function: Function | ast.Lambda) -> set[str]:
    """Names that the body reads from outside; defaults are read at once, so they are safe."""
    body = function.body if isinstance(function.body, list) else [function.body]
    read = {node.id for part in body for node in module.walk(part) if isinstance(node, ast.Name)}
    own = {arg.arg for arg in arguments_of(function)} | stored_names(module, function)
    inner = {
        arg.arg
        for part in body
        for node in module.walk(part)
        if isinstance(node, ast.Lambda)
        for arg in arguments_of(node)
    }
    return read - own - inner


def _leaves_after(module: PythonModule, kept: ast.AST) -> bool:
    """Whether the loop ends in the iteration that keeps the function: then there is one value only."""
    statement = next((above for above in (kept, *module.ancestors(kept)) if isinstance(above, ast.stmt)), None)
    for _, block in module.blocks:
        if statement in block:
            rest = block[block.index(statement) + 1 :]
            return any(isinstance(part, (ast.Break, ast.Return, ast.Raise)) for part in rest)
    return False


def _in_comprehension(module: PythonModule, lambda_: ast.Lambda) -> Iterator[Finding]:
    """`[lambda: x for x in xs]`: every function of the list sees the last x."""
    holder = module.parent(lambda_)
    if isinstance(holder, (ast.ListComp, ast.SetComp)):
        element: ast.expr = holder.elt
    elif isinstance(holder, ast.DictComp):
        element = holder.value
    else:
        return
    if element is lambda_:
        targets = {name for part in holder.generators for name in stored_names(module, part)}
        captured = sorted(_free_names(module, lambda_) & targets)
        if captured:
            what = f"Every function of this comprehension reads the same `{captured[0]}`"
            yield LOOP_CLOSURE.at(module, lambda_, what)
