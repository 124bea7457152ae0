"""Other languages than Python: comments by their syntax, functions and classes by their look."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ether.review.scout.files.source import Source

__all__ = ["Block", "LineCount", "blocks_in", "count_lines"]

_SLASHES: Final = ("//", "/*", "*/")
_HASH: Final = ("#", None, None)
_COMMENTS: Final[dict[str, tuple[str | None, str | None, str | None]]] = {
    **dict.fromkeys(
        (
            "C",
            "C++",
            "C#",
            "Go",
            "Java",
            "JavaScript",
            "TypeScript",
            "Kotlin",
            "PHP",
            "Rust",
            "Scala",
            "Swift",
        ),
        _SLASHES,
    ),
    **dict.fromkeys(
        (
            "CMake",
            "Cython",
            "Dockerfile",
            "Makefile",
            "Perl",
            "Python",
            "Python stub",
            "Ruby",
            "Shell",
            "TOML",
            "YAML",
        ),
        _HASH,
    ),
    "CSS": (None, "/*", "*/"),
    "HTML": (None, "<!--", "-->"),
    "INI": (";", None, None),
    "Lua": ("--", "--[[", "]]"),
    "Protocol Buffers": _SLASHES,
    "SQL": ("--", "/*", "*/"),
    "XML": (None, "<!--", "-->"),
}
"""{language: (what starts a line comment, what opens and closes a block comment)}."""

_NAME: Final = r"(?P<name>[A-Za-z_$][\w$]*)"
_ARROW: Final = r"(?:const|let|var)\s+(?P<arrow>[A-Za-z_$][\w$]*)\s*=\s*(?:async\s*)?(?:\([^)]*\)|\w+)\s*=>\s*\{"
_JAVASCRIPT: Final = re.compile(
    rf"^\s*(?:export\s+)?(?:default\s+)?(?:async\s+)?(?:function\s*\*?\s*{_NAME}\s*\(|{_ARROW})"
)
_JAVA: Final = re.compile(
    r"^\s+(?:(?:public|private|protected|static|final|synchronized|abstract)\s+)+[\w<>\[\], ?]+\s+"
    rf"{_NAME}\s*\([^;]*$"
)
_C: Final = re.compile(rf"^(?!\s|#|typedef|return|else|if|while|for|switch)[\w*&:<>,~ ]+?[ *&]{_NAME}\s*\([^;]*$")
_RUST_WORDS: Final = r"(?:pub(?:\([^)]*\))?\s+)?(?:const\s+)?(?:async\s+)?(?:unsafe\s+)?(?:extern\s+\"[^\"]*\"\s+)?"
_PHP_WORDS: Final = r"(?:(?:public|private|protected|static|final|abstract)\s+)*"
_BRACED: Final[dict[str, re.Pattern[str]]] = {
    "C": _C,
    "C#": _JAVA,
    "C++": _C,
    "Go": re.compile(rf"^func\s+(?:\([^)]*\)\s*)?{_NAME}\s*[\[(]"),
    "Java": _JAVA,
    "JavaScript": _JAVASCRIPT,
    "PHP": re.compile(rf"^\s*{_PHP_WORDS}function\s+&?{_NAME}\s*\("),
    "Rust": re.compile(rf"^\s*{_RUST_WORDS}fn\s+{_NAME}"),
    "Shell": re.compile(r"^\s*(?:function\s+)?(?P<name>[A-Za-z_][\w-]*)\s*\(\)\s*\{?"),
    "TypeScript": _JAVASCRIPT,
}
_RUBY: Final = re.compile(r"^(?P<indent>\s*)def\s+(?P<name>[\w.?!=]+)")
_CLASS: Final = re.compile(
    r"^\s*(?:export\s+|default\s+|public\s+|abstract\s+|final\s+|pub(?:\([^)]*\))?\s+|data\s+|sealed\s+)*"
    r"(?:class|struct|interface|trait|enum|module)\s+(?P<name>[A-Za-z_]\w*)"
)
_GO_TYPE: Final = re.compile(r"^type\s+(?P<name>\w+)\s+(?:struct|interface)\b")
_QUOTED: Final = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|`[^`]*`")
_TOO_LONG: Final = 2_000
"""Characters: such a line was written by a program, and is passed over."""


@dataclass(frozen=True, slots=True)
class LineCount:
    """How the lines of a file divide."""

    total: int
    blank: int
    comment: int
    """Lines with nothing but a comment; all 0 where the language's comments are not known."""


@dataclass(frozen=True, slots=True)
class Block:
    """A function or class of another language, as far as it can be told by its look."""

    kind: str
    name: str
    line: int
    lines: int
    """From its first line to the brace that closes it; 0 when that cannot be told."""


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


def blocks_in(source: Source) -> list[Block]:
    """The functions and classes of a file as a reader would skim them, not as a compiler sees them."""
    found: list[Block] = []
    braced = _BRACED.get(source.language)
    for position, line in enumerate(source.lines):
        if len(line) > _TOO_LONG:
            continue
        if braced and (match := braced.match(line)):
            name = match.groupdict().get("arrow") or match["name"]
            found.append(Block("function", name, position + 1, _braced_lines(source.lines, position)))
        elif source.language == "Ruby" and (match := _RUBY.match(line)):
            found.append(Block("function", match["name"], position + 1, _indented_lines(source.lines, position)))
        elif (braced or source.language == "Ruby") and (match := _CLASS.match(line) or _GO_TYPE.match(line)):
            found.append(Block("class", match["name"], position + 1, 0))
    return found


def _braced_lines(lines: list[str], start: int) -> int:
    """Lines up to the brace that closes the first one opened; 0 if none opens soon, or it never closes."""
    depth = 0
    opened = False
    for position in range(start, len(lines)):
        if not opened and (position - start > 10 or lines[position].rstrip().endswith(";")):  # noqa: PLR2004
            return 0
        if len(lines[position]) > _TOO_LONG:
            return 0
        code = _QUOTED.sub("", lines[position]).partition("//")[0]
        depth += code.count("{") - code.count("}")
        opened = opened or "{" in code
        if opened and depth <= 0:
            return position - start + 1
    return 0


def _indented_lines(lines: list[str], start: int) -> int:
    """Lines up to the `end` that stands as deep as the `def`."""
    indent = len(lines[start]) - len(lines[start].lstrip())
    closing = " " * indent + "end"
    for position in range(start + 1, len(lines)):
        if lines[position].rstrip() == closing:
            return position - start + 1
    return 0
