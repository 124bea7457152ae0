"""Coroutines that never run, because nobody awaits them."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from typing import Final

from ether.review.scout.python.module import PythonModule, shown

__all__ = ["missing_await"]

_COROUTINES: Final = frozenset({"asyncio.sleep", "asyncio.wait_for", "asyncio.wait", "asyncio.open_connection"})


def missing_await(module: PythonModule) -> Iterator[tuple[ast.AST, str]]:
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
