"""Mutable objects shared by accident: defaults, class attributes, collections changed in a loop over them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from ether.review.scout.files.words import words
from ether.review.scout.findings.finding import Confidence, Finding, Severity
from ether.review.scout.findings.rule import Rule
from ether.review.scout.python.module import Function, PythonModule
from ether.review.scout.python.syntax_queries import blocks_below, has_base_named, last_name, shown

__all__ = ["RULES", "check"]

MUTABLE_DEFAULT = Rule(
    "mutable-default",
    Severity.WARNING,
    "the default is made once, so what one call changes the next call sees",
    "Default to None and make the object inside the function.",
    codes=("B006", "W0102", "dangerous-default-value"),
)
CLASS_ATTRIBUTE = Rule(
    "shared-class-attribute",
    Severity.INFO,
    "the object belongs to the class, so all instances change the same one",
    "Assign it in `__init__`, or annotate it as ClassVar and change it through the class.",
    Confidence.MEDIUM,
    codes=("RUF012",),
)
CHANGED_WHILE_ITERATED = Rule(
    "changed-while-iterated",
    Severity.ERROR,
    "a dict or set raises RuntimeError, and a list skips the element after each one removed",
    "Iterate over a copy: `list(...)`.",
    codes=("B909", "E4702", "E4703", "W4701", "modified-iterating-dict", "modified-iterating-list"),
)
RULES: Final = (MUTABLE_DEFAULT, CLASS_ATTRIBUTE, CHANGED_WHILE_ITERATED)

_DISPLAYS: Final = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_MAKERS: Final = frozenset({"list", "dict", "set", "bytearray", "defaultdict", "deque", "OrderedDict", "Counter"})
_MAPPINGS: Final = frozenset({"dict", "defaultdict", "OrderedDict", "Counter"})
"""A mapping in a class is mostly a cache or registry that all instances are meant to share."""
_CHANGES: Final = words(
    "add append appendleft clear discard extend extendleft insert pop popitem popleft remove reverse "
    "setdefault sort update"
)
_REMOVALS: Final = frozenset({"pop", "popitem", "remove", "clear", "discard"})
_OTHER_MEANING: Final = (
    "Model",
    "Enum",
    "NamedTuple",
    "TypedDict",
    "Protocol",
    "Struct",
    "Structure",
    "Schema",
    "Meta",
)
"""Bases whose class bodies declare fields instead of making attributes."""


def check(module: PythonModule) -> Iterator[Finding]:
    """Mutable defaults changed or given away, class attributes used as instance state, unsafe loops."""
    for function in module.functions:
        yield from _defaults(module, function)
    for owner in module.of(ast.ClassDef):
        yield from _class_attributes(module, owner)
    for loop in module.of(ast.For):
        yield from _loop(module, loop)


def _is_mutable(node: ast.AST | None) -> bool:
    return isinstance(node, _DISPLAYS) or (isinstance(node, ast.Call) and last_name(node) in _MAKERS)


def _defaults(module: PythonModule, function: Function) -> Iterator[Finding]:
    if module.function(function) is not None:
        return  # made anew at each call of the outer function, and there often a deliberate cell
    spec = function.args
    positional = [*spec.posonlyargs, *spec.args]
    pairs = [*zip(reversed(positional), reversed(spec.defaults), strict=False)]
    pairs += [(arg, default) for arg, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if default]
    for arg, default in pairs:
        if _is_meant(arg.arg):
            continue
        if _is_mutable(default) and (use := _shared_use(module, function, arg.arg)):
            what, confidence = use
            message = f"`{arg.arg}={shown(default)}` of `{function.name}` {what}"
            yield MUTABLE_DEFAULT.at(module, default, message, confidence=confidence)


def _is_meant(name: str) -> bool:
    """Whether the name says that what it holds outlives a call: the old idiom of a cache in a default."""
    return name.startswith("_") or any(word in name.lower() for word in ("cache", "memo", "registry"))


def _shared_use(module: PythonModule, function: Function, name: str) -> tuple[str, Confidence] | None:
    """How the body lets one call reach the next through the default; None when it only reads it.

    A default that is only read is a habit, not a bug. Once the name is bound anew (`x = list(x)`), what
    follows is about another object: such functions are let pass.
    """
    nodes = [part for statement in function.body for part in module.walk(statement)]
    if _is_bound_anew(nodes, name):
        return None
    owner = module.parent(function)
    for part in nodes:
        line = getattr(part, "lineno", 0)
        if _changes(part, ast.Name(name, ast.Load())):
            return f"is changed in line {line}", Confidence.HIGH
        match part:
            case ast.Return(value=ast.Name(id=given)) if given == name:
                return f"is returned in line {line}", Confidence.MEDIUM
            case ast.Assign(targets=[ast.Attribute() as kept], value=ast.Name(id=given)) if given == name:
                if changed := _first_change(module, owner, kept):
                    return f"is kept in line {line} and changed in line {changed}", Confidence.HIGH
    return None


def _first_change(module: PythonModule, owner: ast.AST, target: ast.expr) -> int | None:
    """The line where a class changes, in place, what one of its attributes holds."""
    if not isinstance(owner, ast.ClassDef):
        return None
    return next((getattr(part, "lineno", None) for part in module.walk(owner) if _changes(part, target)), None)


def _is_bound_anew(nodes: list[ast.AST], name: str) -> bool:
    """Whether something is assigned to the name; `name += ...` changes the object itself."""
    augmented = {id(node.target) for node in nodes if isinstance(node, ast.AugAssign)}
    stores = (node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    return any(node.id == name and id(node) not in augmented for node in stores)


def _changes(node: ast.AST, target: ast.expr) -> bool:
    """Whether a node changes the object that `target` names, in place."""
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in _CHANGES:
            return _alike(value, target)
        case ast.Subscript(value=value, ctx=ast.Store() | ast.Del()):
            return _alike(value, target)
        case ast.AugAssign(target=value):
            return _alike(value, target)
        case _:
            return False


def _alike(one: ast.expr, other: ast.expr) -> bool:
    """Whether both are the same chain of names, read or written."""
    while isinstance(one, ast.Attribute) and isinstance(other, ast.Attribute) and one.attr == other.attr:
        one, other = one.value, other.value
    return isinstance(one, ast.Name) and isinstance(other, ast.Name) and one.id == other.id


def _class_attributes(module: PythonModule, owner: ast.ClassDef) -> Iterator[Finding]:
    if owner.decorator_list or has_base_named(owner, _OTHER_MEANING):
        return
    for statement in owner.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.List() | ast.Set() | ast.Call() as value):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.List() | ast.Set() | ast.Call() as value):
                pass
            case _:
                continue
        if not _is_mutable(value) or last_name(value) in _MAPPINGS or _is_class_variable(statement):
            continue
        if not (name.isupper() or _is_meant(name.lstrip("_"))) and (line := _instance_change(module, owner, name)):
            message = f"`{owner.name}.{name} = {shown(value, 20)}` is changed through `self` in line {line}"
            yield CLASS_ATTRIBUTE.at(module, statement, message)


def _is_class_variable(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.AnnAssign) and "ClassVar" in shown(statement.annotation)


def _instance_change(module: PythonModule, owner: ast.ClassDef, name: str) -> int | None:
    """The line that changes `self.name` in place; None if it is ever assigned, or reached by the class."""
    changed: int | None = None
    target = ast.Attribute(ast.Name("self", ast.Load()), name, ast.Load())
    for part in module.walk(owner):
        if isinstance(part, ast.Attribute) and part.attr == name:
            through_self = isinstance(part.value, ast.Name) and part.value.id == "self"
            if not through_self or isinstance(part.ctx, ast.Store):
                return None
        if changed is None and _changes(part, target):
            changed = getattr(part, "lineno", None)
    return changed


def _loop(module: PythonModule, loop: ast.For) -> Iterator[Finding]:
    walked = _walked(loop.iter)
    if not isinstance(walked, (ast.Name, ast.Attribute)) or (isinstance(walked, ast.Name) and walked.id == "self"):
        return  # what iterating over `self` means is for its class to say
    for block in blocks_below(loop):
        for position, statement in enumerate(block):
            if _removes(statement, walked) and not _leaves(block[position + 1 :]):
                yield CHANGED_WHILE_ITERATED.at(
                    module,
                    statement,
                    f"`{shown(walked)}` loses elements while line {loop.lineno} iterates over it",
                )
                return


def _walked(iterated: ast.expr) -> ast.expr:
    """The collection behind `d.items()` and the like."""
    match iterated:
        case ast.Call(func=ast.Attribute(value=value, attr="keys" | "values" | "items"), args=[]):
            return value
        case _:
            return iterated


def _removes(statement: ast.stmt, walked: ast.expr) -> bool:
    match statement:
        case ast.Delete(targets=targets):
            return any(isinstance(target, ast.Subscript) and _alike(target.value, walked) for target in targets)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=value, attr=attr))) if attr in _REMOVALS:
            return _alike(value, walked)
        case _:
            return False


def _leaves(rest: list[ast.stmt]) -> bool:
    """Whether the loop ends before its next step: the usual "find one, remove it, break"."""
    return any(isinstance(statement, (ast.Break, ast.Return, ast.Raise)) for statement in rest)
