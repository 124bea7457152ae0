"""Markdown files: their headings, and links that lead nowhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

__all__ = ["Link", "headings", "links"]

_FENCE: Final = re.compile(r"^\s{0,3}(```+|~~~+)")
_HEADING: Final = re.compile(r"^\s{0,3}(#{1,6})\s+(.+?)\s*#*\s*$")
_CODE: Final = re.compile(r"(`+)(?:(?!\1).)+?\1")
_LINK: Final = re.compile(r"!?\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+[\"'(][^)]*)?\)")
_REFERENCE: Final = re.compile(r"^\s{0,3}\[[^\]^]+\]:\s*<?(\S+?)>?(?:\s|$)")
_ELSEWHERE: Final = re.compile(r"^(?:[a-zA-Z][a-zA-Z0-9+.-]*:|//|#|/|\{|<|\$|mailto:)")


_TOO_LONG: Final = 5_000
"""Characters: no prose, and the patterns take a time that grows with the square of the line."""


@dataclass(frozen=True, slots=True)
class Link:
    """A link to a file by a relative path."""

    target: str
    """The path, without anchor and query, percent signs decoded."""
    line: int


def headings(lines: list[str]) -> list[tuple[int, int, str]]:
    """(line, level, text) of each `#` heading outside code fences."""
    found = []
    for number, line in _prose(lines):
        if match := _HEADING.match(line):
            found.append((number, len(match[1]), match[2]))
    return found


def links(lines: list[str]) -> Iterator[Link]:
    """The relative links and images outside code; absolute ones, anchors and templates are left out."""
    for number, line in _prose(lines):
        plain = _CODE.sub("", line)
        targets = [match[1] for match in _LINK.finditer(plain)]
        if reference := _REFERENCE.match(plain):
            targets.append(reference[1])
        for target in targets:
            path = unquote(re.split(r"[#?]", target, maxsplit=1)[0])
            if path and not _ELSEWHERE.match(target) and "{" not in target and "\0" not in path:
                yield Link(path, number)


def _prose(lines: list[str]) -> Iterator[tuple[int, str]]:
    """The numbered lines outside fenced code."""
    fence: str | None = None
    for number, line in enumerate(lines, 1):
        if len(line) > _TOO_LONG:
            continue
        match = _FENCE.match(line)
        if fence is not None:
            if match and match[1].startswith(fence) and not line.strip(" `~"):
                fence = None
        elif match:
            fence = match[1]
        else:
            yield number, line
