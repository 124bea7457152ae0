"""The structure pass: how large the parts are, how they hang together, and which are hard to change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from ether.review.scout.files.limits import Limits
from ether.review.scout.files.other_languages import blocks_in
from ether.review.scout.files.source import Source, Unreadable
from ether.review.scout.files.words import plural
from ether.review.scout.findings.bounded_table import table
from ether.review.scout.findings.finding import Finding, Severity
from ether.review.scout.findings.rule import Rule
from ether.review.scout.passes import dependencies
from ether.review.scout.passes.dependencies import Dependencies
from ether.review.scout.passes.pass_report import PassReport, Seen
from ether.review.scout.passes.sizes import Sizes
from ether.review.scout.python.import_graph import ImportCollector
from ether.review.scout.python.module import PythonModule
from ether.review.scout.python.outline import Symbol
from ether.review.scout.python.todo_markers import Marker, markers_in

__all__ = ["RULES", "StructurePass", "package_name"]

HARD_FUNCTION = Rule(
    "hard-to-change-function",
    Severity.INFO,
    "nobody keeps all of that in mind, and tests hardly reach every path",
    "Move its parts into functions with a name each, the deepest branches first.",
)
LARGE_FILE = Rule(
    "large-file",
    Severity.INFO,
    "a file of this size usually holds several subjects, and every change meets every other",
    "Split it along its subjects.",
)
RULES: Final = {rule.name: rule for rule in (HARD_FUNCTION, LARGE_FILE, *dependencies.RULES)}
"""{name: rule} of everything that this pass can tell."""

_COMPLEX: Final = 25
"""Cyclomatic complexity; McCabe proposed 10 as a function's limit, and few large projects keep even 20."""
_LONG: Final = 150
"""Lines of a function."""
_BRANCHED: Final = 10
"""Complexity under which a long function only does one thing after another, and is no trouble."""
_DEEP: Final = 6
"""Blocks inside one another."""
_LARGE: Final = 1_500
"""Lines of a file."""
_SUBJECTS: Final = 20
"""Functions and classes: a large file with fewer is mostly a table."""


@dataclass(frozen=True, slots=True)
class _Function:
    """A function of any language, as the tables show it."""

    path: str
    line: int
    name: str
    lines: int
    """Of the body: see `Symbol.body_lines`."""
    complexity: int = 0
    """0 where only its size is known."""
    nesting: int = 0

    def troubles(self) -> list[str]:
        """What makes it hard to change, in words; empty when nothing does."""
        told = []
        if self.complexity > _COMPLEX:
            told.append(f"a complexity of {self.complexity}")
        if self.lines > _LONG and (self.complexity >= _BRANCHED or not self.complexity):
            told.append(f"{self.lines} lines")
        if self.nesting > _DEEP:
            told.append(f"blocks {self.nesting} deep")
        return told


class StructurePass:
    """Measures file by file; the import graph is drawn at the end."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._rows = (limits or Limits()).rows
        self._sizes = Sizes()
        self._imports = ImportCollector()
        self._functions: list[_Function] = []
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
        symbols = self._measure(seen.module, seen.symbols) if seen.module else self._skim(source)
        if source.line_count > _LARGE and symbols >= _SUBJECTS and not source.is_test:
            what = f"The file has {source.line_count:,} lines and {symbols} functions and classes"
            self._findings.append(LARGE_FILE.on(source.name, 1, what))

    def miss(self, file: Unreadable) -> None:
        """Nothing can be measured of it; the survey notes it."""

    def _measure(self, module: PythonModule, outline: list[Symbol]) -> int:
        """Count the symbols of a module in; how many there are."""
        self._imports.add(module)
        symbols = [symbol for top in outline for symbol in top.walk()]
        for symbol in symbols:
            self._counts[symbol.kind] += 1
            self._counts["public"] += symbol.is_public and not module.source.is_test
            if symbol.kind != "class":
                self._take(module.source, _of_symbol(module.name, symbol))
        return len(symbols)

    def _skim(self, source: Source) -> int:
        """The same for another language, by its look."""
        blocks = blocks_in(source)
        for block in blocks:
            self._counts[block.kind] += 1
            if block.kind == "function":
                self._take(source, _Function(source.name, block.line, block.name, block.lines))
        return len(blocks)

    def _take(self, source: Source, function: _Function) -> None:
        if source.is_test:
            return  # a long test is a long story, and told once
        self._functions.append(function)
        troubles = function.troubles()
        if troubles:
            what = f"`{function.name}` has {' and '.join(troubles)}"
            found = HARD_FUNCTION.on(source.name, function.line, what, symbol=function.name)
            self._findings.append(found)

    def finish(self, root: Path) -> PassReport:
        """Draw the import graph and put the tables together."""
        graph = self._imports.graph(package_name(root))
        depends = Dependencies(graph)
        complexities = sorted(function.complexity for function in self._functions if function.complexity)
        kinds = Counter(marker.kind for _, marker in self._markers)
        data: dict[str, Any] = {
            **self._sizes.to_json(self._rows),
            "classes": self._counts["class"],
            "functions": self._counts["function"] + self._counts["method"],
            "public_symbols": self._counts["public"],
            "median_complexity": complexities[len(complexities) // 2] if complexities else 0,
            "most_complex_functions": self._worst(lambda one: (one.complexity, one.lines)),
            "longest_functions": self._worst(lambda one: (one.lines, one.complexity)),
            "imports": depends.to_json(self._rows),
            "markers": {
                "counts": dict(sorted(kinds.items())),
                **table((_marker(path, marker) for path, marker in self._markers), self._rows),
            },
        }
        findings = [*self._findings, *depends.findings()]
        return PassReport(findings, data, self._insights() + depends.insights())

    def _worst(self, key: Callable[[_Function], tuple[int, int]]) -> dict[str, Any]:
        ranked = sorted(self._functions, key=lambda one: ([-part for part in key(one)], one.path, one.line))
        return table((asdict(function) for function in ranked if key(function)[0]), self._rows)

    def _insights(self) -> list[str]:
        sizes = self._sizes
        if not sizes.files:
            return ["There is nothing to read."]
        lines = plural(sizes.lines, "line")
        told = [f"{plural(sizes.files, 'file')}, {lines}, mostly {sizes.main_language()}."]
        if sizes.code_lines and sizes.test_lines:
            told.append(f"{sizes.test_lines / sizes.code_lines:.2f} lines of tests for each line of Python.")
        hardest = max(self._functions, key=lambda one: (one.complexity, one.lines), default=None)
        if hardest and hardest.complexity > _COMPLEX:
            place, why = f"{hardest.path}:{hardest.line}", ", ".join(hardest.troubles())
            told.append(f"The hardest function to change is `{hardest.name}` ({place}): {why}.")
        return told


def _of_symbol(path: str, symbol: Symbol) -> _Function:
    return _Function(path, symbol.line, symbol.qualname, symbol.body_lines, symbol.complexity, symbol.nesting)


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
