"""The structure pass: how large the parts are, how they hang together, and which are hard to change."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any, Final

from ether.review.scout.files.language import PYTHON
from ether.review.scout.files.limits import AnalysisLimits
from ether.review.scout.files.words import plural
from ether.review.scout.findings.finding import Finding
from ether.review.scout.findings.rule import RULES
from ether.review.scout.findings.truncation import table
from ether.review.scout.passes.dependencies import dependencies
from ether.review.scout.passes.pass_report import Pass, PassReport, Seen
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


class StructurePass(Pass):
    """The pass that measures files, and draws the import graph at the end."""

    def __init__(self, limits: AnalysisLimits | None = None) -> None:
        self._rows = (limits or AnalysisLimits()).rows
        self._languages: dict[str, Counter[str]] = {}
        """{language: files and lines}, vendored and generated files too."""
        self._sizes: list[tuple[int, str]] = []
        """(lines, path) of the other files."""
        self._counts: Counter[str] = Counter()
        """Of tests, symbols, vendored and generated files; `code_lines` are those of Python outside tests."""
        self._imports = ImportCollector()
        self._functions: list[dict[str, Any]] = []
        self._large: list[tuple[int, str, int]] = []
        """(lines, path, functions and classes) of large files."""

    def see(self, seen: Seen) -> None:
        """Measure one file; of a vendored or generated one only the size counts."""
        source, lines = seen.source, seen.source.line_count
        self._languages.setdefault(source.language, Counter()).update(files=1, lines=lines)
        if not source.is_ours:
            self._counts["foreign"] += 1
            return
        self._sizes.append((lines, source.name))
        if source.is_test:
            self._counts.update(test_files=1, test_lines=lines)
        elif source.language == PYTHON:
            self._counts["code_lines"] += lines
        if seen.module is None:
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
                    "complexity": int(told[1]) if told else None,
                })  # fmt: skip
        if lines > _LARGE and len(symbols) >= _SUBJECTS:
            self._large.append((lines, source.name, len(symbols)))

    def finish(self, root: Path) -> PassReport:
        """Draw the import graph and put the tables together."""
        depends = dependencies(self._imports.graph(package_name(root)), self._rows)
        counts = self._counts
        files, lines = (sum(one[what] for one in self._languages.values()) for what in ("files", "lines"))
        languages = sorted(self._languages.items(), key=lambda item: (-item[1]["lines"], item[0]))
        largest = sorted(self._sizes, key=lambda item: (-item[0], item[1]))
        ratio = counts["test_lines"] / counts["code_lines"] if counts["code_lines"] else None
        data: dict[str, Any] = {
            "files": files,
            "lines": lines,
            "vendored_or_generated_files": counts["foreign"],
            "languages": table(({"language": name, **one} for name, one in languages), self._rows),
            "largest_files": table(({"path": path, "lines": size} for size, path in largest), self._rows),
            "tests": {
                "files": counts["test_files"],
                "lines": counts["test_lines"],
                "lines_per_code_line": None if ratio is None else round(ratio, 2),
            },
            "classes": counts["class"],
            "functions": counts["function"] + counts["method"],
            "public_symbols": counts["public"],
            "most_complex_functions": self._worst("complexity", "lines"),
            "longest_functions": self._worst("lines", "complexity"),
            "imports": depends.data,
        }
        told = ["There is nothing to read."]
        if files:
            main = max(self._languages, key=lambda name: (self._languages[name]["lines"], name))
            told = [f"{plural(files, 'file')}, {plural(lines, 'line')}, mostly {main}."]
        if ratio:
            told.append(f"{ratio:.2f} lines of tests for each line of Python.")
        return PassReport([*self._findings(), *depends.findings], data, [*told, *depends.insights])

    def _worst(self, first: str, second: str) -> dict[str, Any]:
        ranked = sorted(
            self._functions, key=lambda one: (-(one[first] or 0), -(one[second] or 0), one["path"], one["line"])
        )
        return table((function for function in ranked if function[first]), self._rows)

    def _findings(self) -> list[Finding]:
        """The function that is hardest to change and the largest file; the tables have the others."""
        found = []
        hard = [one for one in self._functions if (one["complexity"] or 0) > _COMPLEX]
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


def package_name(root: Path) -> str:
    """The dotted name of a directory as a package, with those above it that have an `__init__.py` too."""
    names = [root.name or "root"]
    above = root.parent
    while (above / "__init__.py").is_file() and above.name:
        names.append(above.name)
        above = above.parent
    return ".".join(reversed(names))
