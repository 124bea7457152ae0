"""Lines of a file by their kind: blank, comment, or other, in the languages whose comments are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ether.review.scout.files.source import Source
from ether.review.scout.files.words import words

__all__ = ["LineCount", "count_lines"]

_SLASHES: Final = ("//", "/*", "*/")
_HASH: Final = ("#", None, None)
_COMMENTS: Final[dict[str, tuple[str | None, str | None, str | None]]] = {
    **dict.fromkeys(words("C C++ C# Go Java JavaScript TypeScript Kotlin PHP Rust Scala Swift"), _SLASHES),
    **dict.fromkeys(words("CMake Cython Dockerfile Makefile Perl Python Ruby Shell TOML YAML"), _HASH),
    "Python stub": _HASH,
    "CSS": (None, "/*", "*/"),
    "HTML": (None, "<!--", "-->"),
    "INI": (";", None, None),
    "Lua": ("--", "--[[", "]]"),
    "Protocol Buffers": _SLASHES,
    "SQL": ("--", "/*", "*/"),
    "XML": (None, "<!--", "-->"),
}
"""{language: (what starts a line comment, what opens and closes a block comment)}."""


@dataclass(frozen=True, slots=True)
class LineCount:
    """How the lines of a file divide."""

    total: int
    blank: int
    comment: int
    """Lines with nothing but a comment; all 0 where the language's comments are not known."""


def count_lines(source: Source) -> LineCount:
    """Count blank lines and lines that are only a comment; signs inside strings are not told apart."""
    mark, opening, closing = _COMMENTS.get(source.language, (None, None, None))
    blank = comment = 0
    inside = False
    for line in source.lines[: source.line_count]:
        text = line.strip()
        if not text:
            blank += 1
        elif inside:
            comment += 1
            inside = not (closing and closing in text)
        elif opening and text.startswith(opening):
            comment += 1
            inside = not (closing and closing in text[len(opening) :])
        elif mark and text.startswith(mark):
            comment += 1
    return LineCount(source.line_count, blank, comment)
