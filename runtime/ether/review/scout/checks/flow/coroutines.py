"""Coroutines that never run, tasks that may vanish, calls that stop the event loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from ether.review.scout.files.words import words
from ether.review.scout.findings.finding import Finding, Severity
from ether.review.scout.findings.rule import Rule
from ether.review.scout.python.module import SCOPES, PythonModule
from ether.review.scout.python.syntax_queries import shown, stored_names

__all__ = ["RULES", "check"]

MISSING_AWAIT = Rule(
    "missing-await",
    Severity.ERROR,
    "calling a coroutine function only makes the coroutine, so its body never runs",
    "Put `await` before the call.",
    codes=("RUF029", "E1702"),
    in_tests=True,
)
DANGLING_TASK = Rule(
    "dangling-task",
    Severity.WARNING,
    "the event loop keeps only a weak reference, so the task can vanish before it ends and its error is lost",
    "Keep the task in a variable or a set, or use asyncio.TaskGroup.",
    codes=("RUF006",),
)
BLOCKING = Rule(
    "blocking-call-in-async",
    Severity.WARNING,
    "it stops the event loop, and with it every other task, until it returns",
    "Await the asynchronous twin, or run it with asyncio.to_thread.",
    codes=("ASYNC210", "ASYNC220", "ASYNC221", "ASYNC222", "ASYNC251", "ASYNC100", "ASYNC101"),
)
RULES: Final = (MISSING_AWAIT, DANGLING_TASK, BLOCKING)

_COROUTINES: Final = frozenset({"asyncio.sleep", "asyncio.wait_for", "asyncio.wait", "asyncio.open_connection"})
_SPAWNERS: Final = frozenset({"asyncio.create_task", "asyncio.ensure_future"})
_BLOCKING: Final = words(
    "time.sleep subprocess.run subprocess.call subprocess.check_call subprocess.check_output os.system "
    "urllib.request.urlopen requests.get requests.post requests.put requests.patch requests.delete "
    "requests.head requests.request httpx.get httpx.post"
)


def check(module: PythonModule) -> Iterator[Finding]:
    """Calls of the module's own coroutine functions without `await`, tasks nobody keeps, blocking calls."""
    if "async" not in module.source.text and "asyncio" not in module.source.text:
        return
    functions = _coroutine_functions(module.tree, module)
    methods = {owner: _coroutine_functions(owner, module) for owner in module.of(ast.ClassDef)}
    for expression in module.of(ast.Expr):
        if isinstance(expression.value, ast.Call):
            yield from _alone(module, expression.value, functions, methods)
    for call in module.of(ast.Call):
        if module.dotted(call.func) in _BLOCKING and isinstance(module.function(call), ast.AsyncFunctionDef):
            yield BLOCKING.at(module, call, f"`{shown(call)}` in an `async def`")


def _coroutine_functions(owner: ast.Module | ast.ClassDef, module: PythonModule) -> set[str]:
    """Undecorated `async def`s of a body that nothing else in it binds; generators are none."""
    plain: set[str] = set()
    bound_twice: set[str] = set()
    for statement in owner.body:
        if isinstance(statement, ast.AsyncFunctionDef) and not statement.decorator_list:
            (bound_twice if statement.name in plain else plain).add(statement.name)
        elif isinstance(statement, SCOPES):
            bound_twice.add(getattr(statement, "name", ""))
        else:
            bound_twice |= stored_names(module, statement)
    yielding = (module.function(node) for node in module.of(ast.Yield))
    return plain - bound_twice - {getattr(function, "name", "") for function in yielding}


def _alone(
    module: PythonModule, call: ast.Call, functions: set[str], methods: dict[ast.ClassDef, set[str]]
) -> Iterator[Finding]:
    """A call that is a statement of its own: nothing can await its result any more."""
    target = module.dotted(call.func)
    if target in _SPAWNERS:
        yield DANGLING_TASK.at(module, call, f"Nothing keeps the task of `{shown(call)}`")
    elif target in _COROUTINES or _is_own(module, call, functions, methods):
        yield MISSING_AWAIT.at(module, call, f"`{shown(call)}` is not awaited")


def _is_own(module: PythonModule, call: ast.Call, functions: set[str], methods: dict[ast.ClassDef, set[str]]) -> bool:
    match call.func:
        case ast.Name(id=name):
            return name in functions and not _is_bound_inside(module, call, name)
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            owner = next((above for above in module.ancestors(call) if isinstance(above, ast.ClassDef)), None)
            return owner is not None and name in methods[owner]
        case _:
            return False


def _is_bound_inside(module: PythonModule, node: ast.AST, name: str) -> bool:
    function = module.function(node)
    while function is not None:
        if name in stored_names(module, function) or any(
            arg.arg == name for arg in module.walk(function.args) if isinstance(arg, ast.arg)
        ):
            return True
        function = module.function(function)
    return False
