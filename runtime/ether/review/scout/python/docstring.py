"""Docstrings: which parameters they document, and where that no longer fits the signature."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Final

from ether.review.scout.files.words import words

__all__ = ["DocumentedParameter", "docstring_node", "documented_parameters"]

_GOOGLE: Final = re.compile(
    r"^(?P<indent>[ \t]*)(?:Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments):\s*$"
)
_NAMES: Final = r"(?P<names>\*{0,2}[A-Za-z_]\w*(?:\s*,\s*\*{0,2}[A-Za-z_]\w*)*)"
_GOOGLE_ENTRY: Final = re.compile(rf"^{_NAMES}\s*(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?\s*:(?!:)(?:\s|$)")
_NUMPY: Final = re.compile(r"^(?P<indent>[ \t]*)(?:Parameters|Other Parameters)\s*$")
_NUMPY_ENTRY: Final = re.compile(rf"^{_NAMES}\s*(?::.*)?$")
_SPHINX: Final = re.compile(
    r"^\s*:(?:param|parameter|arg|argument|key|keyword|kwarg)\s+(?:[^:]*\s)?\\?(?P<names>\*{0,2}\w+)\s*:"
)
_TOO_LONG: Final = 500
_HEADINGS: Final = words("Returns Return Raises Yields Note Notes Example Examples Warning Warnings See Usage")
_UNDERLINE: Final = re.compile(r"^\s*-{3,}\s*$")


@dataclass(frozen=True, slots=True)
class DocumentedParameter:
    """A parameter that a docstring speaks of."""

    name: str
    """Without stars."""
    line: int
    """Lines below the one where the docstring starts."""


def documented_parameters(docstring: str) -> list[DocumentedParameter]:
    """The parameters in an `Args:` section (Google), under `Parameters` (NumPy), in `:param x:` (Sphinx)."""
    lines = docstring.expandtabs().split("\n")
    found: list[DocumentedParameter] = []
    position = 0
    while position < len(lines):
        line = lines[position]
        if match := _SPHINX.match(line):
            found.append(DocumentedParameter(match["names"].lstrip("*"), position))
        elif match := _GOOGLE.match(line):
            position = _section(lines, position + 1, len(match["indent"]), _GOOGLE_ENTRY, found)
            continue
        elif (match := _NUMPY.match(line)) and position + 1 < len(lines) and _UNDERLINE.match(lines[position + 1]):
            position = _section(lines, position + 2, len(match["indent"]) - 1, _NUMPY_ENTRY, found)
            continue
        position += 1
    return found


def _section(lines: list[str], start: int, outer: int, entry: re.Pattern[str], found: list[DocumentedParameter]) -> int:
    """Read the entries of one section; they stand deeper than `outer`, all at the depth of the first.

    Returns:
        The line after the section: the first one that is not deeper, or another underlined heading.
    """
    depth: int | None = None
    for position in range(start, len(lines)):
        line = lines[position]
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        if indent <= outer or (position + 1 < len(lines) and _UNDERLINE.match(lines[position + 1])):
            return position
        depth = indent if depth is None else depth
        if indent == depth and len(line) < _TOO_LONG and (match := entry.match(line.strip())):
            names = (name.strip().lstrip("*") for name in match["names"].split(","))
            found.extend(DocumentedParameter(name, position) for name in names if name not in _HEADINGS)
    return len(lines)


def docstring_node(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> ast.Constant | None:
    """The literal that is the docstring, for its line; None without one."""
    first = node.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return first.value
    return None
