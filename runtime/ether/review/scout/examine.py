"""Examine one file: all three passes, its outline and its figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ether.review.scout.explore import PassName, make_pass, see_all, see_file
from ether.review.scout.files.discovery import Candidate
from ether.review.scout.files.language import language_of
from ether.review.scout.files.limits import Limits
from ether.review.scout.files.source import Source, Unreadable, read
from ether.review.scout.findings.finding import Finding
from ether.review.scout.findings.truncation import bounded_findings, size_of
from ether.review.scout.passes.pass_report import Seen

__all__ = ["examine", "structure_of"]


def examine(path: Path, *, limits: Limits | None = None) -> dict[str, Any]:
    """Look at one file in all three ways. A generated file is measured and not judged, as in `explore`.

    Returns:
        A JSON object: `path`, `readable`, `language`, `size` (bytes), `lines`,
        `counts`, `by_rule`, `findings`, `findings_omitted`, `symbols` (the outline), `symbols_omitted` and
        `notes`.

    Raises:
        FileNotFoundError: no file is there.
    """
    limits = limits or Limits()
    file = _read(path, limits)
    findings: list[Finding] = []
    notes: list[str] = []
    seen = [] if isinstance(file, Unreadable) else see_all([file], notes)
    for name in PassName:
        one = make_pass(name, limits)
        if isinstance(file, Unreadable):
            one.miss(file)
        for sight in seen:
            see_file(one, sight, notes)
        report = one.finish(path.parent)
        findings += [finding for finding in report.findings if finding.path == file.name]
        notes += report.notes
    result: dict[str, Any] = {
        "path": str(path),
        **bounded_findings(findings, limits.findings),
        "notes": notes,
    }
    if isinstance(file, Unreadable):
        return {**result, "readable": False, "notes": [f"{file.name}: {file.reason}.", *notes]}
    return {
        **result,
        "readable": True,
        "language": file.language,
        "size": file.size,
        "lines": file.line_count,
        **_bounded_symbols(seen[0], limits),
    }


def structure_of(path: Path, *, limits: Limits | None = None) -> dict[str, Any]:
    """The outline of one Python file: classes and functions, nested as in the text.

    Returns:
        A JSON object: `path`, `language`, `symbols`, `symbols_omitted`, and `notes`, which say why there are
        none.

    Raises:
        FileNotFoundError: no file is there.
    """
    limits = limits or Limits()
    file = _read(path, limits)
    if isinstance(file, Unreadable):
        nothing: list[Any] = []
        return {
            "path": str(path),
            "language": None,
            "symbols": nothing,
            "symbols_omitted": 0,
            "notes": [file.reason],
        }
    seen = Seen.of(file)
    notes = [] if seen.module else [f"Only Python has an outline, and this is {file.language}."]
    if seen.problem:
        notes = [f"Line {seen.problem.line}: {seen.problem.message}."]
    return {"path": str(path), "language": file.language, **_bounded_symbols(seen, limits), "notes": notes}


def _read(path: Path, limits: Limits) -> Source | Unreadable:
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not a file.")
    size = path.stat().st_size
    if size > limits.file_bytes:
        return Unreadable(path.name, f"has {size:,} bytes, over the {limits.file_bytes:,} that are read")
    return read(Candidate(path, path.name, size, language_of(path), vendored=False))


def _bounded_symbols(seen: Seen, limits: Limits) -> dict[str, Any]:
    """The outline as JSON: at most `limits.findings` symbols, and half of `limits.result_bytes`."""
    kept = [symbol.to_json() for symbol in seen.symbols[: limits.findings]]
    while size_of(kept) > limits.result_bytes // 2:
        kept = kept[: len(kept) // 2]
    return {"symbols": kept, "symbols_omitted": len(seen.symbols) - len(kept)}
