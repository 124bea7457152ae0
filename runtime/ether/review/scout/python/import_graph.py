"""The import graph of a directory's modules."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ether.review.scout.python.module import PythonModule, last_name

__all__ = ["Edge", "ImportCollector", "ImportGraph", "module_name"]

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
class _Import:
    """An import as written, before it is known which modules there are."""

    path: str
    line: int
    at_import: bool
    level: int
    module: str
    names: tuple[str, ...]


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
        self._imports: list[_Import] = []

    def add(self, module: PythonModule) -> None:
        """Take a module and its imports in."""
        self._paths.append(module.name)
        for node in module.of(ast.Import):
            now = _runs_at_import(module, node)
            self._imports += [_Import(module.name, node.lineno, now, 0, alias.name, ()) for alias in node.names]
        for source in module.of(ast.ImportFrom):
            now = _runs_at_import(module, source)
            names = tuple(alias.name for alias in source.names)
            self._imports.append(_Import(module.name, source.lineno, now, source.level, source.module or "", names))

    def graph(self, root_name: str) -> ImportGraph:
        """Draw the graph.

        Args:
            root_name: the dotted name of the root directory, for when it is a package itself.
        """
        names = _module_names(self._paths, root_name)
        modules = {name: path for path, name in names.items()}
        best: dict[tuple[str, str], Edge] = {}
        for one in self._imports:
            source = names[one.path]
            for target in _targets(one, source, modules):
                if target in modules and target != source:
                    known = best.get((source, target))
                    if known is None or (one.at_import and not known.at_import):
                        best[source, target] = Edge(source, target, one.path, one.line, one.at_import)
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


def _targets(one: _Import, source: str, modules: dict[str, str]) -> Iterator[str]:
    base = _base(one, source)
    if not one.names:
        yield base
    for name in one.names:
        submodule = f"{base}.{name}" if base else name
        yield submodule if submodule in modules else base


def _base(one: _Import, source: str) -> str:
    """The absolute name of what stands after `from` or `import`."""
    if not one.level:
        return one.module
    parts = source.split(".")
    up = one.level - 1 if one.path.rpartition("/")[2] == "__init__.py" else one.level
    package = parts[: max(0, len(parts) - up)]
    return ".".join([*package, one.module] if one.module else package)


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
