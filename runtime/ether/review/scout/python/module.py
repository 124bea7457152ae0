"""A parsed Python module: its tree, indexed once so that no check walks it again."""

from __future__ import annotations

import ast
import io
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias, TypeVar

from ether.review.scout.files.source import Source

__all__ = ["FUNCTIONS", "SCOPES", "Function", "PythonModule", "SyntaxProblem", "parse"]

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
"""What opens a namespace of its own (comprehensions aside, whose code runs where it stands)."""

_SIMPLE_STATEMENTS: Final[tuple[type[ast.stmt], ...]] = (
    ast.Expr,
    ast.Assign,
    ast.AnnAssign,
    ast.AugAssign,
    ast.Return,
    ast.Raise,
    ast.Assert,
    ast.Delete,
    ast.Import,
    ast.ImportFrom,
)
_BLOCK_OWNERS: Final[tuple[type[ast.AST], ...]] = (
    ast.Module,
    ast.ClassDef,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.With,
    ast.AsyncWith,
    ast.Try,
    ast.TryStar,
    ast.ExceptHandler,
    ast.match_case,
)
_BARE: Final = (ast.expr_context, ast.operator, ast.cmpop, ast.boolop, ast.unaryop)
_FILENAME: Final = "ether_scout_source.py"
_WARNING_FILTER: Final = r"ether_scout_source\Z"

N = TypeVar("N", bound=ast.AST)


@dataclass(frozen=True, slots=True)
class SyntaxProblem:
    """Why a module does not compile under the Python that runs the analysis."""

    message: str
    line: int
    column: int


class PythonModule:
    """A module that parses.

    Nodes are kept by type in the order of the text, each with its parent: a check asks `of(ast.Call)` and
    looks at some nodes, where a visitor of its own would look at all. Nothing here recurses into expressions,
    so a machine-written expression of any depth that the parser takes is analysed too.

    Attributes:
        source: the text.
        tree: the syntax tree.
    """

    def __init__(self, source: Source, tree: ast.Module) -> None:
        self.source = source
        self.tree = tree
        self._by_type: dict[type[ast.AST], list[Any]] = {}
        self._parents: dict[ast.AST, ast.AST] = {}
        self._order: list[ast.AST] = []
        self._place: dict[ast.AST, int] = {}
        self._size: list[int] = []
        self._index()

    def _index(self) -> None:
        """Put the nodes in the order of the text, so that what is below a node is a slice of one list.

        Operators and contexts are left out: they are half of all nodes, shared by all their places, and tell
        nothing that the node above does not.
        """
        above: list[int] = []
        stack: list[tuple[ast.AST, int]] = [(self.tree, -1)]
        while stack:
            node, parent = stack.pop()
            place = len(self._order)
            self._order.append(node)
            self._place[node] = place
            above.append(parent)
            self._by_type.setdefault(type(node), []).append(node)
            if parent >= 0:
                self._parents[node] = self._order[parent]
            stack.extend((child, place) for child in reversed(_children(node)))
        self._size = [1] * len(above)
        for place in range(len(above) - 1, 0, -1):
            self._size[above[place]] += self._size[place]

    def walk(self, node: ast.AST) -> list[ast.AST]:
        """The node and everything below it, in the order of the text; as `ast.walk`, and much faster."""
        place = self._place[node]
        return self._order[place : place + self._size[place]]

    def walk_scope(self, node: ast.AST) -> Iterator[ast.AST]:
        """Everything below a node that runs in its namespace: nested scopes are yielded, not entered."""
        place = self._place[node]
        end = place + self._size[place]
        place += 1
        while place < end:
            current = self._order[place]
            yield current
            place += self._size[place] if isinstance(current, SCOPES) else 1

    @property
    def name(self) -> str:
        """The path relative to the root."""
        return self.source.name

    @property
    def is_init(self) -> bool:
        """Whether it is a package's `__init__`."""
        return self.name.rpartition("/")[2] == "__init__.py"

    def of(self, kind: type[N]) -> list[N]:
        """The nodes of one type, in the order of the text."""
        return self._by_type.get(kind, [])

    @cached_property
    def functions(self) -> list[Function]:
        """Every `def` and `async def`."""
        return [*self.of(ast.FunctionDef), *self.of(ast.AsyncFunctionDef)]

    def parent(self, node: ast.AST) -> ast.AST:
        """The node that holds it; the module itself for the module."""
        return self._parents.get(node, self.tree)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """From the parent up to the module."""
        current = self._parents.get(node)
        while current is not None:
            yield current
            current = self._parents.get(current)

    def scope(self, node: ast.AST) -> ast.AST:
        """The innermost function, lambda, class or module round the node."""
        return next((above for above in self.ancestors(node) if isinstance(above, SCOPES)), self.tree)

    def function(self, node: ast.AST) -> Function | ast.Lambda | None:
        """The innermost function or lambda round the node, if one is."""
        kinds = (*FUNCTIONS, ast.Lambda)
        return next((above for above in self.ancestors(node) if isinstance(above, kinds)), None)

    def symbol(self, node: ast.AST) -> str:
        """The dotted name of the function or class that the node is or stands in."""
        names = [above.name for above in (node, *self.ancestors(node)) if isinstance(above, (*FUNCTIONS, ast.ClassDef))]
        return ".".join(reversed(names))

    def column(self, node: ast.AST) -> int:
        """The column in characters, from 1: the tree counts bytes of UTF-8."""
        offset: int = getattr(node, "col_offset", 0)
        line = self.source.lines[getattr(node, "lineno", 1) - 1]
        return offset + 1 if line.isascii() else len(line.encode()[:offset].decode(errors="ignore")) + 1

    @cached_property
    def tokens(self) -> list[tokenize.TokenInfo]:
        """The tokens; empty in the rare case that the tokenizer refuses what the parser takes."""
        try:
            return list(tokenize.generate_tokens(io.StringIO(self.source.text).readline))
        except (tokenize.TokenError, SyntaxError, ValueError):
            return []

    @cached_property
    def comments(self) -> dict[int, str]:
        """{line: comment with its #}."""
        if "#" not in self.source.text:
            return {}
        return {token.start[0]: token.string for token in self.tokens if token.type == tokenize.COMMENT}

    @cached_property
    def blocks(self) -> list[tuple[ast.AST, list[ast.stmt]]]:
        """Every list of statements, such as each branch of an `if`, with the node that holds it."""
        found: list[tuple[ast.AST, list[ast.stmt]]] = []
        for owner in (node for kind in _BLOCK_OWNERS for node in self.of(kind)):
            blocks = (getattr(owner, name, None) for name in ("body", "orelse", "finalbody"))
            found.extend((owner, block) for block in blocks if isinstance(block, list) and block)
        return found

    @cached_property
    def directives(self) -> list[str]:
        """The comments that silence a linter for the whole file."""
        return [text for text in self.comments.values() if "noqa" in text and ("flake8" in text or "ruff" in text)]

    @cached_property
    def spans(self) -> dict[int, tuple[int, int]]:
        """{line: (first, last) line of the simple statement that it belongs to}, for those of several lines."""
        simple = (node for kind in _SIMPLE_STATEMENTS for node in self.of(kind))
        ends = ((node.lineno, node.end_lineno or node.lineno) for node in simple)
        return {line: (first, last) for first, last in ends if first != last for line in range(first, last + 1)}

    @cached_property
    def origins(self) -> dict[str, str]:
        """{local name: dotted origin} of everything imported absolutely, anywhere in the module."""
        origins: dict[str, str] = {}
        for node in self.of(ast.Import):
            for alias in node.names:
                origins[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        for statement in self.of(ast.ImportFrom):
            if statement.module and not statement.level:
                for alias in statement.names:
                    origins[alias.asname or alias.name] = f"{statement.module}.{alias.name}"
        return origins

    @cached_property
    def rebound(self) -> set[str]:
        """Names that the module binds otherwise than by import: a builtin of that name may be shadowed."""
        names = {node.id for node in self.of(ast.Name) if not isinstance(node.ctx, ast.Load)}
        names.update(node.arg for node in self.of(ast.arg))
        names.update(node.name for node in self.of(ast.ClassDef))
        names.update(node.name for node in self.functions if not isinstance(self.parent(node), ast.ClassDef))
        names.update(node.name for node in self.of(ast.ExceptHandler) if node.name)
        return names

    def dotted(self, node: ast.AST) -> str:
        """What a name or attribute chain refers to, through the imports: `sp.run` is `subprocess.run`.

        A builtin is its bare name. Empty when the chain starts at anything else: a call, a parameter, a
        variable.
        """
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id in self.rebound:
            return ""
        origin = self.origins.get(node.id)
        if origin is None and parts:
            return ""
        return ".".join([origin or node.id, *reversed(parts)])


def parse(source: Source) -> PythonModule | SyntaxProblem:
    """Parse and compile a module, without running it; never raises for what a text can be.

    Compiling finds what parsing lets pass: `return` outside a function, `await` in a plain one.
    """
    _silence_compiler()
    try:
        tree = ast.parse(source.text, _FILENAME)
        compile(source.text, _FILENAME, "exec", dont_inherit=True)
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


def _children(node: ast.AST) -> list[ast.AST]:
    """The nodes right below one, without operators and contexts."""
    found: list[ast.AST] = []
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            found += [item for item in value if isinstance(item, ast.AST) and not isinstance(item, _BARE)]
        elif isinstance(value, ast.AST) and not isinstance(value, _BARE):
            found.append(value)
    return found
