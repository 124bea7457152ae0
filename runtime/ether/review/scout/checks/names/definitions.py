"""Functions and classes that are defined otherwise than meant."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from ether.review.scout.files.words import words
from ether.review.scout.findings.finding import Finding, Severity
from ether.review.scout.findings.rule import Rule
from ether.review.scout.python.module import Function, PythonModule
from ether.review.scout.python.syntax_queries import has_base_named, is_stub, last_name, shown

__all__ = ["RULES", "check"]

DEFAULT_CALL = Rule(
    "default-evaluated-once",
    Severity.WARNING,
    "a default is computed once, when the function is defined, so every later call gets that first value",
    "Default to None and compute the value inside the function.",
    codes=("B008", "W9011"),
)
REDEFINITION = Rule(
    "redefinition",
    Severity.WARNING,
    "the second definition replaces the first before anything uses it, so the first never runs",
    "Rename one of them, or delete the one that is dead.",
    codes=("F811", "E0102", "function-redefined"),
    in_tests=True,
)
MISSING_SELF = Rule(
    "missing-self",
    Severity.ERROR,
    "calling it on an instance raises TypeError",
    "Add `self`, or mark it @staticmethod.",
    codes=("N805", "E0211", "no-method-argument"),
)
SPECIAL_ARITY = Rule(
    "special-method-arity",
    Severity.ERROR,
    "Python calls it with other arguments than it takes, which raises TypeError",
    "Take the parameters that the data model prescribes.",
    codes=("PLE0302", "E0302", "unexpected-special-method-signature"),
)
INIT_RETURN = Rule(
    "init-returns-value",
    Severity.ERROR,
    "Python raises TypeError when `__init__` returns anything but None",
    "Return nothing; make the value an attribute or a classmethod's result.",
    codes=("PLE0101", "E0101", "return-in-init"),
)
CACHED_METHOD = Rule(
    "cached-method",
    Severity.INFO,
    "the cache belongs to the class and holds `self`, so instances live on after their last use",
    "Use functools.cached_property, cache on the instance, or make it a function of what it reads.",
    codes=("B019", "W1518", "method-cache-max-size-none"),
)
RULES: Final = (DEFAULT_CALL, REDEFINITION, MISSING_SELF, SPECIAL_ARITY, INIT_RETURN, CACHED_METHOD)

_VOLATILE: Final = words(
    "time.time time.time_ns time.monotonic time.perf_counter datetime.datetime.now "
    "datetime.datetime.utcnow datetime.datetime.today datetime.date.today uuid.uuid1 uuid.uuid4 "
    "random.random random.randint random.choice secrets.token_hex secrets.token_urlsafe "
    "tempfile.mkdtemp os.getcwd pathlib.Path.cwd"
)
_HARMLESS_DECORATORS: Final = ("staticmethod", "classmethod", "pytest.mark.", "unittest.mock.patch")
_ARITY: Final = (
    dict.fromkeys(("__len__", "__iter__", "__next__", "__bool__", "__hash__", "__str__", "__repr__", "__del__"), 1)
    | dict.fromkeys(("__enter__", "__aenter__", "__await__", "__aiter__", "__anext__", "__reversed__"), 1)
    | dict.fromkeys(("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__", "__getitem__"), 2)
    | dict.fromkeys(("__delitem__", "__getattr__", "__getattribute__", "__delattr__", "__missing__"), 2)
    | dict.fromkeys(("__setitem__", "__setattr__", "__set_name__"), 3)
    | dict.fromkeys(("__exit__", "__aexit__"), 4)
)
"""{special method: arguments that Python passes, with self}."""


def check(module: PythonModule) -> Iterator[Finding]:
    """Defaults evaluated once, lost definitions, methods nobody can call, caches that keep instances."""
    for function in module.functions:
        yield from _defaults(module, function)
        owner = module.parent(function)
        if isinstance(owner, ast.ClassDef):
            yield from _method(module, function, owner)
    for owner, block in module.blocks:
        yield from _redefinitions(module, owner, block)


def _defaults(module: PythonModule, function: Function) -> Iterator[Finding]:
    for default in (*function.args.defaults, *function.args.kw_defaults):
        if isinstance(default, ast.Call) and module.dotted(default.func) in _VOLATILE:
            yield DEFAULT_CALL.at(module, default, f"The default `{shown(default)}` of `{function.name}`")


def _method(module: PythonModule, method: Function, owner: ast.ClassDef) -> Iterator[Finding]:
    yield from _cached(module, method, owner)
    if method.decorator_list:
        return
    yield from _no_self(module, method, owner)
    yield from _arity(module, method)
    if method.name == "__init__":
        yield from _init_return(module, method)


def _no_self(module: PythonModule, method: Function, owner: ast.ClassDef) -> Iterator[Finding]:
    spec = method.args
    if spec.posonlyargs or spec.args or spec.vararg or method.name in {"__new__", "__class_getitem__"}:
        return
    if has_base_named(owner, ("Interface",)) or _used_while_defined(method, owner) or _is_namespace(module, owner):
        return
    yield MISSING_SELF.at(module, method, f"The method `{owner.name}.{method.name}` takes no `self`")


def _is_namespace(module: PythonModule, owner: ast.ClassDef) -> bool:
    """Whether a class only groups functions: none takes `self`, or they are called on the class itself."""
    methods = (part for part in owner.body if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)))
    if not any(method.args.args and method.args.args[0].arg == "self" for method in methods):
        return True
    through_class = (node.value for node in module.of(ast.Attribute) if isinstance(node.value, ast.Name))
    return any(name.id in {owner.name, "cls"} for name in through_class)


def _used_while_defined(method: Function, owner: ast.ClassDef) -> bool:
    """A helper of the class body itself: called, wrapped or deleted there (`x = property(_get)`)."""
    statements = [part for part in owner.body if part is not method]
    return _mentions(statements, method.name)


def _arity(module: PythonModule, method: Function) -> Iterator[Finding]:
    passed = _ARITY.get(method.name)
    if passed is None:
        return
    spec = method.args
    positional = len(spec.posonlyargs) + len(spec.args)
    required = positional - len(spec.defaults)
    needs_keyword = any(default is None for default in spec.kw_defaults)
    if needs_keyword or required > passed or (positional < passed and not spec.vararg):
        yield SPECIAL_ARITY.at(
            module,
            method,
            f"`{method.name}` takes {positional} parameters and Python passes {passed} with self",
        )


def _init_return(module: PythonModule, method: Function) -> Iterator[Finding]:
    for node in module.of(ast.Return):
        value = node.value
        if value is None or module.function(node) is not method:
            continue
        containers = (ast.Dict, ast.List, ast.Tuple, ast.Set, ast.JoinedStr)
        if isinstance(value, containers) or (isinstance(value, ast.Constant) and value.value is not None):
            yield INIT_RETURN.at(module, node, f"`__init__` returns `{shown(value)}`")


def _cached(module: PythonModule, method: Function, owner: ast.ClassDef) -> Iterator[Finding]:
    if not method.args.args or method.args.args[0].arg != "self" or _compares_by_value(owner):
        return
    for decorator in method.decorator_list:
        call = decorator.func if isinstance(decorator, ast.Call) else decorator
        if module.dotted(call) in {"functools.lru_cache", "functools.cache"}:
            yield CACHED_METHOD.at(module, decorator, f"`{last_name(call)}` on the method `{method.name}`")


def _compares_by_value(owner: ast.ClassDef) -> bool:
    """Whether equal instances may share an entry of a cache: the class, or a base of it, may say so."""
    own = {part.name for part in owner.body if isinstance(part, ast.FunctionDef)}
    return bool(owner.decorator_list or owner.bases or own & {"__hash__", "__eq__"})


def _redefinitions(module: PythonModule, owner: ast.AST, block: list[ast.stmt]) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    for position, statement in enumerate(block):
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        name = statement.name
        first = seen.get(name)
        seen[name] = position
        if first is None or not name.strip("_"):
            continue
        if module.source.is_test and not name.lower().startswith("test"):
            continue  # a test's own stage
        before = block[first]
        if _is_lost(module, before) and not _mentions([*block[first + 1 : position], *_heads(statement)], name):
            kind = "test" if name.startswith("test") and module.source.is_test else "definition"
            inside = f" in `{owner.name}`" if isinstance(owner, ast.ClassDef) else ""
            yield REDEFINITION.at(
                module,
                statement,
                f"`{name}`{inside} is also defined in line {before.lineno} (that {kind} is lost)",
            )


def _is_lost(module: PythonModule, definition: ast.stmt) -> bool:
    """Whether nothing keeps a definition once its name is bound anew; a decorator may (`@app.route`)."""
    if not isinstance(definition, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return False
    if not isinstance(definition, ast.ClassDef) and is_stub(definition):
        return False
    callees = [part.func if isinstance(part, ast.Call) else part for part in definition.decorator_list]
    return all(module.dotted(callee).startswith(_HARMLESS_DECORATORS) for callee in callees)


def _heads(definition: ast.stmt) -> list[ast.AST]:
    """What runs while a definition is made: decorators, defaults, bases; its body runs later."""
    heads: list[ast.AST] = []
    if isinstance(definition, ast.ClassDef):
        heads = [*definition.bases, *definition.keywords]
    elif isinstance(definition, (ast.FunctionDef, ast.AsyncFunctionDef)):
        heads = [definition.args]
    return [*heads, *getattr(definition, "decorator_list", [])]


def _mentions(nodes: list[ast.stmt] | list[ast.AST], name: str) -> bool:
    return any(isinstance(part, ast.Name) and part.id == name for node in nodes for part in ast.walk(node))
