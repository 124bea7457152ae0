"""The documentation pass: what a reader is told that is no longer true, and what a project lacks."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import Any, Final

from ether.review.scout.files.language import PROSE
from ether.review.scout.files.markdown_links import links
from ether.review.scout.files.words import plural
from ether.review.scout.findings.finding import Finding
from ether.review.scout.findings.once import once
from ether.review.scout.findings.rule import RULES
from ether.review.scout.passes.pass_report import Pass, PassReport, Seen

__all__ = ["DocumentationPass"]

_ROOT_MARKS: Final = (
    "pyproject.toml", "setup.py", "setup.cfg", "package.json", "Cargo.toml", "go.mod", "pom.xml", ".git"
)  # fmt: skip
_WANTED: Final = {
    "licence": ("LICENSE", "LICENCE", "COPYING"),
    "change log": ("CHANGELOG", "CHANGES", "HISTORY", "NEWS", "RELEASES"),
}


class DocumentationPass(Pass):
    """The pass that reads docstrings and pages, file by file.

    It asks for a README, a licence and a change log at the root of a project only.
    """

    def __init__(self) -> None:
        self._findings: list[Finding] = []
        self._pages = 0
        self._links: list[tuple[str, str, int]] = []
        """(page, target, line)."""
        self._has_readme = False

    def see(self, seen: Seen) -> None:
        """Read one file; vendored and generated ones are somebody else's to document."""
        source = seen.source
        if not source.is_ours:
            return
        self._findings += seen.found_for("documentation")
        if source.language in PROSE:
            self._pages += 1
            self._has_readme |= "/" not in source.name and source.name.lower().startswith("readme")
        if source.language == "Markdown":
            self._links += [(source.name, link.target, link.line) for link in links(source.text)]

    def finish(self, root: Path) -> PassReport:
        """Check the links, ask for the files of a project, and say how many findings there are of each kind."""
        stale = once(self._findings)
        rule = RULES["broken-link"]
        broken = [
            rule.on(page, line, f"`{target}` does not exist")
            for page, target, line in self._links
            if _is_broken(root, page, target)
        ]
        is_root = any((root / mark).exists() for mark in _ROOT_MARKS)
        data: dict[str, Any] = {"pages": self._pages, "links_checked": len(self._links), "is_project_root": is_root}
        missing: list[Finding] = []
        if is_root:
            files = data["project_files"] = {kind: _first_file(root, names) for kind, names in _WANTED.items()}
            missing = self._missing(files)
        told = []
        if stale:
            told.append(f"{plural(len(stale), 'file')} with documented parameters that no signature has.")
        if broken:
            told.append(f"{len(broken)} of {plural(len(self._links), 'relative link')} lead nowhere.")
        insights = told or ["Nothing that is documented is known to be wrong."]
        return PassReport([*stale, *broken, *missing], data, insights)

    def _missing(self, files: dict[str, str | None]) -> list[Finding]:
        """What the root of a project lacks."""
        missing = [] if self._has_readme else [RULES["missing-readme"].on(".", 1, "The project has no README")]
        rule = RULES["missing-project-file"]
        return missing + [
            rule.on(".", 1, f"The project has no {kind} (`{_WANTED[kind][0]}`)")
            for kind, file in files.items()
            if file is None
        ]


def _first_file(root: Path, names: tuple[str, ...]) -> str | None:
    try:
        entries = sorted(entry.name for entry in root.iterdir())
    except OSError:
        return None
    return next((entry for entry in entries if entry.upper().startswith(names)), None)


def _is_broken(root: Path, page: str, target: str) -> bool:
    """Whether a link to a file leads nowhere.

    Links without a file suffix are let pass, as site generators give pages names of their own; so are links
    out of the directory that was analysed.
    """
    place = os.path.normpath(PurePosixPath(page).parent / target)
    if place.startswith("..") or not PurePosixPath(target).suffix or target.endswith("/"):
        return False
    try:
        return not (root / place).exists()
    except (OSError, ValueError):
        return False
