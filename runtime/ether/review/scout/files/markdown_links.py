"""Links of Markdown files to other files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

__all__ = ["Link", "links"]

_ELSEWHERE: Final = re.compile(r"^(?:[a-zA-Z][a-zA-Z0-9+.-]*:|//|#|/|\{|<|\$|mailto:)")


@dataclass(frozen=True, slots=True)
class Link:
    """A link to a file by a relative path."""

    target: str
    """The path, without anchor and query, percent signs decoded."""
    line: int


def links(text: str) -> Iterator[Link]:
    """The relative links and images outside code, and where references lead; anchors and templates are left out."""
    from markdown_it import MarkdownIt

    environment: dict[str, Any] = {}
    tokens = MarkdownIt("commonmark").parse(text, environment)
    found = [(str(one["href"]), one["map"][0] + 1) for one in environment.get("references", {}).values()]
    for block in tokens:
        line = block.map[0] + 1 if block.map else 1
        for token in block.children or ():
            line += token.type in {"softbreak", "hardbreak"}
            found.append((str(token.attrs.get("href") or token.attrs.get("src") or ""), line))
    for target, line in sorted(dict.fromkeys(found), key=lambda one: one[1]):
        path = unquote(re.split(r"[#?]", target, maxsplit=1)[0])
        if path and not _ELSEWHERE.match(target) and "{" not in path and "\0" not in path:
            yield Link(path, line)
