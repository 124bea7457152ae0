"""The structure pass: how large the parts are, how they hang together, and which are hard to change."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any, Final

from ether.review.scout.files.limits import Limits
from ether.review.scout.files.source import Unreadable
from ether.review.scout.files.words import plural
from ether.review.scout.findings.bounded_table import table
from ether.review.scout.findings.finding import Finding
from ether.review.scout.findings.rule import RULES
from ether.review.scout.passes.dependencies import Dependencies
from ether.review.scout.passes.pass_report import PassReport, Seen
from ether.review.scout.passes.sizes import Sizes
from ether.review.scout.python.import_graph import ImportCollector
from ether.review.scout.python.todo_markers import Marker, markers_in

__all__ = ["StructurePass", "package_name"]

_COMPLEX: Final = 25
"""Cyclomatic complexity; McCabe proposed 10 as a function's limit, and few large projects keep even 20."""
_LONG: Final = 150
"""Lines of a function that is not simple either."""
_LARGE: Final = 2_000
"""Lines of a file."""
_SUBJECTS: Final = 20
"""Functions and classes: a large file with fewer is mostly a table."""
_COMPLEXITY: Final = re.compile(r"\((\d+) > ")
"""In ruff's message."""


class StructurePass:
    """Measures file by file; the import graph is drawn at the end."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._rows = (limits or Limits()).rows
        self._sizes = Sizes()
        self._imports = ImportCollector()
        self._functions: list[dict[str, Any]] = []
        self._markers: list[tuple[str, Marker]] = []
        self._findings: list[Finding] = []
        self._counts: Counter[str] = Counter()

    def see(self, seen: Seen) -> None:
        """Measure one file; of a vendored or generated one only the size counts."""
        source = seen.source
        self._sizes.add(source)
        if not source.is_ours:
            return
        self._markers += [(source.name, marker) for marker in markers_in(source, seen.module)]
        if seen.module is None:
            return
        self._imports.add(seen.module)
        symbols = [symbol for top in seen.symbols for symbol in top.walk()]
        self._counts.update(symbol.kind for symbol in symbols)
        if source.is_test:
            return  # a long test is a long story, and told once
        self._counts["public"] += sum(symbol.is_public for symbol in symbols)
        complexities = {finding.line: finding for finding in seen.found_for("structure")}
        for symbol in symbols:
            if symbol.kind != "class":
                told = _COMPLEXITY.search(complexities[symbol.line].message) if symbol.line in complexities else None
                self._take(source.name, symbol.line, symbol.qualname, symbol.body_lines, int(told[1]) if told else 0)
        if source.line_count > _LARGE and len(symbols) >= _SUBJECTS:
            what = f"The file has {source.line_count:,} lines and {len(symbols)} functions and classes"
            self._findings.append(RULES["large-file"].on(source.name, 1, what))

    def miss(self, file: Unreadable) -> None:
        """Nothing can be measured of it; the survey notes it."""

    def _take(self, path: str, line: int, name: str, lines: int, complexity: int) -> None:
        """Count a function in; its complexity is 0 where ruff calls it simple (10 or less)."""
        self._functions.append({"path": path, "line": line, "name": name, "lines": lines, "complexity": complexity})
        troubles = [f"a complexity of {complexity}"] if complexity > _COMPLEX else []
        troubles += [f"{lines} lines"] if lines > _LONG and complexity else []
        if troubles:
            what = f"`{name}` has {' and '.join(troubles)}"
            self._findings.append(RULES["hard-to-change-function"].on(path, line, what, symbol=name))

    def finish(self, root: Path) -> PassReport:
        """Draw the import graph and put the tables together."""
        depends = Dependencies(self._imports.graph(package_name(root)))
        kinds = Counter(marker.kind for _, marker in self._markers)
        data: dict[str, Any] = {
            **self._sizes.to_json(self._rows),
            "classes": self._counts["class"],
            "functions": self._counts["function"] + self._counts["method"],
            "public_symbols": self._counts["public"],
            "most_complex_functions": self._worst("complexity", "lines"),
            "longest_functions": self._worst("lines", "complexity"),
            "imports": depends.to_json(self._rows),
            "markers": {
                "counts": dict(sorted(kinds.items())),
                **table((_marker(path, marker) for path, marker in self._markers), self._rows),
            },
        }
        return PassReport([*self._findings, *depends.findings()], data, self._insights() + depends.insights())

    def _worst(self, first: str, second: str) -> dict[str, Any]:
        ranked = sorted(self._functions, key=lambda one: (-one[first], -one[second], one["path"], one["line"]))
        return table((function for function in ranked if function[first]), self._rows)

    def _insights(self) -> list[str]:
        sizes = self._sizes
        if not sizes.files:
            return ["There is nothing to read."]
        told = [f"{plural(sizes.files, 'file')}, {plural(sizes.lines, 'line')}, mostly {sizes.main_language()}."]
        if sizes.code_lines and sizes.test_lines:
            told.append(f"{sizes.test_lines / sizes.code_lines:.2f} lines of tests for each line of Python.")
        hardest = max(self._functions, key=lambda one: (one["complexity"], one["lines"]), default=None)
        if hardest and hardest["complexity"] > _COMPLEX:
            place, size = f"{hardest['path']}:{hardest['line']}", f"a complexity of {hardest['complexity']}"
            told.append(f"The hardest function to change is `{hardest['name']}` ({place}): {size}.")
        return told


def _marker(path: str, marker: Marker) -> dict[str, Any]:
    return {"path": path, "line": marker.line, "kind": marker.kind, "text": marker.text}


def package_name(root: Path) -> str:
    """The dotted name of a directory as a package, with those above it that have an `__init__.py` too."""
    names = [root.name or "root"]
    above = root.parent
    while (above / "__init__.py").is_file() and above.name:
        names.append(above.name)
        above = above.parent
    return ".".join(reversed(names))
