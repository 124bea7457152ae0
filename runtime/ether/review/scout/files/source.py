"""A source file as text: decoded as its own language would decode it."""

from __future__ import annotations

import codecs
import io
import re
import tokenize
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from ether.review.scout.files.discovery import Candidate, is_test_path
from ether.review.scout.files.language import PYTHON, runs_python

__all__ = ["Source", "Unreadable", "read"]

_GENERATED: Final = re.compile(
    r"@generated|DO NOT (?:EDIT|MODIFY)|(?:auto-?generated|generated (?:by|from|with)) ", re.IGNORECASE
)
_GENERATED_FROM: Final = re.compile(r"(?>.*?\bgenerated from ).+ (?:by|with) ", re.IGNORECASE)
"""From the begin of a line, so that it is looked for once; in a docstring too, where the looser words above may
describe what the module does."""
_HEADER_LINES: Final = 12
_ENCODINGS: Final = re.compile(
    r"utf-8(-sig)?|ascii|iso8859-\d+|cp(125\d|437|8\d\d|9\d\d)|koi8-[rut]|mac-\w+|big5(hkscs)?|gb(k|2312|18030)"
    r"|euc_(jp|kr)|shift_jis|iso2022_(jp|kr)"
)
"""By the names that Python gives them: those of texts, which it decodes in a time that grows with their length."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file that could not be read as text, and why."""

    name: str
    reason: str
    """`binary`, or a sentence."""
    is_source: bool = False
    """Python would refuse it: that is a finding, not only a note."""


@dataclass(frozen=True)
class Source:
    """The text of a file, with Unix line ends."""

    name: str
    """Relative to the root, with forward slashes."""
    language: str
    text: str
    size: int
    """Bytes on disk."""
    vendored: bool = False
    note: str = ""
    """How the text differs from what is on disk, if it does."""

    @cached_property
    def lines(self) -> list[str]:
        """The lines as Python counts them: `str.splitlines` would also split at form feeds and U+2028."""
        return self.text.split("\n")

    @property
    def line_count(self) -> int:
        """Lines, without the empty one after the last line end."""
        return len(self.lines) - (1 if not self.lines[-1] else 0)

    @cached_property
    def is_test(self) -> bool:
        """Whether it is a test, by its path."""
        return is_test_path(self.name)

    @property
    def is_init(self) -> bool:
        """Whether it is the `__init__` of a package."""
        return self.name.rpartition("/")[2] == "__init__.py"

    @cached_property
    def is_generated(self) -> bool:
        """Whether its first lines say that a program wrote it."""
        head = self.lines[:_HEADER_LINES]
        comments = (line for line in head if line.lstrip().startswith(("#", "//", "/*", "*", "<!--")))
        return any(map(_GENERATED.search, comments)) or any(map(_GENERATED_FROM.match, head))

    @property
    def is_ours(self) -> bool:
        """Whether its maintainer can act on a finding in it: neither vendored nor generated."""
        return not (self.vendored or self.is_generated)


def read(candidate: Candidate) -> Source | Unreadable:
    """Read a file; never raises for what a file can be.

    Python is decoded by its declaration (PEP 263), if that names a usual encoding of texts; another is
    `Unreadable` (400 kB as `punycode` take half a minute). Anything else is UTF-8, or what its byte order mark
    says; other bytes fall back to Latin-1 with a note. A file that vanished or may not be read is `Unreadable`.
    """
    try:
        data = candidate.read()
    except OSError as error:
        return Unreadable(candidate.name, f"cannot be read ({error.strerror or error})")
    if candidate.language == PYTHON or (candidate.language is None and runs_python(data)):
        return _read_python(candidate, data)
    if b"\0" in data[:8192] and not data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return Unreadable(candidate.name, "binary")
    text, note = _decode(data)
    name = candidate.language or "other"
    return Source(candidate.name, name, _unix(text), len(data), candidate.vendored, note)


def _read_python(candidate: Candidate, data: bytes) -> Source | Unreadable:
    if b"\0" in data:
        return Unreadable(candidate.name, "contains null bytes, which Python refuses", is_source=True)
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        if not _ENCODINGS.fullmatch(codecs.lookup(encoding).name):
            return Unreadable(candidate.name, f"is declared as {encoding[:40]}, an encoding that is not read here")
        text = data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError, ValueError) as error:
        return Unreadable(candidate.name, f"cannot be decoded ({error})", is_source=True)
    return Source(candidate.name, PYTHON, _unix(text), len(data), candidate.vendored)


def _decode(data: bytes) -> tuple[str, str]:
    encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        return data.decode(encoding), ""
    except UnicodeDecodeError:
        return data.decode("latin-1"), "not UTF-8; read as Latin-1"


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
