"""The check of an answer against its delegation's output contract (spec 2 §6.2, §9).

An artifact type `working-file` is a Markdown artifact, `summary-block` a summary; of another type there has to be an
artifact. Expected sections are headings of the Markdown artifacts that this process can read; without such an artifact,
headings of the data where that is a text, and keys where it is a dict. Quality gates are names that only the delegator
understands: they are not checked here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Final

from ether_broker.artifacts.sealing import open_regular
from ether_broker.envelope.artifact import Artifact
from ether_broker.envelope.delegation import OutputContract
from ether_broker.envelope.response import Response

__all__ = ["misses"]

_MARKDOWN: Final = frozenset({".md", ".markdown"})
_HEADING: Final = re.compile(r"#{1,6} +(.+)")
_FENCE: Final = re.compile(r"`{3,}(?=[^`]*$)|~{3,}")
_INDENT: Final = 4
"""Blanks that make a line code; a tab is as many."""
_MOST_SEARCHED_BYTES: Final = 16 << 20
"""Bytes of an artifact that are looked through for headings."""


def misses(contract: OutputContract, response: Response) -> tuple[str, ...]:
    """A sentence for each thing that the contract asks for and the answer does not have."""
    return (*_artifact(contract.artifact_type, response), *_sections(contract.expected_sections, response))


def _artifact(kind: str, response: Response) -> Iterator[str]:
    if kind == "summary-block":
        if not response.summary.strip():
            yield "output contract: a summary-block is asked for, and the summary is empty"
    elif kind == "working-file":
        if not any(_is_markdown(artifact) for artifact in response.artifacts):
            yield "output contract: a working-file is asked for, and no artifact is a Markdown file"
    elif kind and not response.artifacts:
        yield f"output contract: an artifact ({kind}) is asked for, and there is none"


def _sections(expected: tuple[str, ...], response: Response) -> Iterator[str]:
    if expected:
        found = {_plain(heading) for heading in _headings(response)}
        for section in expected:
            if _plain(section) not in found:
                yield f"output contract: there is no section {section!r}"


def _headings(response: Response) -> Iterator[str]:
    left, has_text = _MOST_SEARCHED_BYTES, False
    for artifact in response.artifacts:
        if _is_markdown(artifact) and (text := _text(artifact, left)) is not None:
            left, has_text = left - len(text), True
            yield from _markdown_headings(text.decode(errors="replace"))
    data = response.data
    if not has_text and isinstance(data, str):
        yield from _markdown_headings(data)
    if not has_text and isinstance(data, Mapping):
        yield from map(str, data)


def _markdown_headings(text: str) -> Iterator[str]:
    """`## Sources ##`, or a line that `===` or `---` underlines; what is indented or fenced as code is none."""
    fence = above = ""
    for line in text.removeprefix("\ufeff").splitlines():
        plain = line.expandtabs(_INDENT)
        body = plain.strip()
        if plain.startswith(" " * _INDENT):
            above = ""
        elif fence:
            if body.startswith(fence) and not body.strip(fence[0]):
                fence = ""
        elif begun := _FENCE.match(body):
            fence, above = begun[0], ""
        elif heading := _HEADING.match(body):
            title = heading[1].rstrip("#")
            yield title if title.endswith(" ") else heading[1]
            above = ""
        elif above and body and not (body.strip("=") and body.strip("-")):
            yield above
            above = ""
        else:
            above = body


def _text(artifact: Artifact, most: int) -> bytes | None:
    try:
        with open_regular(Path(artifact.path)) as file:
            return file.read(most)
    except (OSError, ValueError):  # such as a URL, or a name that no file can have
        return None


def _is_markdown(artifact: Artifact) -> bool:
    return PurePath(artifact.path).suffix.lower() in _MARKDOWN


def _plain(heading: str) -> str:
    return " ".join(heading.split()).casefold()
