"""Imports that nothing uses, and names that newer Pythons have removed."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from ether.review.scout.files.words import words
from ether.review.scout.findings.finding import Finding, Severity
from ether.review.scout.findings.rule import Rule
from ether.review.scout.python.module import PythonModule
from ether.review.scout.python.syntax_queries import arguments_of, is_type_checking_guard, last_name, literal_text

__all__ = ["REMOVED", "RULES", "UNUSED_IMPORT", "check", "exported_names", "is_guarded"]

UNUSED_IMPORT = Rule(
    "unused-import",
    Severity.INFO,
    "it costs time at every start and tells the reader of a dependency that is not there",
    "Delete it; if others import it from here, list it in `__all__` or write `import x as x`.",
    codes=("F401", "W0611"),
)
REMOVED = Rule(
    "removed-from-python",
    Severity.WARNING,
    "the module stops working when its users upgrade",
    "",
    codes=("W4901", "W4902", "deprecated-module", "deprecated-method", "UP005", "PT009", "DTZ003", "DTZ004"),
    in_tests=True,
)
RULES: Final = (UNUSED_IMPORT, REMOVED)

_REMOVED_MODULES: Final = {
    "asynchat": ("3.12", "asyncio"),
    "asyncore": ("3.12", "asyncio"),
    "cgi": ("3.13", "email.message or a web framework"),
    "cgitb": ("3.13", "traceback"),
    "crypt": ("3.13", "hashlib, or bcrypt"),
    "distutils": ("3.12", "setuptools, packaging or shutil"),
    "imghdr": ("3.13", "filetype, or a check of the first bytes"),
    "imp": ("3.12", "importlib"),
    "nntplib": ("3.13", "a library for it"),
    "pipes": ("3.13", "subprocess, and shlex.quote"),
    "smtpd": ("3.12", "aiosmtpd"),
    "sndhdr": ("3.13", "filetype"),
    "spwd": ("3.13", "a library for it"),
    "telnetlib": ("3.13", "a library for it"),
    "uu": ("3.13", "base64"),
    "xdrlib": ("3.13", "struct"),
}
_REMOVED_NAMES: Final = {
    "asyncio.coroutine": ("3.11", "async def"),
    "base64.decodestring": ("3.9", "base64.decodebytes"),
    "base64.encodestring": ("3.9", "base64.encodebytes"),
    "cgi.escape": ("3.8", "html.escape"),
    "inspect.formatargspec": ("3.11", "inspect.signature"),
    "inspect.getargspec": ("3.11", "inspect.signature"),
    "locale.format": ("3.12", "locale.format_string"),
    "pkgutil.ImpImporter": ("3.12", "importlib"),
    "ssl.match_hostname": ("3.12", "SSLContext.check_hostname"),
    "ssl.wrap_socket": ("3.12", "SSLContext.wrap_socket"),
    "string.letters": ("3.0", "string.ascii_letters"),
    "string.maketrans": ("3.0", "str.maketrans"),
    "time.clock": ("3.8", "time.perf_counter"),
    "unittest.makeSuite": ("3.13", "TestLoader.loadTestsFromTestCase"),
} | {
    f"collections.{name}": ("3.10", f"collections.abc.{name}")
    for name in words(
        "Callable Container Hashable ItemsView Iterable Iterator KeysView Mapping MappingView "
        "MutableMapping MutableSequence MutableSet Sequence Set Sized ValuesView"
    )
}
_REMOVED_ASSERTIONS: Final = {
    "assertEquals": "assertEqual",
    "assertNotEquals": "assertNotEqual",
    "assertAlmostEquals": "assertAlmostEqual",
    "assertNotAlmostEquals": "assertNotAlmostEqual",
    "assertRegexpMatches": "assertRegex",
    "assertNotRegexpMatches": "assertNotRegex",
    "assertRaisesRegexp": "assertRaisesRegex",
    "assert_": "assertTrue",
    "failUnless": "assertTrue",
    "failIf": "assertFalse",
}
_FACADES: Final = frozenset({"__init__.py", "conftest.py", "compat.py", "_compat.py", "api.py", "setup.py"})
_WORD: Final = re.compile(r"[A-Za-z_]\w*")
_TYPE_TEXT: Final = re.compile(r"[\w.\[\]'\"]+(?:(?:, ?| ?\| ?)[\w.\[\]'\"]+)*")
"""A string that may be a forward reference, such as `"list[Node] | None"`."""
_KEEP_COMMENT: Final = re.compile(
    r"re-?export|side.?effect|unused|compat|registers?\b|public api|for api", re.IGNORECASE
)


def check(module: PythonModule) -> Iterator[Finding]:
    """Module-level imports that nothing in the module uses; modules and names that Python no longer has.

    What another module of the same directory imports from here is not known at this point: the pass over the
    whole directory drops such findings (`ether.review.scout.passes.bugs`).
    """
    yield from _unused(module)
    yield from _removed(module)


def exported_names(module: PythonModule) -> set[str] | None:
    """The names in `__all__`; an empty set without one, and None when it is computed at run time."""
    names: set[str] = set()
    for node in module.tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                pass
            case ast.AnnAssign(target=ast.Name(id="__all__"), value=ast.expr() as value):
                pass
            case ast.AugAssign(target=ast.Name(id="__all__"), value=value):
                pass
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="__all__")))):
                return None
            case _:
                continue
        texts = [literal_text(element) for element in getattr(value, "elts", ())]
        if not isinstance(value, (ast.List, ast.Tuple)) or None in texts:
            return None
        names.update(text for text in texts if text is not None)
    return names


def _unused(module: PythonModule) -> Iterator[Finding]:
    exported = exported_names(module)
    if exported is None or _is_facade(module):
        return
    used = _used_names(module) | exported | _bound_by_several(module)
    stem = module.name.rpartition("/")[2].removesuffix(".py")
    for statement in _module_imports(module):
        if isinstance(statement, ast.ImportFrom) and _offers(statement, stem):
            continue
        if any(_KEEP_COMMENT.search(module.comments.get(line, "")) for line in _lines(statement)):
            continue
        for alias in statement.names:
            bound = alias.asname or alias.name
            reexport = alias.asname is not None and alias.asname == alias.name.rpartition(".")[2]
            if reexport or bound == "*" or "." in bound or bound in used or bound.startswith("__"):
                continue
            what = f"`{bound}` is imported and never used"
            yield UNUSED_IMPORT.at(module, alias, what)


def _offers(statement: ast.ImportFrom, stem: str) -> bool:
    """Whether a public module takes names from a private one to offer them: `util` from `._bootstrap`."""
    source = (statement.module or "").rpartition(".")[2]
    if source in {"__future__", "_" + stem}:
        return True
    return statement.level > 0 and source.startswith("_") and not stem.startswith("_")


def _lines(statement: ast.stmt) -> range:
    return range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)


def _is_facade(module: PythonModule) -> bool:
    """Whether it exists to offer what others define, or hides uses from us: `exec`, `globals()`."""
    if module.name.rpartition("/")[2] in _FACADES:
        return True
    if any(last_name(call) in {"globals", "locals", "exec", "eval", "vars"} for call in module.of(ast.Call)):
        return True
    rest = (node for node in module.tree.body if not isinstance(node, (ast.Import, ast.ImportFrom)))
    kinds = (ast.Expr, ast.Assign, ast.AnnAssign, ast.If, ast.Try)
    return all(isinstance(node, kinds) for node in rest)


def _module_imports(module: PythonModule) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports at module level; those in a `try` ask whether something is there, so they count as used."""
    statements: list[ast.Import | ast.ImportFrom] = [*module.of(ast.Import), *module.of(ast.ImportFrom)]
    for statement in statements:
        if all(isinstance(owner, (ast.Module, ast.If)) for owner in module.ancestors(statement)):
            yield statement


def _bound_by_several(module: PythonModule) -> set[str]:
    """Names that two imports offer, as for two versions of Python: whoever writes that wants others to import them."""
    bound = Counter(alias.asname or alias.name for statement in _module_imports(module) for alias in statement.names)
    return {name for name, count in bound.items() if count > 1}


def _used_names(module: PythonModule) -> set[str]:
    used = {node.id for node in module.of(ast.Name) if not isinstance(node.ctx, ast.Store)}
    for node in module.of(ast.Constant):
        if isinstance(node.value, str) and _TYPE_TEXT.fullmatch(node.value):
            used.update(_WORD.findall(node.value))
    for comment in module.comments.values():
        if "type:" in comment:
            used.update(_WORD.findall(comment))
    if ">>>" in module.source.text:
        prompts = (line for line in module.source.lines if line.lstrip().startswith((">>>", "...")))
        used.update(word for line in prompts for word in _WORD.findall(line))
    if module.source.is_test:  # pytest's fixtures are imported by name and used as parameters
        used.update(arg.arg for function in module.functions for arg in arguments_of(function))
    used.update(name for node in module.of(ast.Global) for name in node.names)
    return used


def _removed(module: PythonModule) -> Iterator[Finding]:
    for statement in module.of(ast.Import):
        for alias in statement.names:
            yield from _removed_module(module, statement, alias.name)
    for source in module.of(ast.ImportFrom):
        if source.module and not source.level:
            yield from _removed_module(module, source, source.module)
            for alias in source.names:
                yield from _removed_name(module, source, f"{source.module}.{alias.name}")
    for attribute in module.of(ast.Attribute):
        yield from _removed_name(module, attribute, module.dotted(attribute))
        yield from _removed_assertion(module, attribute)


def _removed_assertion(module: PythonModule, attribute: ast.Attribute) -> Iterator[Finding]:
    new = _REMOVED_ASSERTIONS.get(attribute.attr)
    on_self = isinstance(attribute.value, ast.Name) and attribute.value.id == "self"
    if new and on_self and isinstance(module.parent(attribute), ast.Call):
        what = f"`self.{attribute.attr}` was removed in Python 3.12"
        yield REMOVED.at(module, attribute, what, severity=Severity.ERROR, fix=f"Call `self.{new}`.")


def _removed_module(module: PythonModule, node: ast.stmt, name: str) -> Iterator[Finding]:
    gone = _REMOVED_MODULES.get(name.partition(".")[0])
    if gone and not is_guarded(module, node):
        yield REMOVED.at(module, node, f"`{name}` was removed in Python {gone[0]}", fix=f"Use {gone[1]}.")


def _removed_name(module: PythonModule, node: ast.AST, name: str) -> Iterator[Finding]:
    gone = _REMOVED_NAMES.get(name)
    if gone and not is_guarded(module, node):
        yield REMOVED.at(
            module,
            node,
            f"`{name}` was removed in Python {gone[0]}",
            severity=Severity.ERROR,
            fix=f"Use {gone[1]}.",
        )


def is_guarded(module: PythonModule, node: ast.AST) -> bool:
    """Whether code asks first: inside a `try`, an `except`, or an `if` about versions or attributes."""
    for above in module.ancestors(node):
        if isinstance(above, (ast.Try, ast.ExceptHandler)) or is_type_checking_guard(above):
            return True
        if isinstance(above, (ast.If, ast.IfExp)) and _asks_version(above.test):
            return True
    return False


def _asks_version(test: ast.expr) -> bool:
    names = {last_name(part) for part in ast.walk(test)}
    known = {"hexversion", "hasattr", "PY2", "PY3", "WINDOWS", "platform"}
    return bool(names & known) or any(name.endswith("version_info") for name in names)
