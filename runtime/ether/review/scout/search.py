"""Search the contents of a directory, within a time that holds whatever the pattern."""

from __future__ import annotations

import fnmatch
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ether.review.scout.files.discovery import Candidate, discover
from ether.review.scout.files.limits import Limits
from ether_broker.errors import MissingExtra

if TYPE_CHECKING:
    import regex

__all__ = ["Query", "search"]


@dataclass(frozen=True)
class Query:
    """What to look for."""

    pattern: str
    regex: bool = False
    ignore_case: bool = False
    context: int = 0
    """Lines shown before and after each match."""
    limit: int = 200
    """Matching lines in all."""
    line_length: int = 2_000
    """Characters of a line that are looked at; the rest of a longer one is not searched."""


def search(
    root: Path,
    query: Query,
    *,
    include: Sequence[str] = (),
    timeout: float = 30.0,
    limits: Limits | None = None,
    cancelled: Callable[[], bool] = bool,
) -> dict[str, Any]:
    """Find lines in the files that `discover` lists.

    A regular expression can take a time that grows exponentially with the line, and Python's own cannot be
    interrupted; so the library `regex` searches, which ends at the deadline within a line too.

    Args:
        root: an existing directory.
        query: what to look for.
        include: glob patterns of relative paths, as in `*.py`; all files unless given.
        timeout: seconds for the search itself.
        limits: the bounds of the discovery.
        cancelled: asked before each file; when true, the search ends with what it has.

    Returns:
        A JSON object: `matches` ({path, line, column, text, before, after}), `files_searched`, `files`,
        `complete`, and `notes`, which say why it is not.

    Raises:
        ValueError: the pattern is empty, or no regular expression.
        NotADirectoryError: `root` is no directory.
        MissingExtra: the extra `review`, which brings regex, is not installed.
    """
    if not root.is_dir():
        raise NotADirectoryError(f"{root} is not a directory.")
    pattern = _compiled(query)
    found = discover(root, limits, cancelled=cancelled)
    files = [file for file in found.files if not include or any(fnmatch.fnmatch(file.name, one) for one in include)]
    end = time.monotonic() + timeout
    matches: list[dict[str, Any]] = []
    searched, why = 0, ""
    for file in files:
        if cancelled():
            why = "Cancelled."
        try:
            for hit in () if why else _matches(file, query, pattern, end):
                if len(matches) == query.limit:
                    why = f"More than {query.limit} lines match; these are the first."
                    break
                matches.append(hit)
        except TimeoutError:
            why = "The time was up; these are the matches so far. If repeats of the pattern multiply, make them less alike."
        if why:
            break
        searched += 1
    notes = [note for note in (why, *found.notes) if note]
    return {"matches": matches, "files": len(files), "files_searched": searched, "complete": not why, "notes": notes}


def _compiled(query: Query) -> regex.Pattern[str]:
    if not query.pattern:
        raise ValueError("The pattern is empty, which every line matches: give one character at least.")
    try:
        import regex
    except ImportError:
        msg = "The search needs regex, which is not installed: pip install 'agent-ether[review]'."
        raise MissingExtra(msg) from None
    try:
        text = query.pattern if query.regex else re.escape(query.pattern)
        return regex.compile(text, regex.IGNORECASE if query.ignore_case else 0)
    except (regex.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{query.pattern!r} is not a regular expression: {error}") from None


def _matches(file: Candidate, query: Query, pattern: regex.Pattern[str], end: float) -> Iterator[dict[str, Any]]:
    """The matching lines of one file; none of a binary or unreadable one. Bytes that are not UTF-8 are replaced.

    Raises:
        TimeoutError: `end`, by the monotonic clock, has come.
    """
    try:
        data = file.path.read_bytes()
    except OSError:
        return
    if b"\0" in data[:8192]:
        return
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    lines = [line[: query.line_length] for line in text.split("\n")]
    for number, line in enumerate(lines):
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        if match := pattern.search(line, timeout=left):
            yield {
                "path": file.name, "line": number + 1, "column": match.start() + 1, "text": line,
                "before": lines[max(0, number - query.context) : number],
                "after": lines[number + 1 : number + 1 + query.context],
            }  # fmt: skip
