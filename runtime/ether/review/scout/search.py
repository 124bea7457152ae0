"""The search of a directory's contents, within a time that holds whatever the pattern."""

from __future__ import annotations

import fnmatch
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ether.review.scout.files.discovery import Candidate, discover
from ether.review.scout.params import Search
from ether_broker.errors import MissingExtra

if TYPE_CHECKING:
    import regex

__all__ = ["search"]


_LINE: Final = 2_000
"""Characters of a line that are looked at and shown; the rest of a longer one is not searched."""


def search(wanted: Search, *, cancelled: Callable[[], bool] = bool) -> dict[str, Any]:
    """Find lines in the files that `discover` lists.

    A regular expression can take a time that grows exponentially with the line, and Python's own cannot be
    interrupted; so the library `regex` searches, which ends at the deadline within a line too.

    Args:
        wanted: what, and where.
        cancelled: asked before each file; when true, the search ends with what it has.

    Returns:
        A JSON object: `matches` ({path, line, column, text, before, after}), `files_searched`, `files`,
        `complete`, and `notes`, which say why it is not.

    Raises:
        ValueError: no regular expression.
        NotADirectoryError: `wanted.path` is no directory.
        MissingExtra: the extra `review`, which brings regex, is not installed.
    """
    root = Path(wanted.path).expanduser()
    if not root.is_dir():
        raise NotADirectoryError(f"{root} is not a directory.")
    pattern = _compiled(wanted)
    found = discover(root, cancelled=cancelled)
    asked = wanted.include or ("*",)
    files = [file for file in found.files if any(fnmatch.fnmatch(file.name, one) for one in asked)]
    end = time.monotonic() + wanted.timeout
    matches: list[dict[str, Any]] = []
    searched, why = 0, ""
    for file in files:
        if cancelled():
            why = "Cancelled."
        try:
            for hit in () if why else _matches(file, wanted, pattern, end):
                if len(matches) == wanted.limit:
                    why = f"More than {wanted.limit} lines match; these are the first."
                    break
                matches.append(hit)
        except TimeoutError:
            why = "The time was up; these are the matches so far. If repeats of the pattern multiply, make them less alike."
        if why:
            break
        searched += 1
    notes = [note for note in (why, *found.notes) if note]
    return {"matches": matches, "files": len(files), "files_searched": searched, "complete": not why, "notes": notes}


def _compiled(wanted: Search) -> regex.Pattern[str]:
    try:
        import regex
    except ImportError:
        msg = "The search needs regex, which is not installed: pip install 'agent-ether[review]'."
        raise MissingExtra(msg) from None
    try:
        text = wanted.pattern if wanted.regex else re.escape(wanted.pattern)
        return regex.compile(text, regex.IGNORECASE if wanted.ignore_case else 0)
    except (regex.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{wanted.pattern!r} is not a regular expression: {error}") from None


def _matches(file: Candidate, wanted: Search, pattern: regex.Pattern[str], end: float) -> Iterator[dict[str, Any]]:
    """The matching lines of one file; none of a binary or unreadable one. Bytes that are not UTF-8 are replaced.

    Raises:
        TimeoutError: `end`, by the monotonic clock, has come.
    """
    try:
        data = file.read()
    except OSError:
        return
    if b"\0" in data[:8192]:
        return
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    lines = [line[:_LINE] for line in text.split("\n")]
    for number, line in enumerate(lines):
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        if match := pattern.search(line, timeout=left):
            yield {
                "path": file.name, "line": number + 1, "column": match.start() + 1, "text": line,
                "before": lines[max(0, number - wanted.context) : number],
                "after": lines[number + 1 : number + 1 + wanted.context],
            }  # fmt: skip
