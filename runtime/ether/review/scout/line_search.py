"""Search files line by line; also a program of its own, so that a search can be ended from outside.

As a program it reads one JSON object from standard input (`root`, `files`, and the fields of `Query`) and
writes one JSON object: {"matches": [...], "searched": n, "more": bool}. It imports nothing of Ether, so that
it starts at once.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Hit", "Query", "compile_pattern", "search_file"]


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


@dataclass(frozen=True)
class Hit:
    """One matching line."""

    path: str
    line: int
    column: int
    text: str
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


def compile_pattern(query: Query) -> re.Pattern[str]:
    """Compile the pattern, a literal one escaped.

    Raises:
        ValueError: not a regular expression; the message says where.
    """
    try:
        return re.compile(query.pattern if query.regex else re.escape(query.pattern), re.IGNORECASE * query.ignore_case)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{query.pattern!r} is not a regular expression: {error}") from None


def search_file(path: Path, name: str, query: Query, pattern: re.Pattern[str], left: int) -> list[Hit]:
    """The matching lines of one file, at most `left`; nothing for a binary or unreadable one.

    Bytes that are not UTF-8 are replaced. Lines are cut at `query.line_length` before they are searched and
    shown.
    """
    try:
        data = path.read_bytes()
    except OSError:
        return []
    if b"\0" in data[:8192]:
        return []
    lines = data.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
    hits: list[Hit] = []
    for number, whole in enumerate(lines):
        match = pattern.search(whole[: query.line_length])
        if match is None:
            continue
        before = [line[: query.line_length] for line in lines[max(0, number - query.context) : number]]
        after = [line[: query.line_length] for line in lines[number + 1 : number + 1 + query.context]]
        hits.append(Hit(name, number + 1, match.start() + 1, whole[: query.line_length], before, after))
        if len(hits) == left:
            break
    return hits


def search_files(
    root: Path, files: Iterable[str], query: Query, tick: Callable[[int], bool] | None = None
) -> dict[str, Any]:
    """Search files in order until `query.limit` lines match.

    Args:
        root: where the files are.
        files: their names, relative to the root.
        query: what to look for.
        tick: called before each file with the number searched so far; when it returns true, the search ends.

    Returns:
        `matches`, `searched` (files), and `more`: whether it ended before the last file.
    """
    pattern = compile_pattern(query)
    matches: list[Hit] = []
    searched = 0
    more = False
    for name in files:
        if len(matches) >= query.limit or (tick is not None and tick(searched)):
            more = True
            break
        matches += search_file(root / name, name, query, pattern, query.limit - len(matches))
        searched += 1
    return {"matches": [asdict(hit) for hit in matches], "searched": searched, "more": more}


def main() -> None:
    """Run one search from standard input to standard output."""
    job = json.load(sys.stdin)
    root, files = Path(job.pop("root")), job.pop("files")
    json.dump(search_files(root, files, Query(**job)), sys.stdout)


if __name__ == "__main__":
    main()
