"""The structure pass: how large the parts are, how they hang together, and which are hard to change."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any, Final

from ether.review.scout.files.limits import ScanLimits
from ether.review.scout.files.source import Unreadable
from ether.review.scout.files.words import plural
from ether.review.scout.findings.bounded_table import table
from ether.review.scout.findings.finding import Finding
from ether.review.scout.findings.rule import RULES
from ether.review.scout.passes.dependencies import Dependencies
from ether.review.scout.passes.pass_report import PassReport, Seen
from ether.review.scout.passes.sizes import Sizes
from ether.review.scout.python.import_graph import ImportCollector

__all__ = ["StructurePass", "package_name"]

_COMPLEX: Final = 50
"""Cyclomatic complexity: over it the Software Engineering Institute calls a function untestable."""
_LARGE: Final = 3_000
"""Lines of a file."""
_SUBJECTS: Final = 20
"""Functions and classes: a large file with fewer is mostly a table."""
_COMPLEXITY: Final = re.compile(r"\((\d+) > ")
"""In ruff's message."""


class StructurePass:
    """Measures file by file; the import graph is drawn at the end."""

    def __init__(self, limits: ScanLimits | None = None) -> None:
        self._rows = (limits or ScanLimits()).rows
        self._sizes = Sizes()
        self._imports = ImportCollector()
        self._functions: list[dict[str, Any]] = []
        self._large: list[tuple[int, str, int]] = []
        """(lines, path, functions and classes) of large files."""
        self._counts: Counter[str] = Counter()

    def see(self, seen: Seen) -> None:
        """Measure one file; of a vendored or generated one only the size counts."""
        source = seen.source
        self._sizes.add(source)
        if not source.is_ours or seen.module is None:
            return
        symbols = [symbol for top in seen.symbols for symbol in top.walk()]
        self._counts.update(symbol.kind for symbol in symbols)
        if source.is_test:
            return  # a long test is a long story, and told once
        self._imports.add(seen.module)
        self._counts["public"] += sum(symbol.is_public for symbol in symbols)
        complexities = {one.line: _COMPLEXITY.search(one.message) for one in seen.found_for("structure")}
        for symbol in symbols:
            if symbol.kind != "class":
                told = complexities.get(symbol.line)  # none where ruff calls it simple (10 or less)
                self._functions.append({
                    "path": source.name, "line": symbol.line, "name": symbol.qualname, "lines": symbol.body_lines,
                    "complexity": int(told[1]) if told else 0,
                })  # fmt: skip
        if source.line_count > _LARGE and len(symbols) >= _SUBJECTS:
            self._large.append((source.line_count, source.name, len(symbols)))

    def miss(self, file: Unreadable) -> None:
        """Nothing can be measured of it; the survey notes it."""

    def finish(self, root: Path) -> PassReport:
        """Draw the import graph and put the tables together."""
        depends = Dependencies(self._imports.graph(package_name(root)))
        data: dict[str, Any] = {
            **self._sizes.to_json(self._rows),
            "classes": self._counts["class"],
            "functions": self._counts["function"] + self._counts["method"],
            "public_symbols": self._counts["public"],
            "most_complex_functions": self._worst("complexity", "lines"),
            "longest_functions": self._worst("lines", "complexity"),
            "imports": depends.to_json(self._rows),
        }
        return PassReport([*self._findings(), *depends.findings()], data, self._insights() + depends.insights())

    def _worst(self, first: str, second: str) -> dict[str, Any]:
        ranked = sorted(self._functions, key=lambda one: (-one[first], -one[second], one["path"], one["line"]))
        return table((function for function in ranked if function[first]), self._rows)

    def _findings(self) -> list[Finding]:
        """The function that is hardest to change and the largest file; the tables have the others."""
        found = []
        hard = [one for one in self._functions if one["complexity"] > _COMPLEX]
        if hard:
            one = max(hard, key=lambda one: (one["complexity"], one["lines"], one["path"], -one["line"]))
            what = f"`{one['name']}` has a complexity of {one['complexity']} in {plural(one['lines'], 'line')}"
            what += f" ({len(hard) - 1} more are over {_COMPLEX})" if hard[1:] else ""
            rule = RULES["hard-to-change-function"]
            found.append(rule.on(one["path"], one["line"], what, symbol=one["name"]))
        if self._large:
            lines, path, symbols = max(self._large)
            what = f"The file has {lines:,} lines and {symbols} functions and classes"
            what += f" ({len(self._large) - 1} more are over {_LARGE:,})" if self._large[1:] else ""
            found.append(RULES["large-file"].on(path, 1, what))
        return found

    def _insights(self) -> list[str]:
        sizes = self._sizes
        if not sizes.files:
            return ["There is nothing to read."]
        told = [f"{plural(sizes.files, 'file')}, {plural(sizes.lines, 'line')}, mostly {sizes.main_language()}."]
        if sizes.code_lines and sizes.test_lines:
            told.append(f"{sizes.test_lines / sizes.code_lines:.2f} lines of tests for each line of Python.")
        return told


def package_name(root: Path) -> str:
    """The dotted name of a directory as a package, with those above it that have an `__init__.py` too."""
    names = [root.name or "root"]
    above = root.parent
    while (above / "__init__.py").is_file() and above.name:
        names.append(above.name)
        above = above.parent
    return ".".join(reversed(names))
