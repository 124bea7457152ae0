"""Sizes: files and lines by language, and of tests against code."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from ether.review.scout.files.language import PYTHON
from ether.review.scout.files.source import Source
from ether.review.scout.findings.bounded_table import table

__all__ = ["Sizes"]


class Sizes:
    """Adds files up."""

    def __init__(self) -> None:
        self._languages: dict[str, dict[str, int]] = defaultdict(lambda: {"files": 0, "lines": 0})
        self._files: list[tuple[int, str]] = []
        self.foreign: int = 0
        """Files that are vendored or generated."""
        self.test_files: int = 0
        self.test_lines: int = 0
        self.code_lines: int = 0
        """Lines of Python outside tests."""

    def add(self, source: Source) -> None:
        """Count one file in."""
        language = self._languages[source.language]
        language["files"] += 1
        language["lines"] += source.line_count
        if not source.is_ours:
            self.foreign += 1
            return
        self._files.append((source.line_count, source.name))
        if source.is_test:
            self.test_files += 1
            self.test_lines += source.line_count
        elif source.language == PYTHON:
            self.code_lines += source.line_count

    @property
    def files(self) -> int:
        """All files, vendored and generated ones too."""
        return sum(language["files"] for language in self._languages.values())

    @property
    def lines(self) -> int:
        """Their lines."""
        return sum(language["lines"] for language in self._languages.values())

    def main_language(self) -> str:
        """The language with the most lines; empty for an empty directory."""
        return max(self._languages, key=lambda name: (self._languages[name]["lines"], name), default="")

    def to_json(self, rows: int) -> dict[str, Any]:
        """The tables of languages and largest files, and the test figures."""
        languages = sorted(self._languages.items(), key=lambda item: (-item[1]["lines"], item[0]))
        largest = sorted(self._files, key=lambda item: (-item[0], item[1]))
        return {
            "files": self.files,
            "lines": self.lines,
            "vendored_or_generated_files": self.foreign,
            "languages": table(({"language": name, **one} for name, one in languages), rows),
            "largest_files": table(({"path": path, "lines": lines} for lines, path in largest), rows),
            "tests": {
                "files": self.test_files,
                "lines": self.test_lines,
                "lines_per_code_line": round(self.test_lines / self.code_lines, 2) if self.code_lines else None,
            },
        }
