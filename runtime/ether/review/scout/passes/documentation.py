"""The documentation pass: what a reader is told, what is missing, and what is no longer true."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from ether.review.scout.files.limits import Limits
from ether.review.scout.files.source import Unreadable
from ether.review.scout.files.words import plural
from ether.review.scout.findings.finding import Finding
from ether.review.scout.passes.docstring_coverage import Coverage
from ether.review.scout.passes.pass_report import PassReport, Seen
from ether.review.scout.passes.readme_pages import Pages

__all__ = ["DocumentationPass"]


class DocumentationPass:
    """Reads docstrings and pages file by file."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._rows = (limits or Limits()).rows
        self._coverage = Coverage()
        self._pages = Pages()
        self._findings: list[Finding] = []

    def see(self, seen: Seen) -> None:
        """Read one file; vendored and generated ones are somebody else's to document."""
        if not seen.source.is_ours:
            return
        self._pages.add(seen.source)
        if seen.module:
            self._coverage.add(seen.module, seen.symbols)
            self._findings += seen.found_for("documentation")

    def miss(self, file: Unreadable) -> None:
        """Nothing can be read of it; the survey notes it."""

    def finish(self, root: Path) -> PassReport:
        """Check the links, and put coverage and gaps together."""
        findings = [*self._findings, *self._pages.findings(root), *self._coverage.findings()]
        data: dict[str, Any] = {
            "docstrings": self._coverage.to_json(self._rows),
            **self._pages.to_json(root, self._rows),
        }
        return PassReport(findings, data, self._insights(findings, data))

    def _insights(self, findings: list[Finding], data: dict[str, Any]) -> list[str]:
        told = []
        docstrings = data["docstrings"]
        if docstrings["public"]:
            told.append(
                f"{docstrings['documented']} of {docstrings['public']} public symbols have a docstring "
                f"({docstrings['percent']} %)."
            )
        rules = Counter(finding.rule for finding in findings)
        if stale := rules["stale-parameter"]:
            told.append(f"{plural(stale, 'documented parameter')} that no signature has.")
        if broken := rules["broken-link"]:
            told.append(f"{broken} of {plural(data['links_checked'], 'relative link')} lead nowhere.")
        return told or ["There is nothing that documents, and nothing to document."]
