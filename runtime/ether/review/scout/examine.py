"""Examination of one file: the passes, its outline and its figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ether.review.scout.explore import PassName, Stop, make_pass, see_all, see_file
from ether.review.scout.files.discovery import Candidate
from ether.review.scout.files.language import language_of
from ether.review.scout.files.limits import AnalysisLimits
from ether.review.scout.files.source import Source, Unreadable, read
from ether.review.scout.findings.finding import Finding
from ether.review.scout.findings.truncation import bounded_findings, size_of
from ether.review.scout.passes.pass_report import Seen

__all__ = ["examine"]


def examine(
    path: Path,
    passes: Sequence[PassName] = tuple(PassName),
    *,
    limits: AnalysisLimits | None = None,
    cancelled: Callable[[], bool] = bool,
) -> dict[str, Any]:
    """Look at one file. A generated file is measured and not judged, as in `explore`.

    Args:
        path: the file; it may be a symbolic link.
        passes: which passes.
        limits: the bounds; `AnalysisLimits()` unless given.
        cancelled: asked before each finding after 2 s; when true, the rest is left out and `complete` is false.

    Returns:
        A JSON object: `path`, `complete`, `readable`, `language`, `size` (bytes), `lines`, `counts`, `by_rule`, `findings`,
        `findings_omitted`, `symbols` (the outline of a Python file: classes and functions, nested as in the
        text), `symbols_omitted` and `notes`. Without passes ruff is not needed, and nothing is found.

    Raises:
        FileNotFoundError: no file is there.
        MissingExtra: the extra `review`, which brings ruff, is not installed.
    """
    limits = limits or AnalysisLimits()
    file = _read(path, limits)
    notes: list[str] = []
    result: dict[str, Any] = {
        "path": str(path),
        "complete": True,
        "readable": False,
        "language": None,
        "size": 0,
        "lines": 0,
        "notes": notes,
    }
    seen: list[Seen] = []
    stop = Stop(cancelled)
    if isinstance(file, Unreadable):
        notes.append(f"{file.name}: {file.reason}.")
    else:
        seen = list(see_all([file], notes, stop)) if passes else [Seen.of(file)]
        result |= {"readable": True, "language": file.language, "size": file.size, "lines": file.line_count}
        if stop.came:
            notes.insert(0, "Stopped early, with the findings so far.")
        elif problem := seen[0].problem:
            notes.append(f"Line {problem.line}: {problem.message}.")
        elif seen[0].module is None:
            notes.append(f"Only Python has an outline, and this is {file.language}.")
    findings: list[Finding] = []
    for one in (make_pass(name, limits) for name in passes):
        if isinstance(file, Unreadable):
            one.miss(file)
        for sight in seen:
            see_file(one, sight, notes)
        findings += [finding for finding in one.finish(path.parent).findings if finding.path == file.name]
    symbols = [symbol.to_json() for sight in seen for symbol in sight.symbols]
    kept = symbols[: limits.findings]
    while size_of(kept) > limits.result_bytes // 2:
        kept = kept[: len(kept) // 2]
    outline = {"symbols": kept, "symbols_omitted": len(symbols) - len(kept)}
    result["complete"] = not stop.came
    return {**result, **bounded_findings(findings, limits.findings), **outline}


def _read(path: Path, limits: AnalysisLimits) -> Source | Unreadable:
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not a file.")
    size = path.stat().st_size
    if size > limits.file_bytes:
        return Unreadable(path.name, f"has {size:,} bytes, over the {limits.file_bytes:,} that are read")
    return read(Candidate(path.resolve(), path.name, size, language_of(path), vendored=False))
