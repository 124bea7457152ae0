"""Which modules of a directory import which, and where that goes round in circles."""

from __future__ import annotations

import ast
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ether.scout.python_module import PythonModule
from ether.scout.syntax import is_type_checking_guard

__all__ = ["Edge", "ImportGraph", "module_name"]


@dataclass(frozen=True, slots=True)
class Edge:
    """One module imports another."""

    source: str
    target: str
    path: str
    line: int
    at_import: bool
    """Whether it runs when the importing module is imported: not in a function, not under TYPE_CHECKING."""


@dataclass(slots=True)
class _Import:
    """An import as written, before it is known which modules there are."""

    source: str
    is_init: bool
    path: str
    line: int
    at_import: bool
    level: int
    module: str
    names: tuple[str, ...]


def module_name(path: str, packages: frozenset[str] | set[str], root_name: str) -> str:
    """The dotted name under which a file is imported.

    Args:
        path: the file, relative to the root.
        packages: the directories below the root that have an `__init__.py`; "" stands for the root itself.
        root_name: what the root is called, for when it is a package itself.

    Returns:
        The dotted name from the topmost package on, such as `click.core`; for a file outside any package its stem.
    """
    directory, _, file = path.rpartition("/")
    parts = [] if file == "__init__.py" else [file.removesuffix(".py")]
    while directory in packages:
        if not directory:
            return ".".join([root_name, *reversed(parts)])
        directory, _, name = directory.rpartition("/")
        parts.append(name)
    return ".".join(reversed(parts)) or root_name


@dataclass(slots=True)
class ImportGraph:
    """The imports between the modules of one directory; others (the standard library, dependencies) only counted."""

    modules: dict[str, str] = field(default_factory=dict)
    """{dotted name: path}."""
    external: Counter[str] = field(default_factory=Counter)
    """{top-level package outside the directory: modules that import it}; filled by `edges`."""
    _imports: list[_Import] = field(default_factory=list)

    def add(self, name: str, module: PythonModule) -> None:
        """Take a module and its imports in."""
        self.modules[name] = module.name
        statements: list[ast.Import | ast.ImportFrom] = [*module.of(ast.Import), *module.of(ast.ImportFrom)]
        for statement in statements:
            at_import = _runs_at_import(module, statement)
            place = (name, module.is_init, module.name, statement.lineno, at_import)
            if isinstance(statement, ast.Import):
                self._imports.extend(_Import(*place, 0, alias.name, ()) for alias in statement.names)
            else:
                names = tuple(alias.name for alias in statement.names)
                self._imports.append(_Import(*place, statement.level, statement.module or "", names))

    def edges(self) -> list[Edge]:
        """The imports between modules of the directory, once for each pair; one that runs at import wins."""
        self.external.clear()
        best: dict[tuple[str, str], Edge] = {}
        outside: set[tuple[str, str]] = set()
        for one in self._imports:
            for target in self._targets(one):
                if target not in self.modules:
                    outside.add((target.partition(".")[0], one.source))
                elif target != one.source:
                    edge = Edge(one.source, target, one.path, one.line, one.at_import)
                    known = best.get((one.source, target))
                    if known is None or (edge.at_import and not known.at_import):
                        best[one.source, target] = edge
        self.external.update(package for package, _ in outside)
        return [best[pair] for pair in sorted(best)]

    def _targets(self, one: _Import) -> Iterator[str]:
        base = self._base(one)
        if not one.names:
            yield self._known_prefix(base)
            return
        for name in one.names:
            submodule = f"{base}.{name}" if base else name
            yield submodule if submodule in self.modules else self._known_prefix(base)

    def _base(self, one: _Import) -> str:
        """The absolute name of what stands after `from` or `import`."""
        if not one.level:
            return one.module
        parts = one.source.split(".")
        drop = one.level - 1 if one.is_init else one.level
        package = parts[: len(parts) - drop] if drop else parts
        return ".".join([*package, one.module] if one.module else package)

    def _known_prefix(self, name: str) -> str:
        """The longest beginning of a dotted name that is a module of the directory; the name itself when none is."""
        parts = name.split(".")
        for length in range(len(parts), 0, -1):
            prefix = ".".join(parts[:length])
            if prefix in self.modules:
                return prefix
        return name


def _runs_at_import(module: PythonModule, statement: ast.stmt) -> bool:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    return not any(isinstance(above, functions) or is_type_checking_guard(above) for above in module.ancestors(statement))


def cycles(edges: Iterable[Edge]) -> list[list[Edge]]:
    """For each group of modules that import one another when imported, a shortest way round, as its edges.

    Imports inside functions and under TYPE_CHECKING do not count: they are how a cycle is broken.
    """
    graph: dict[str, dict[str, Edge]] = {}
    for edge in edges:
        if edge.at_import:
            graph.setdefault(edge.source, {})[edge.target] = edge
    rounds = []
    for group in _groups(graph):
        candidates = (_shortest(graph, start, group) for start in sorted(group))
        rounds.append(min((found for found in candidates if found), key=len))
    return sorted(rounds, key=lambda way: (len(way), way[0].source))


def _groups(graph: dict[str, dict[str, Edge]]) -> list[set[str]]:
    """Strongly connected components of two modules or more: Tarjan's, with a stack instead of recursion."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    groups: list[set[str]] = []
    for root in sorted(graph):
        if root in index:
            continue
        work: list[tuple[str, Iterator[str]]] = [(root, iter(sorted(graph[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, targets = work[-1]
            target = next(targets, None)
            if target is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    group = _pop_group(stack, on_stack, node)
                    if len(group) > 1:
                        groups.append(group)
            elif target not in index:
                index[target] = low[target] = len(index)
                stack.append(target)
                on_stack.add(target)
                work.append((target, iter(sorted(graph.get(target, {})))))
            elif target in on_stack:
                low[node] = min(low[node], index[target])
    return groups


def _pop_group(stack: list[str], on_stack: set[str], last: str) -> set[str]:
    group: set[str] = set()
    while last not in group:
        member = stack.pop()
        on_stack.discard(member)
        group.add(member)
    return group


def _shortest(graph: dict[str, dict[str, Edge]], start: str, group: set[str]) -> list[Edge]:
    """The edges of a shortest way from a module back to itself, breadth first."""
    came_by: dict[str, Edge] = {}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for target, edge in sorted(graph.get(node, {}).items()):
            if target == start:
                way = [edge]
                while way[0].source != start:
                    way.insert(0, came_by[way[0].source])
                return way
            if target in group and target not in came_by:
                came_by[target] = edge
                queue.append(target)
    return []
