"""The exploration of a directory: its files are read once, and each pass looks at them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from ether.review.scout.files.discovery import Discovery, discover
from ether.review.scout.files.limits import AnalysisLimits
from ether.review.scout.files.source import Source, read
from ether.review.scout.findings.truncation import bounded_findings, fit
from ether.review.scout.passes.bugs import BugPass
from ether.review.scout.passes.documentation import DocumentationPass
from ether.review.scout.passes.pass_report import Pass, PassReport, Seen
from ether.review.scout.passes.structure import StructurePass
from ether.review.scout.ruff import check_files
from ether.review.scout.selection import select

__all__ = ["PassName", "Progress", "Stop", "explore", "make_pass", "see_all", "see_file"]

Progress = Callable[[float, str], None]
"""Called with the part done, 0 to 1, and what is being done."""


_BATCH: Final = 100
"""Files in memory at a time, and for each run of ruff."""
_GRACE: Final = 2.0
"""Seconds that a batch gets even when it is time to stop: it takes less as a rule."""


class PassName(StrEnum):
    """The names of a review's passes."""

    STRUCTURE = "structure"
    BUGS = "bugs"
    DOCUMENTATION = "documentation"


@dataclass(slots=True)
class _Survey:
    """The result of reading the files, for all passes alike."""

    files: int = 0
    lines: int = 0
    size: int = 0
    cut_short: str = ""


def explore(
    root: Path,
    passes: Sequence[PassName] = tuple(PassName),
    *,
    limits: AnalysisLimits | None = None,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] = bool,
) -> dict[str, Any]:
    """Look at a directory in one or several ways.

    Every file is read and parsed once, whatever the number of passes, and let go with its batch. Nothing is
    imported or run. What cannot be read becomes a note, never an exception.

    Args:
        root: an existing directory.
        passes: which passes; each once, in this order.
        limits: the bounds; `AnalysisLimits()` unless given.
        progress: told at every 100 files.
        cancelled: asked before each file, and before each finding of a batch that has taken 2 s; when true, the
        passes finish with what they have and `complete` is false.

    Returns:
        A JSON object: `path`, `files_found`, `lines`, `structure` ({top-level directory: files}), `skipped`
        ({reason: count}), `insights`, `notes`, `complete`, and `passes`: {pass: {insights, counts, by_rule,
        findings, findings_omitted, data}}. It keeps to `limits.result_bytes`.

    Raises:
        NotADirectoryError: `root` is no directory.
        MissingExtra: the extra `review`, which brings ruff, is not installed.
    """
    if not root.is_dir():
        raise NotADirectoryError(f"{root} is not a directory.")
    limits = limits or AnalysisLimits()
    found = discover(root, limits, cancelled=cancelled)
    kinds = {name: make_pass(name, limits) for name in dict.fromkeys(passes)}
    survey = _read_all(found, list(kinds.values()), limits, progress or (lambda *_: None), cancelled)
    reports = {name: one.finish(root.resolve()) for name, one in kinds.items()}
    return fit(_result(root, found, survey, reports, limits), limits.result_bytes)


def make_pass(name: PassName, limits: AnalysisLimits) -> Pass:
    """A fresh pass."""
    if name is PassName.STRUCTURE:
        return StructurePass(limits)
    return BugPass() if name is PassName.BUGS else DocumentationPass()


def _read_all(
    found: Discovery, passes: list[Pass], limits: AnalysisLimits, progress: Progress, cancelled: Callable[[], bool]
) -> _Survey:
    survey = _Survey()
    total = sum(candidate.size for candidate in found.files) or 1
    for start in range(0, len(found.files), _BATCH):
        progress(min(survey.size / total, 0.99), found.files[start].name)
        stop = Stop(cancelled)
        sources = list(_read_some(found, start, passes, survey, limits, cancelled))
        for seen in see_all(sources, found.notes, stop):
            for one in passes:
                see_file(one, seen, found.notes)
        if stop.came and not survey.cut_short:
            survey.cut_short = (
                f"Stopped early, among the files {start + 1} to {start + len(sources)} of {len(found.files)}."
            )
        if survey.cut_short:
            break
    progress(1.0, f"{survey.files} files read")
    return survey


def _read_some(  # noqa: PLR0917
    found: Discovery,
    start: int,
    passes: list[Pass],
    survey: _Survey,
    limits: AnalysisLimits,
    cancelled: Callable[[], bool],
) -> Iterator[Source]:
    """Read the files of one batch, up to a bound."""
    for number, candidate in enumerate(found.files[start : start + _BATCH], start):
        if cancelled():
            survey.cut_short = f"Stopped early, after {number} of {len(found.files)} files."
            return
        if survey.size + candidate.size > limits.total_bytes:
            survey.cut_short = f"Stopped at {limits.total_bytes:,} bytes, after {number} of {len(found.files)} files."
            return
        survey.size += candidate.size
        file = read(candidate)
        if isinstance(file, Source):
            survey.files += 1
            survey.lines += file.line_count
            if file.note:
                found.notes.append(f"{file.name}: {file.note}.")
            yield file
        elif file.reason == "binary":
            found.skipped["binary"] += 1
        else:
            found.notes.append(f"{file.name}: {file.reason}.")
            for one in passes:
                one.miss(file)


class Stop:
    """The end of a batch: not before it had its 2 s, and then for good.

    Args:
        cancelled: what says so.
    """

    def __init__(self, cancelled: Callable[[], bool]) -> None:
        self._cancelled = cancelled
        self._begin = time.monotonic()
        self.came: bool = False

    def __call__(self) -> bool:
        """Ask."""
        self.came = self.came or (time.monotonic() - self._begin > _GRACE and self._cancelled())
        return self.came


def see_all(sources: Sequence[Source], notes: list[str], stop: Callable[[], bool] = bool) -> Iterator[Seen]:
    """Parse files and have ruff check those in Python whose maintainer can act on it.

    Args:
        sources: the files.
        notes: where to note what could not be checked, a sentence each.
        stop: asked before each file and each finding, and while ruff runs; when true, the rest is left out.

    Raises:
        MissingExtra: as `require_ruff`.
    """
    every = [Seen.of(source) for source in sources if not stop()]
    checked = [seen.source for seen in every if seen.module and seen.source.is_ours]
    diagnostics = check_files(checked, notes, stop)
    for seen in every:
        if stop():
            return
        found = select(seen.module, diagnostics.get(seen.source.name, ()), stop) if seen.module else ()
        yield replace(seen, found=list(found))


def see_file(one: Pass, seen: Seen, notes: list[str]) -> None:
    """Let a pass look at a file; an expression too deep for it becomes a note."""
    try:
        one.see(seen)
    except RecursionError:
        notes.append(f"{seen.source.name}: nested too deeply for the {type(one).__name__}.")


def _result(
    root: Path, found: Discovery, survey: _Survey, reports: dict[PassName, PassReport], limits: AnalysisLimits
) -> dict[str, Any]:
    notes = [*found.notes]
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


def _pass_result(report: PassReport, limits: AnalysisLimits) -> dict[str, Any]:
    return {
        "insights": report.insights,
        **bounded_findings(report.findings, limits.findings),
        "data": report.data,
    }
