"""A parsed Python module: its tree, indexed once so that no check walks it again."""

from __future__ import annotations

import ast
import bisect
import io
import itertools
import re
import symtable
import tokenize
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias, TypeVar

from ether.review.scout.files.source import Source

__all__ = ["FUNCTIONS", "SCOPES", "Function", "PythonModule", "SyntaxProblem", "last_name", "parse", "shown"]

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES: Final = (*FUNCTIONS, ast.ClassDef, ast.Lambda)
"""What opens a namespace of its own (comprehensions aside, whose code runs where it stands)."""
_VERSION: Final = re.compile(r"version_info$|^(?:is_?)?py(?:thon)?_?[23]|^pypy", re.IGNORECASE)
_COMPILED: Final = 50_000
"""Characters; as many lambdas of one kind as fit in compile in 0.8 s, and twice as many in 3 s."""
_FILENAME: Final = "ether_scout_source.py"
_WARNING_FILTER: Final = r"ether_scout_source\Z"

N = TypeVar("N", bound=ast.AST)
K = TypeVar("K")
T = TypeVar("T")
Place: TypeAlias = tuple[int, int]
"""Line and column, in characters from 1."""


@dataclass(frozen=True, slots=True)
class SyntaxProblem:
    """The reason why Python refuses a text, and where."""

    message: str
    line: int
    column: int


class PythonModule:
    """A Python module that compiles, parsed.

    What is asked for each finding is looked up, not searched for: a text of a megabyte can have a finding in
    each of its lines, and each line the depth of the whole (an `elif` is an `if` inside the one above it).
    """

    def __init__(self, source: Source, tree: ast.Module) -> None:
        self.source = source
        self.tree = tree
        self._by_type: dict[type[ast.AST], list[Any]] = {}
        self._by_line: dict[int, list[ast.AST]] = {}
        self._parents: dict[ast.AST, ast.AST] = {}
        self._scopes: dict[ast.AST, ast.AST] = {}
        self._answers: dict[tuple[Callable[..., Any], Any], Any] = {}
        self._inside: dict[Callable[[ast.AST], bool], dict[ast.AST, bool]] = {}
        for node in ast.walk(tree):
            self._by_type.setdefault(type(node), []).append(node)
            self._by_line.setdefault(getattr(node, "lineno", 0), []).append(node)
            for child in ast.iter_child_nodes(node):
                self._parents[child] = node

    @property
    def name(self) -> str:
        """The path relative to the root."""
        return self.source.name

    def of(self, kind: type[N]) -> list[N]:
        """The nodes of one type, level by level."""
        return self._by_type.get(kind, [])

    def once(self, question: Callable[[PythonModule, K], T], about: K) -> T:
        """The answer to a question about a node, a line or a text of the module, worked out the first time only.

        What it is about must be hashable, as nodes and types are.
        """
        key = (question, about)
        if key not in self._answers:
            self._answers[key] = question(self, about)
        answer: T = self._answers[key]
        return answer

    def at(self, line: int) -> list[ast.AST]:
        """The nodes that begin in a line."""
        return self._by_line.get(line, [])

    def at_place(self, kind: type[N], line: int, column: int) -> list[N]:
        """The nodes of one type that begin at a place, level by level."""
        places: dict[Place, list[N]] = self.once(_places, kind)
        return places.get((line, column), [])

    def parent(self, node: ast.AST) -> ast.AST:
        """The node that holds it; the module itself for the module."""
        return self._parents.get(node, self.tree)

    def scopes(self, node: ast.AST) -> Iterator[ast.AST]:
        """The functions, classes and lambdas round a node, from the innermost out."""
        while (node := self._scope(node)) is not self.tree:
            yield node

    def _scope(self, node: ast.AST) -> ast.AST:
        way: list[ast.AST] = []
        while node not in self._scopes:
            way.append(node)
            node = self.parent(node)
            if node is self.tree or isinstance(node, SCOPES):
                break
        else:
            node = self._scopes[node]
        self._scopes.update(dict.fromkeys(way, node))
        return node

    def is_inside(self, node: ast.AST, question: Callable[[ast.AST], bool]) -> bool:
        """Whether a question is true of a node above; it is asked once of each, however many are below."""
        known = self._inside.setdefault(question, {self.tree: False})
        way: list[ast.AST] = []
        while node not in known:
            way.append(node)
            node = self.parent(node)
        for below in reversed(way):
            known[below] = known[node] or question(node)
            node = below
        return known[node]

    def walk_scope(self, node: ast.AST) -> Iterator[ast.AST]:
        """Everything below a node that runs in its namespace: nested scopes are yielded, not entered."""
        pending = list(ast.iter_child_nodes(node))
        while pending:
            current = pending.pop()
            yield current
            if not isinstance(current, SCOPES):
                pending.extend(ast.iter_child_nodes(current))

    def function_at(self, line: int) -> Function | None:
        """The innermost function that a line belongs to."""
        number = bisect.bisect_right(self._function_lines, line)
        if not number:
            return None
        last = self.functions[number - 1]  # functions do not overlap: it is this one, or one that holds it
        around = (one for one in (last, *self.scopes(last)) if isinstance(one, FUNCTIONS))
        return next((one for one in around if line <= (one.end_lineno or 0)), None)

    @cached_property
    def functions(self) -> list[Function]:
        """The functions in the order of their lines."""
        return sorted([*self.of(ast.FunctionDef), *self.of(ast.AsyncFunctionDef)], key=lambda one: one.lineno)

    @cached_property
    def _function_lines(self) -> list[int]:
        return [one.lineno for one in self.functions]

    def symbol(self, node: ast.AST | None) -> str:
        """The dotted name of the function or class that the node is or stands in."""
        above = () if node is None else (node, *self.scopes(node))
        return ".".join(reversed([one.name for one in above if isinstance(one, (*FUNCTIONS, ast.ClassDef))]))

    def column(self, node: ast.AST) -> int:
        """The column in characters, from 1: the tree counts bytes of UTF-8."""
        line, offset = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        if self.source.lines[line - 1].isascii():
            return int(offset) + 1
        return bisect.bisect_right(self.once(_ends, line), offset) + 1

    @cached_property
    def comments(self) -> dict[int, str]:
        """{line: comment with its #}; empty in the rare case that the tokenizer refuses what the parser takes."""
        if "#" not in self.source.text:
            return {}
        try:
            tokens = list(tokenize.generate_tokens(io.StringIO(self.source.text).readline))
        except (tokenize.TokenError, SyntaxError, ValueError):
            return {}
        return {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}

    @cached_property
    def origins(self) -> dict[str, str]:
        """{local name: dotted origin} of everything imported absolutely, anywhere in the module."""
        origins: dict[str, str] = {}
        for node in self.of(ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                origins[alias.asname or top] = alias.name if alias.asname else top
        for statement in self.of(ast.ImportFrom):
            if statement.module and not statement.level:
                names = statement.names
                origins.update((alias.asname or alias.name, f"{statement.module}.{alias.name}") for alias in names)
        return origins

    def dotted(self, node: ast.AST) -> str:
        """What a chain of attributes refers to, through the imports: `sp.run` is `subprocess.run`; else empty."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        origin = self.origins.get(node.id) if isinstance(node, ast.Name) else None
        return ".".join([origin, *reversed(parts)]) if origin else ""

    def stored_names(self, node: ast.AST) -> set[str]:
        """Names bound in the namespace of a function, class or module: by assignment, import, `def`, argument."""
        return self.once(_stored_names, node)

    def is_guarded(self, node: ast.AST) -> bool:
        """Whether code asks first: inside a `try`, or an `if` about versions, platforms or attributes."""
        return self.is_inside(node, _asks)


def _places(module: PythonModule, kind: type[N]) -> dict[Place, list[N]]:
    """{where they begin: nodes of one type}."""
    places: dict[Place, list[N]] = {}
    for node in module.of(kind):
        places.setdefault((getattr(node, "lineno", 1), module.column(node)), []).append(node)
    return places


def _ends(module: PythonModule, line: int) -> list[int]:
    """The byte after each character of a line."""
    return list(itertools.accumulate(len(character.encode()) for character in module.source.lines[line - 1]))


def _stored_names(module: PythonModule, node: ast.AST) -> set[str]:
    names: set[str] = set()
    for part in module.walk_scope(node):
        match part:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.alias(name=origin, asname=asname):
                names.add(asname or origin.partition(".")[0])
    return names


def _asks(node: ast.AST) -> bool:
    if not isinstance(node, (ast.If, ast.IfExp)):
        return isinstance(node, ast.Try)
    names = {last_name(part) for part in ast.walk(node.test)}
    known = {"hexversion", "version_info", "hasattr", "PY2", "PY3", "WINDOWS", "platform", "TYPE_CHECKING"}
    return bool(names & known) or any(_VERSION.search(name) for name in names)


def parse(source: Source) -> PythonModule | SyntaxProblem:
    """Parse and compile a module, without running it; never raises for what a text can be.

    Compiling finds what parsing lets pass: `return` outside a function, `await` in a plain one. It can take a
    time that grows with the square of the text, and nothing ends it: of a text of over 50,000 characters only
    the names are resolved, which finds a `global` or an argument too many.
    """
    _silence_compiler()
    try:
        tree = ast.parse(source.text, _FILENAME)
        if len(source.text) <= _COMPILED:
            compile(source.text, _FILENAME, "exec", dont_inherit=True)
        else:
            symtable.symtable(source.text, _FILENAME, "exec")
    except SyntaxError as error:
        return SyntaxProblem(_first_line(error.msg or "invalid syntax"), error.lineno or 1, max(error.offset or 1, 1))
    except (RecursionError, MemoryError):
        return SyntaxProblem("nested too deeply for Python's own parser", 1, 1)
    except (ValueError, OverflowError) as error:
        return SyntaxProblem(_first_line(str(error)), 1, 1)
    return PythonModule(source, tree)


def _first_line(message: str) -> str:
    return message.partition("\n")[0]


def _silence_compiler() -> None:
    """Keep warnings about analysed code (bad escapes and the like) from the user's terminal.

    Not `warnings.catch_warnings`: it swaps a list of the whole process, and analyses run in several threads.
    One filter for our made-up file name, put back if somebody reset the list, touches nobody else.
    """
    first = warnings.filters[0][3] if warnings.filters else None
    if getattr(first, "pattern", first) != _WARNING_FILTER:
        warnings.filterwarnings("ignore", module=_WARNING_FILTER)


def last_name(node: ast.AST | None) -> str:
    """The last part of a name or attribute chain, also when called: `a.b.C(1)` gives `C`; else empty."""
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def shown(node: ast.AST, limit: int = 40) -> str:
    """The code of a node for a message, on one line and cut at `limit` characters."""
    try:
        text = " ".join(ast.unparse(node).split())
    except RecursionError:
        return "…"
    return text if len(text) <= limit else text[: limit - 1] + "…"
