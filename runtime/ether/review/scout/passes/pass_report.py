"""The interface of a pass, and its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from ether.review.scout.files.language import PYTHON
from ether.review.scout.files.source import Source, Unreadable
from ether.review.scout.findings.finding import Finding
from ether.review.scout.findings.rule import RULES
from ether.review.scout.python.module import PythonModule, SyntaxProblem, parse
from ether.review.scout.python.outline import Symbol, outline

__all__ = ["Pass", "PassReport", "Seen"]


@dataclass(frozen=True)
class Seen:
    """A file as a pass gets it: its text, its parsed module, and ruff's findings in it."""

    source: Source
    module: PythonModule | None = None
    """For Python that parses."""
    problem: SyntaxProblem | None = None
    """For Python that does not."""
    found: Sequence[Finding] = ()
    """What ruff found in it, as far as it is worth telling, for all passes."""

    def found_for(self, pass_name: str) -> list[Finding]:
        """What ruff found in it for one pass."""
        return [finding for finding in self.found if RULES[finding.rule].group == pass_name]

    @cached_property
    def symbols(self) -> list[Symbol]:
        """The outline; empty unless it is Python that parses. Made once for all passes."""
        return outline(self.module) if self.module else []

    @classmethod
    def of(cls, source: Source) -> Seen:
        """Parse a source, if it is Python."""
        if source.language != PYTHON:
            return cls(source)
        parsed = parse(source)
        return cls(source, parsed) if isinstance(parsed, PythonModule) else cls(source, problem=parsed)


@dataclass(slots=True)
class PassReport:
    """The outcome of one pass over one directory."""

    findings: list[Finding] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    """Figures and tables, JSON only; tables are cut to `Limits.rows` and say how many rows they leave out."""
    insights: list[str] = field(default_factory=list)
    """A sentence each, the most telling first."""


class Pass(Protocol):
    """The interface of a review's pass: takes the files of a directory one at a time, and reports at the end.

    The caller drops each file afterwards.
    """

    def see(self, seen: Seen) -> None:
        """Look at a file that could be read."""

    def miss(self, file: Unreadable) -> None:
        """Hear of a file that could not be read; nothing to do for most passes, as the survey notes it."""
        del file

    def finish(self, root: Path) -> PassReport:
        """Say what was found, once all files were seen."""
