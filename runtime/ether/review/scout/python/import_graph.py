"""The import graph of a directory's modules, and its cycles."""

from __future__ import annotations

import ast
import contextlib
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Final

from ether.review.scout.python.module import PythonModule, last_name

__all__ = ["Edge", "ImportCollector", "ImportGraph", "cycles", "module_name"]

_STARTS: Final = 64
"""Modules of a knot from which a way round is looked for: from all of a large one it would take quadratic time."""
_CIRCLE: Final = re.compile(r"circular|cycl", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Edge:
    """An import of one module by another."""

    source: str
    target: str
    path: str
    line: int
    at_import: bool
    """Whether it runs at import: not in a function, nor only for type checkers or scripts, nor known to be circular."""


@dataclass(frozen=True, slots=True)
class ImportGraph:
    """The imports between the modules of one directory."""

    modules: dict[str, str]
    """{dotted name: path}."""
    edges: list[Edge]
    """Once for each pair of modules; an import that runs at import time stands for those that do not."""


class ImportCollector:
    """The builder of an import graph: takes modules one at a time, and resolves their imports at the end."""

    def __init__(self) -> None:
        self._paths: list[str] = []
        self._imports: list[tuple[str, ast.Import | ast.ImportFrom, bool]] = []
        """(path, statement, whether it runs at import)."""

    def add(self, module: PythonModule) -> None:
        """Take a module and its imports in."""
        self._paths.append(module.name)
        statements: list[ast.Import | ast.ImportFrom] = [*module.of(ast.Import), *module.of(ast.ImportFrom)]
        self._imports += [(module.name, statement, _runs_at_import(module, statement)) for statement in statements]

    def graph(self, root_name: str) -> ImportGraph:
        """Draw the graph.

        Args:
            root_name: the dotted name of the root directory, for when it is a package itself.
        """
        names = _module_names(self._paths, root_name)
        modules = {name: path for path, name in names.items()}
        best: dict[tuple[str, str], Edge] = {}
        for path, statement, at_import in self._imports:
            source = names[path]
            for target in _targets(statement, path, source, modules):
                if target in modules and target != source:
                    known = best.get((source, target))
                    if known is None or (at_import and not known.at_import):
                        best[source, target] = Edge(source, target, path, statement.lineno, at_import)
        return ImportGraph(modules, [best[pair] for pair in sorted(best)])


def _module_names(paths: list[str], root_name: str) -> dict[str, str]:
    """{path: dotted name}, each name once: of two scripts called alike one gets its path instead."""
    packages = {path.rpartition("/")[0] for path in paths if path.rpartition("/")[2] == "__init__.py"}
    names: dict[str, str] = {}
    taken: set[str] = set()
    for path in sorted(paths, key=lambda path: (path.count("/"), path)):
        name = module_name(path, packages, root_name)
        if name in taken:
            name = path.removesuffix(".py").replace("/", ".")
        names[path] = name
        taken.add(name)
    return names


def module_name(path: str, packages: set[str], root_name: str) -> str:
    """The dotted name under which a file is imported.

    Args:
        path: the file, relative to the root.
        packages: the directories below the root that have an `__init__.py`; "" stands for the root itself.
        root_name: what the root is called, for when it is a package itself.

    Returns:
        The dotted name from the topmost package on, such as `click.core`, a folder in it without `__init__.py`
        included; for a file outside any package its stem.
    """
    *folders, file = path.split("/")
    inside = (depth for depth in range(len(folders) + 1) if "/".join(folders[:depth]) in packages)
    top = next(inside, len(folders) + 1)
    parts = [root_name, *folders] if top == 0 else folders[top - 1 :]
    return ".".join(parts if file == "__init__.py" else [*parts, file.removesuffix(".py")])


def _targets(
    statement: ast.Import | ast.ImportFrom, path: str, source: str, modules: dict[str, str]
) -> Iterator[str]:  # fmt: skip
    """The modules that a statement in the module `source` names, as far as one can tell."""
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
        return
    package: list[str] = []
    if statement.level:
        parts = source.split(".")
        up = statement.level - (path.rpartition("/")[2] == "__init__.py")
        package = parts[: max(0, len(parts) - up)]
    base = ".".join([*package, statement.module] if statement.module else package)
    for alias in statement.names:
        submodule = f"{base}.{alias.name}" if base else alias.name
        yield submodule if submodule in modules else base


def _runs_at_import(module: PythonModule, statement: ast.stmt) -> bool:
    """Whether it runs at import, and no comment says that its author knows of a circle."""
    if any(module.once(_knows_a_circle, line) for line in (statement.lineno - 1, statement.lineno)):
        return False
    return not module.is_inside(statement, _is_later)


def _knows_a_circle(module: PythonModule, line: int) -> bool:
    return _CIRCLE.search(module.comments.get(line, "")) is not None


def _is_later(node: ast.AST) -> bool:
    """Whether what is below runs in a function, for type checkers, or as a script."""
    if isinstance(node, ast.If):
        test = node.test.left if isinstance(node.test, ast.Compare) else node.test
        return last_name(test) in {"TYPE_CHECKING", "__name__"}
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))


def cycles(edges: Iterable[Edge]) -> list[list[Edge]]:
    """For each group of modules that import one another when imported, a short way round, as its edges.

    It is the shortest through any of the first 64 modules of the group, by name.

    Imports inside functions and under TYPE_CHECKING do not count: that is how a cycle is broken. Nor do those
    of a package from the modules in it: it has begun before they do, and mostly has what they take.
    """
    graph: dict[str, dict[str, Edge]] = defaultdict(dict)
    back: dict[str, dict[str, Edge]] = defaultdict(dict)
    for edge in edges:
        if edge.at_import and not edge.source.startswith(f"{edge.target}."):
            graph[edge.source][edge.target] = back[edge.target][edge.source] = edge
    left = _in_order(graph) & _in_order(back)
    rounds = []
    while left:
        group = _reached(graph, min(left), left) & _reached(back, min(left), left)
        left -= group
        if len(group) > 1:
            candidates = (_shortest(graph, start, group) for start in sorted(group)[:_STARTS])
            rounds.append(min((found for found in candidates if found), key=len))
    return sorted(rounds, key=lambda way: (len(way), way[0].source))


def _in_order(graph: Mapping[str, Iterable[str]]) -> set[str]:
    """What is left of a graph when all is taken away that has an order: what a cycle needs, and the cycles."""
    order = TopologicalSorter(graph)
    left = set(graph).union(*graph.values())
    with contextlib.suppress(CycleError):  # it still gives what comes before a cycle
        order.prepare()
    while ready := order.get_ready():
        left.difference_update(ready)
        order.done(*ready)
    return left


def _reached(graph: Mapping[str, Iterable[str]], start: str, within: set[str]) -> set[str]:
    found, pending = {start}, [start]
    while pending:
        further = within.intersection(graph.get(pending.pop(), ())) - found
        found |= further
        pending += further
    return found


def _shortest(graph: Mapping[str, dict[str, Edge]], start: str, group: set[str]) -> list[Edge]:
    """The edges of a shortest way from a module back to itself, breadth first."""
    came_by: dict[str, Edge] = {}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for target, edge in sorted(graph[node].items()):
            if target == start:
                way = [edge]
                while way[-1].source != start:
                    way.append(came_by[way[-1].source])
                return way[::-1]
            if target in group and target not in came_by:
                came_by[target] = edge
                queue.append(target)
    return []
