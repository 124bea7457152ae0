"""What is cited of a specification, and docs/sources.md: each section and heading has a row there."""

from __future__ import annotations

import re
import subprocess

from tests.support import REPOSITORY

_SECTION = re.compile(r"\b[Ss]pec (\d)((?:,? (?:and )?§[\d.]*\d)+)")
_HEADING = re.compile(r'\b[Ss]pec 3, "([^"]+)"')


def cited() -> set[tuple[str, str]]:
    """(specification, section or heading) of each citation in code and docs."""
    found: set[tuple[str, str]] = set()
    paths = ("runtime", "actors", "broker", "docs", "examples", "README.md")
    listed = subprocess.run(["git", "ls-files", *paths], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    for name in listed.stdout.split():
        if name.endswith((".py", ".md")) and name != "docs/sources.md":
            text = (REPOSITORY / name).read_text()
            for number, sections in _SECTION.findall(text):
                found |= {(number, section) for section in re.findall(r"§[\d.]*\d", sections)}
            found |= {("3", heading) for heading in _HEADING.findall(text)}
    return found


def listed() -> set[tuple[str, str]]:
    """The same of the rows of docs/sources.md."""
    found: set[tuple[str, str]] = set()
    for part in re.split(r"^## ", (REPOSITORY / "docs/sources.md").read_text(), flags=re.MULTILINE)[1:]:
        number = re.match(r"Spec (\d)", part)
        assert number, part[:40]
        rows = re.findall(r"^\| ([^|]+) \|", part, re.MULTILINE)
        found |= {(number[1], row) for row in rows if row not in {"section", "heading"} and not row.startswith("-")}
    return found


def test_each_section_of_a_specification_that_is_cited_is_told_in_the_sources_and_no_other() -> None:
    assert cited() == listed()
