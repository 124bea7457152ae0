"""Explore a directory: read its files once, and let each pass look at them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from ether.review.scout.files.discovery import Candidate, Discovery, discover
from ether.review.scout.files.limits import Limits
from ether.review.scout.files.source import Unreadable, read
from ether.review.scout.findings.truncation import bounded_findings, fit
from ether.review.scout.passes.bugs import BugPass
from ether.review.scout.passes.documentation import DocumentationPass
from ether.review.scout.passes.pass_report import Pass, PassReport, Seen
from ether.review.scout.passes.structure import StructurePass

__all__ = ["PassName", "Progress", "explore", "make_pass", "see_file"]

Progress = Callable[[float, str], None]
"""Called with the part done, 0 to 1, and what is being done."""


class PassName(StrEnum):
    """The ways to look at a directory."""

    STRUCTURE = "structure"
    BUGS = "bugs"
    DOCUMENTATION = "documentation"


@dataclass(slots=True)
class _Survey:
    """What reading the files came to, for all passes alike."""

    files: int = 0
    lines: int = 0
    size: int = 0
    cut_short: str = ""


def explore(
    root: Path,
    passes: Sequence[PassName] = tuple(PassName),
    *,
    limits: Limits | None = None,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] = bool,
) -> dict[str, Any]:
    """Look at a directory in one or several ways.

    Every file is read and parsed once, whatever the number of passes, and let go before the next. Nothing is
    imported or run. What cannot be read becomes a note, never an exception.

    Args:
        root: an existing directory.
        passes: which passes; each once, in this order.
        limits: the bounds; `Limits()` unless given.
        progress: told after every few files.
        cancelled: asked before each file; when true, the passes finish with what they have and `complete` is
        false.

    Returns:
        A JSON object: `path`, `files_found`, `lines`, `structure` ({top-level directory: files}), `skipped`
        ({reason: count}), `insights`, `notes`, `complete`, and `passes`: {pass: {insights, counts, by_rule,
        findings, findings_omitted, data}}. It keeps to `limits.result_bytes`.

    Raises:
        NotADirectoryError: `root` is no directory.
    """
    if not root.is_dir():
        raise NotADirectoryError(f"{root} is not a directory.")
    limits = limits or Limits()
    found = discover(root, limits, cancelled=cancelled)
    kinds = {name: make_pass(name, limits) for name in dict.fromkeys(passes)}
    survey = _read_all(found, list(kinds.values()), limits, progress or _silent, cancelled)
    reports = {name: one.finish(root.resolve()) for name, one in kinds.items()}
    return fit(_result(root, found, survey, reports, limits), limits.result_bytes)


def _silent(fraction: float, message: str) -> None:
    """Progress that nobody asked for."""


def make_pass(name: PassName, limits: Limits) -> Pass:
    """A fresh pass."""
    match name:
        case PassName.STRUCTURE:
            return StructurePass(limits)
        case PassName.BUGS:
            return BugPass()
        case PassName.DOCUMENTATION:
            return DocumentationPass(limits)


def _read_all(
    found: Discovery, passes: list[Pass], limits: Limits, progress: Progress, cancelled: Callable[[], bool]
) -> _Survey:
    survey = _Survey()
    total = sum(candidate.size for candidate in found.files) or 1
    step = max(1, len(found.files) // 50)
    for number, candidate in enumerate(found.files):
        if cancelled():
            survey.cut_short = f"Stopped early, after {number} of {len(found.files)} files."
            break
        if survey.size + candidate.size > limits.total_bytes:
            survey.cut_short = f"Stopped at {limits.total_bytes:,} bytes, after {number} of {len(found.files)} files."
            break
        survey.size += candidate.size
        if number % step == 0:
            progress(min(survey.size / total, 0.99), candidate.name)
        _read_one(candidate, found, passes, survey)
    progress(1.0, f"{survey.files} files read")
    return survey


def _read_one(candidate: Candidate, found: Discovery, passes: list[Pass], survey: _Survey) -> None:
    file = read(candidate)
    if isinstance(file, Unreadable):
        if file.reason == "binary":
            found.skipped["binary"] += 1
            return
        found.notes.append(f"{file.name}: {file.reason}.")
        for one in passes:
            one.miss(file)
        return
    survey.files += 1
    survey.lines += file.line_count
    if file.note:
        found.notes.append(f"{file.name}: {file.note}.")
    seen = Seen.of(file)
    for one in passes:
        see_file(one, seen, found.notes)


def see_file(one: Pass, seen: Seen, notes: list[str]) -> None:
    """Let a pass look at a file; an expression too deep for it becomes a note."""
    try:
        one.see(seen)
    except RecursionError:
        notes.append(f"{seen.source.name}: nested too deeply for the {type(one).__name__}.")


def _result(
    root: Path, found: Discovery, survey: _Survey, reports: dict[PassName, PassReport], limits: Limits
) -> dict[str, Any]:
    notes = [*found.notes, *(note for report in reports.values() for note in report.notes)]
    if survey.cut_short:
        notes.insert(0, survey.cut_short)
    tops = Counter(file.name.partition("/")[0] if "/" in file.name else "." for file in found.files)
    return {
        "path": str(root),
        "files_found": len(found.files),
        "files_read": survey.files,
        "lines": survey.lines,
        "structure": dict(tops.most_common(50)),
        "skipped": dict(sorted(found.skipped.items())),
        "insights": [insight for report in reports.values() for insight in report.insights],
        "notes": notes[:50],
        "notes_omitted": max(0, len(notes) - 50),
        "complete": not survey.cut_short,
        "passes": {name.value: _pass_result(report, limits) for name, report in reports.items()},
    }


def _pass_result(report: PassReport, limits: Limits) -> dict[str, Any]:
    return {
        "insights": report.insights,
        **bounded_findings(report.findings, limits.findings),
        "data": report.data,
    }
