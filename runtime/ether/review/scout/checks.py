"""Scout's own checks, for what ruff has no rule: branches that never run, and coroutines that nobody awaits."""

from __future__ import annotations

import ast
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ether.review.scout.findings.finding import Finding
from ether.review.scout.findings.rule import RULES
from ether.review.scout.python.module import PythonModule, shown

__all__ = ["check_module"]

_LEAVES: Final = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_IMPURE: Final = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr, ast.GeneratorExp)
_COROUTINES: Final = frozenset({"asyncio.sleep", "asyncio.wait_for", "asyncio.wait", "asyncio.open_connection"})


def _unreachable_code(module: PythonModule) -> Iterator[tuple[ast.AST, str]]:
    """The first statement after one that always leaves its block."""
    for owner in ast.walk(module.tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(owner, name, None)
            if isinstance(block, list):
                yield from _after_leaving(block)


def _after_leaving(block: list[ast.stmt]) -> Iterator[tuple[ast.AST, str]]:
    for before, statement in itertools.pairwise(block):
        if _always_leaves([before]):
            if not _is_idiom(statement):
                yield statement, f"The statement before it, in line {before.lineno}, always leaves"
            return


def _always_leaves(block: Sequence[ast.stmt]) -> bool:
    match block:
        case [*_, ast.If(body=body, orelse=orelse)]:
            return _always_leaves(body) and _always_leaves(orelse)
        case [*_, last]:
            return isinstance(last, _LEAVES)
        case _:
            return False


def _is_idiom(statement: ast.stmt) -> bool:
    """`return; yield` makes an empty generator, and a constant, `pass`, `break` or `continue` does nothing."""
    if isinstance(statement, (ast.Pass, ast.Break, ast.Continue)):
        return True
    return isinstance(statement, ast.Expr) and isinstance(statement.value, (ast.Yield, ast.YieldFrom, ast.Constant))


def _repeated_condition(module: PythonModule) -> Iterator[tuple[ast.AST, str]]:
    """An `elif` is an `if` of its own in the tree: each is compared with the ones above it in the same chain."""
    for first in module.of(ast.If):
        holder = module.parent(first)
        if isinstance(holder, ast.If) and holder.orelse == [first]:
            continue
        asked: dict[str, int] = {}
        branch: ast.stmt | None = first
        while isinstance(branch, ast.If):
            if not _is_pure(branch.test):
                asked.clear()  # what it changed may change the answers
            else:
                test = ast.dump(branch.test)
                if test in asked:
                    yield branch, f"`{shown(branch.test)}` was already asked in line {asked[test]}"
                asked[test] = branch.lineno
            branch = branch.orelse[0] if len(branch.orelse) == 1 else None


def _is_pure(node: ast.AST) -> bool:
    """Whether evaluating it twice must give the same: no call, `await`, `yield` or assignment in it."""
    return not any(isinstance(part, _IMPURE) for part in ast.walk(node))


def _missing_await(module: PythonModule) -> Iterator[tuple[ast.AST, str]]:
    """Calls of the module's own coroutine functions, and of asyncio's, that stand alone without `await`."""
    if "async" not in module.source.text:
        return
    functions = module.once(_coroutine_functions, module.tree)
    for expression in module.of(ast.Expr):
        call = expression.value
        if isinstance(call, ast.Call) and _makes_coroutine(module, call, functions):
            yield call, f"`{shown(call)}` is not awaited"


def _makes_coroutine(module: PythonModule, call: ast.Call, functions: set[str]) -> bool:
    match call.func:
        case ast.Name(id=name) if name in functions:
            return not any(name in module.stored_names(above) for above in module.scopes(call))
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            owner = next((above for above in module.scopes(call) if isinstance(above, ast.ClassDef)), None)
            return owner is not None and name in module.once(_coroutine_functions, owner)
        case function:
            return module.dotted(function) in _COROUTINES


def _coroutine_functions(module: PythonModule, owner: ast.Module | ast.ClassDef) -> set[str]:
    """Undecorated `async def`s of a body that nothing else in it binds; generators are none."""
    bound: Counter[str] = Counter()
    plain: set[str] = set()
    for statement in owner.body:
        if isinstance(statement, ast.AsyncFunctionDef) and not statement.decorator_list:
            makes_values = any(isinstance(part, ast.Yield) for part in module.walk_scope(statement))
            plain |= set() if makes_values else {statement.name}
        bound.update(module.stored_names(ast.Module([statement], [])))
    return {name for name in plain if bound[name] == 1}


_CHECKS: Final[dict[str, Callable[[PythonModule], Iterator[tuple[ast.AST, str]]]]] = {
    "missing-await": _missing_await,
    "repeated-condition": _repeated_condition,
    "unreachable-code": _unreachable_code,
}


def check_module(module: PythonModule) -> Iterator[Finding]:
    """What the checks find in a module."""
    for name, check in _CHECKS.items():
        for node, what in check(module):
            line, symbol = getattr(node, "lineno", 1), module.symbol(node)
            yield RULES[name].on(module.name, line, what, column=module.column(node), symbol=symbol)
