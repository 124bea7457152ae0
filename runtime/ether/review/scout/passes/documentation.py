"""The documentation pass: what a reader is told that is no longer true, and what a project lacks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from ether.review.scout.files.source import Unreadable
from ether.review.scout.files.words import plural
from ether.review.scout.findings.finding import Finding
from ether.review.scout.findings.once import once
from ether.review.scout.passes.pass_report import PassReport, Seen
from ether.review.scout.passes.readme_pages import Pages

__all__ = ["DocumentationPass"]


class DocumentationPass:
    """The pass that reads docstrings and pages, file by file."""

    def __init__(self) -> None:
        self._pages = Pages()
        self._findings: list[Finding] = []

    def see(self, seen: Seen) -> None:
        """Read one file; vendored and generated ones are somebody else's to document."""
        if seen.source.is_ours:
            self._pages.add(seen.source)
            self._findings += seen.found_for("documentation")

    def miss(self, file: Unreadable) -> None:
        """Nothing can be read of it; the survey notes it."""

    def finish(self, root: Path) -> PassReport:
        """Check the links, and say how many findings there are of each kind."""
        findings = [*once(self._findings), *self._pages.findings(root)]
        data = self._pages.to_json(root)
        rules = Counter(finding.rule for finding in findings)
        told = []
        if stale := rules["stale-parameter"]:
            told.append(f"{plural(stale, 'file')} with documented parameters that no signature has.")
        if broken := rules["broken-link"]:
            told.append(f"{broken} of {plural(data['links_checked'], 'relative link')} lead nowhere.")
        return PassReport(findings, data, told or ["Nothing that is documented is known to be wrong."])
