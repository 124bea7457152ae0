"""Search the contents of a directory, within a time that holds whatever the pattern."""

from __future__ import annotations

import fnmatch
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from ether.review.scout import line_search
from ether.review.scout.files.discovery import discover
from ether.review.scout.files.limits import Limits
from ether.review.scout.line_search import Query, compile_pattern, search_files

__all__ = ["search"]

_QUANTIFIER: Final = re.compile(r"[*+?{]")
_PROGRAM: Final = """
import resource, runpy
resource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds}))
runpy.run_path({path!r}, run_name="__main__")
"""
_POLL: Final = 0.05
"""Seconds between two looks at the clock and at `cancelled` while another process searches."""


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

    A regular expression can take a time that grows exponentially with the line, and Python cannot interrupt
    one. So a pattern with two quantifiers or more is searched by a process of its own, which is killed at the
    deadline; the simpler ones, whose time grows at most with the square of the line, run here on lines cut at
    `query.line_length`.

    Args:
        root: an existing directory.
        query: what to look for.
        include: glob patterns of relative paths, as in `*.py`; all files unless given.
        timeout: seconds for the search itself.
        limits: the bounds of the discovery.
        cancelled: asked now and then; when true, the search ends with what it has (in another process:
        nothing).

    Returns:
        A JSON object: `matches` ({path, line, column, text, before, after}), `files_searched`, `files`,
        `complete`, and `notes`, which say why it is not.

    Raises:
        ValueError: the pattern is empty, or no regular expression.
        NotADirectoryError: `root` is no directory.
    """
    if not query.pattern:
        raise ValueError("The pattern is empty, which every line matches: give one character at least.")
    if not root.is_dir():
        raise NotADirectoryError(f"{root} is not a directory.")
    compile_pattern(query)
    found = discover(root, limits, cancelled=cancelled)
    names = [
        file.name for file in found.files if not include or any(fnmatch.fnmatch(file.name, one) for one in include)
    ]
    end = time.monotonic() + timeout
    if _is_simple(query):
        result = search_files(root, names, query, lambda _: cancelled() or time.monotonic() > end)
        why = "" if not result["more"] else _why(result, query, cancelled=cancelled())
    else:
        result, why = _search_apart(root, names, query, end, cancelled)
    return {
        "matches": result["matches"],
        "files": len(names),
        "files_searched": result["searched"],
        "complete": not why,
        "notes": [note for note in (why, *found.notes) if note],
    }


def _is_simple(query: Query) -> bool:
    return not query.regex or len(_QUANTIFIER.findall(query.pattern)) < 2  # noqa: PLR2004 - two can multiply


def _why(result: dict[str, Any], query: Query, *, cancelled: bool) -> str:
    if len(result["matches"]) >= query.limit:
        return f"More than {query.limit} lines match; these are the first."
    return "Cancelled." if cancelled else "The time was up; these are the matches so far."


def _search_apart(
    root: Path, names: list[str], query: Query, end: float, cancelled: Callable[[], bool]
) -> tuple[dict[str, Any], str]:
    """Search in another process, which its own limit of processor time ends even if this one is killed."""
    seconds = max(1, round(end - time.monotonic()) + 1)
    program = _PROGRAM.format(seconds=seconds, path=line_search.__file__)
    job = json.dumps({"root": str(root), "files": names, **asdict(query)})
    nothing: dict[str, Any] = {"matches": [], "searched": 0, "more": True}
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        text: str | None = job
        while True:
            try:
                output, _ = process.communicate(text, timeout=_POLL)
                break
            except subprocess.TimeoutExpired:
                text = None  # it has been written; asking again goes on where the last call stopped
                if cancelled() or time.monotonic() > end:
                    process.kill()
                    process.communicate()
                    return nothing, "Cancelled." if cancelled() else _SLOW
    try:
        result: dict[str, Any] = json.loads(output)
    except ValueError:
        return nothing, _SLOW
    return result, _why(result, query, cancelled=False) if result["more"] else ""


_SLOW: Final = (
    "The time was up before the pattern was through: on some line its repeats multiply. "
    "Make them less alike, or search for literal text."
)
