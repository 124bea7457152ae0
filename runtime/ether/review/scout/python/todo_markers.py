"""Markers that authors leave for later: TODO, FIXME and their like."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ether.review.scout.files.source import Source
from ether.review.scout.python.module import PythonModule

__all__ = ["Marker", "markers_in"]

_MARKER: Final = re.compile(r"(?:^\W*(?=\w+\b)|\b(?=\w+[:(]))(TODO|FIXME|XXX|HACK|BUG)\b(?:\([^)]*\))?:?\s*(.*)")
"""At the start of a comment, or with a colon or an owner after it: prose may speak of a bug."""
_COMMENT: Final = re.compile(r"(?:#|//|/\*|--|<!--|;|%|\*)\s*(.*)")
_PROSE: Final = frozenset({"Markdown", "Text", "reStructuredText", "JSON", "HTML", "SVG", "XML"})
_SHOWN: Final = 160
_MINIFIED: Final = 1_000
"""Characters: a longer line was written by a program."""


@dataclass(frozen=True, slots=True)
class Marker:
    """One marker."""

    kind: str
    line: int
    text: str


def markers_in(source: Source, module: PythonModule | None = None) -> Iterator[Marker]:
    """The markers in a file's comments; in Python by its tokens, elsewhere by what looks like one."""
    if module is None and source.language in _PROSE:
        return
    comments = module.comments.items() if module else _comments(source)
    for line, comment in comments:
        match = _MARKER.search(comment)
        if match:
            yield Marker(match[1], line, match[2].strip()[:_SHOWN])


def _comments(source: Source) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(source.lines, 1):
        if len(line) < _MINIFIED and (match := _COMMENT.search(line)):
            yield number, match[1]
