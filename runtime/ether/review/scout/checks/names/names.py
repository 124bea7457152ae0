"""Names that nothing defines, and names that nothing uses."""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Iterator
from typing import Final

from ether.review.scout.checks.names.imports import exported_names
from ether.review.scout.files.words import words
from ether.review.scout.findings.finding import Confidence, Finding, Severity
from ether.review.scout.findings.rule import Rule
from ether.review.scout.python.module import FUNCTIONS, Function, PythonModule
from ether.review.scout.python.syntax_queries import last_name, stored_names

__all__ = ["RULES", "check"]

UNDEFINED = Rule(
    "undefined-name",
    Severity.ERROR,
    "nothing in the module defines it, so this line raises NameError when it runs",
    "Import or define it, or correct the spelling.",
    codes=("F821", "E0602", "undefined-variable"),
    in_tests=True,
)
UNDEFINED_EXPORT = Rule(
    "undefined-export",
    Severity.ERROR,
    "`from module import *` raises AttributeError",
    "Define it, or take it out of `__all__`.",
    codes=("F822", "E0603", "undefined-all-variable"),
)
UNUSED_LOCAL = Rule(
    "unused-variable",
    Severity.INFO,
    "it is assigned and never read, so either the work is wasted or another name was meant",
    "Use it, or keep only the right-hand side if that is run for its effect.",
    codes=("F841", "W0612"),
)
SELF_ASSIGNMENT = Rule(
    "self-assignment",
    Severity.WARNING,
    "it changes nothing, so another name or attribute was probably meant",
    "Delete it, or write what was meant.",
    codes=("PLW0127", "W0127", "self-assigning-variable"),
)
RULES: Final = (UNDEFINED, UNDEFINED_EXPORT, UNUSED_LOCAL, SELF_ASSIGNMENT)

_MODULE_NAMES: Final = words(
    "__annotations__ __builtins__ __cached__ __debug__ __dict__ __doc__ __file__ __loader__ __module__ "
    "__name__ __package__ __path__ __qualname__ __spec__ __class__ WindowsError _ reveal_type "
    "reveal_locals get_ipython display __IPYTHON__"
)
"""Defined by Python, an interactive shell, gettext or a type checker."""
_BINDERS: Final = frozenset({"globals", "exec", "execfile", "vars", "_convert_", "_convert", "export"})
_NOT_NEEDED: Final = ("_", "dummy", "ignore", "unused", "junk")
_OTHER_SCOPES: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.ClassDef)
_OLD_PYTHON: Final = words(
    "unicode basestring long xrange raw_input unichr reduce file cmp execfile reload intern buffer apply"
)


def check(module: PythonModule) -> Iterator[Finding]:
    """Undefined names and exports, variables assigned and never read, `x = x`."""
    if not any(alias.name == "*" for node in module.of(ast.ImportFrom) for alias in node.names):
        yield from _undefined(module)
        yield from _exports(module)
    for function in module.functions:
        yield from _unused_locals(module, function)
    for assignment in module.of(ast.Assign):
        yield from _self_assignment(module, assignment)


def _undefined(module: PythonModule) -> Iterator[Finding]:
    if _binds_unseen(module):
        return
    table = symtable.symtable(module.source.text, "ether_scout_source.py", "exec")
    defined = _defined(table)
    missing = {name for name in _global_reads(table) if name not in defined} - _MODULE_NAMES - set(dir(builtins))
    if not missing:
        return
    for node in module.of(ast.Name):
        if node.id not in missing or not isinstance(node.ctx, ast.Load):
            continue
        if not _is_local(module, node) and not _is_expected(module, node):
            sure = Confidence.MEDIUM if module.source.is_test else Confidence.HIGH  # a test may want the NameError
            yield UNDEFINED.at(module, node, f"`{node.id}` is not defined", confidence=sure)
            missing.discard(node.id)  # told once a module: the first place is enough to mend it


def _binds_unseen(module: PythonModule) -> bool:
    """Whether names may come into being where no analysis sees them: `globals()[...] = `, `exec`, enums."""
    if any(last_name(call) in _BINDERS for call in module.of(ast.Call)):
        return True
    return any(last_name(node) == "global_enum" for owner in module.of(ast.ClassDef) for node in owner.decorator_list)


def _defined(table: symtable.SymbolTable) -> set[str]:
    """Names bound at module level, or declared `global` and bound in any function."""
    names = {symbol.get_name() for symbol in table.get_symbols() if _binds(symbol)}
    pending = list(table.get_children())
    while pending:
        inner = pending.pop()
        pending.extend(inner.get_children())
        names.update(s.get_name() for s in inner.get_symbols() if s.is_declared_global() and _binds(s))
    return names


def _binds(symbol: symtable.Symbol) -> bool:
    return symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace() or symbol.is_annotated()


def _global_reads(table: symtable.SymbolTable) -> set[str]:
    """Names read that Python will look up in the module and then among the builtins."""
    reads = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()}
    pending = list(table.get_children())
    while pending:
        inner = pending.pop()
        pending.extend(inner.get_children())
        reads.update(s.get_name() for s in inner.get_symbols() if s.is_global() and s.is_referenced())
    return reads


def _is_local(module: PythonModule, node: ast.Name) -> bool:
    """Whether a function round it binds the name: another function's global read has the same spelling."""
    for above in module.ancestors(node):
        if isinstance(above, (*FUNCTIONS, ast.Lambda)):
            spec = above.args
            every = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs, spec.vararg, spec.kwarg]
            if any(arg is not None and arg.arg == node.id for arg in every) or node.id in stored_names(module, above):
                return True
        elif isinstance(above, _OTHER_SCOPES) and node.id in stored_names(module, above):
            return True
    return False


def _is_expected(module: PythonModule, node: ast.Name) -> bool:
    """Whether the name may be missing knowingly: under `except NameError`, in a branch for Python 2."""
    for above in module.ancestors(node):
        if isinstance(above, (ast.With, ast.AsyncWith)) and module.source.is_test:
            return True  # `with raises(NameError):`
        if isinstance(above, ast.Try) and any(_catches_name_error(handler) for handler in above.handlers):
            return True
        if isinstance(above, (ast.If, ast.IfExp)) and node.id in _OLD_PYTHON:
            return True
    return False


def _catches_name_error(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    return any(
        isinstance(part, ast.Name) and part.id in {"NameError", "Exception", "BaseException"}
        for part in ast.walk(handler.type)
    )


def _exports(module: PythonModule) -> Iterator[Finding]:
    exported = exported_names(module)
    if not exported or _binds_unseen(module) or "__getattr__" in stored_names(module, module.tree):
        return
    defined = stored_names(module, module.tree)
    declared = {name for node in module.of(ast.Global) for name in node.names}
    for name in sorted(exported - defined - declared - _MODULE_NAMES):
        if module.is_init and name.isidentifier() and name.islower():
            continue  # may be a submodule, which `import *` then imports
        node = next(node for node in module.of(ast.Constant) if node.value == name)
        if not name.startswith("__"):
            yield UNDEFINED_EXPORT.at(module, node, f"`__all__` names `{name}`, which the module does not define")


def _unused_locals(module: PythonModule, function: Function) -> Iterator[Finding]:
    nodes = module.walk(function)
    if any(isinstance(node, ast.Call) and last_name(node) in {"locals", "vars", "exec", "eval"} for node in nodes):
        return
    read = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store)}
    declared = {name for node in nodes if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names}
    augmented = {
        node.target.id for node in nodes if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)
    }
    for node in module.walk_scope(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name) as target]):
                if name not in read | declared | augmented and not name.startswith(_NOT_NEEDED):
                    yield UNUSED_LOCAL.at(module, target, f"`{name}` in `{function.name}`")
                    read.add(name)


def _self_assignment(module: PythonModule, assignment: ast.Assign) -> Iterator[Finding]:
    match assignment:
        case ast.Assign(targets=[ast.Name(id=target)], value=ast.Name(id=value)) if target == value:
            if isinstance(module.scope(assignment), FUNCTIONS) and "type:" not in module.comments.get(
                assignment.lineno, ""
            ):
                yield SELF_ASSIGNMENT.at(module, assignment, f"`{target} = {value}`", confidence=Confidence.MEDIUM)
