"""Pages: README and the other files a project greets its readers with, and links between them."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import Any, Final

from ether.review.scout.files.language import PROSE
from ether.review.scout.files.markdown_links import links
from ether.review.scout.files.source import Source
from ether.review.scout.findings.finding import Finding
from ether.review.scout.findings.rule import RULES

__all__ = ["Pages"]


_ROOT_MARKS: Final = (
    "pyproject.toml", "setup.py", "setup.cfg", "package.json", "Cargo.toml", "go.mod", "pom.xml", ".git"
)  # fmt: skip
_WANTED: Final = {
    "licence": ("LICENSE", "LICENCE", "COPYING"),
    "change log": ("CHANGELOG", "CHANGES", "HISTORY", "NEWS", "RELEASES"),
}


class Pages:
    """Looks at prose files; asks for a README, a licence and a change log at the root of a project only."""

    def __init__(self) -> None:
        self._pages = 0
        self._links = 0
        self._candidates: list[tuple[str, str, int]] = []
        self._has_readme = False

    def add(self, source: Source) -> None:
        """Take a page in."""
        if source.language not in PROSE:
            return
        self._pages += 1
        if "/" not in source.name and source.name.lower().startswith("readme"):
            self._has_readme = True
        if source.language == "Markdown":
            for link in links(source.text):
                self._links += 1
                self._candidates.append((source.name, link.target, link.line))

    def findings(self, root: Path) -> list[Finding]:
        """Broken links, and what a project root lacks."""
        found = [
            RULES["broken-link"].on(page, line, f"`{target}` does not exist")
            for page, target, line in self._candidates
            if _is_broken(root, page, target)
        ]
        if is_project_root(root):
            found += self._of_root(root)
        return found

    def _of_root(self, root: Path) -> list[Finding]:
        found = []
        if not self._has_readme:
            found.append(RULES["missing-readme"].on(".", 1, "The project has no README"))
        for kind, names in _WANTED.items():
            if _first_file(root, names) is None:
                found.append(RULES["missing-project-file"].on(".", 1, f"The project has no {kind} (`{names[0]}`)"))
        return found

    def to_json(self, root: Path) -> dict[str, Any]:
        """Pages and links, and the project's files if it is the root of one."""
        data: dict[str, Any] = {
            "pages": self._pages, "links_checked": self._links, "is_project_root": is_project_root(root)
        }  # fmt: skip
        if data["is_project_root"]:
            data["project_files"] = {kind: _first_file(root, names) for kind, names in _WANTED.items()}
        return data


def is_project_root(root: Path) -> bool:
    """Whether a directory is the top of a project, where README and licence are expected."""
    return any((root / mark).exists() for mark in _ROOT_MARKS)


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
