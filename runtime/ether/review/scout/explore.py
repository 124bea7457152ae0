"""The exploration of a directory, or of one file: what there is is read once, and each pass looks at it."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from ether.review.scout.files.discovery import Candidate, Discovery, discover
from ether.review.scout.files.language import language_of
from ether.review.scout.files.limits import AnalysisLimits
from ether.review.scout.files.source import Source, Unreadable, read
from ether.review.scout.findings.truncation import bounded_findings, fit, size_of
from ether.review.scout.passes.bugs import BugPass
from ether.review.scout.passes.documentation import DocumentationPass
from ether.review.scout.passes.pass_report import Pass, Seen
from ether.review.scout.passes.structure import StructurePass
from ether.review.scout.ruff import check_files
from ether.review.scout.selection import select

__all__ = ["PassName", "Progress", "Stop", "examine", "explore", "make_pass", "see_all", "see_file"]

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
    survey = _Survey(found, list(kinds.values()), limits, cancelled)
    survey.read_all(progress or (lambda *_: None))
    reports = {name: one.finish(root.resolve()) for name, one in kinds.items()}
    notes = [survey.cut_short, *found.notes] if survey.cut_short else found.notes
    tops = Counter(file.name.partition("/")[0] if "/" in file.name else "." for file in found.files)
    result = {
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
        "passes": {
            name.value: {
                "insights": report.insights,
                **bounded_findings(report.findings, limits.findings),
                "data": report.data,
            }
            for name, report in reports.items()
        },
    }
    return fit(result, limits.result_bytes)


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
    stop = Stop(cancelled)
    kinds = [make_pass(name, limits) for name in passes]
    seen: list[Seen] = []
    if isinstance(file, Unreadable):
        notes.append(f"{file.name}: {file.reason}.")
        about: dict[str, Any] = {"readable": False, "language": None, "size": 0, "lines": 0}
        for one in kinds:
            one.miss(file)
    else:
        seen = list(see_all([file], notes, stop)) if passes else [Seen.of(file)]
        about = {"readable": True, "language": file.language, "size": file.size, "lines": file.line_count}
        if stop.came:
            notes.insert(0, "Stopped early, with the findings so far.")
        elif problem := seen[0].problem:
            notes.append(f"Line {problem.line}: {problem.message}.")
        elif seen[0].module is None:
            notes.append(f"Only Python has an outline, and this is {file.language}.")
    for sight, one in itertools.product(seen, kinds):
        see_file(one, sight, notes)
    reported = [finding for one in kinds for finding in one.finish(path.parent).findings]
    findings = [finding for finding in reported if finding.path == file.name]
    symbols = [symbol.to_json() for sight in seen for symbol in sight.symbols]
    kept = symbols[: limits.findings]
    while size_of(kept) > limits.result_bytes // 2:
        kept = kept[: len(kept) // 2]
    return {
        "path": str(path),
        "complete": not stop.came,
        **about,
        "notes": notes,
        **bounded_findings(findings, limits.findings),
        "symbols": kept,
        "symbols_omitted": len(symbols) - len(kept),
    }


def _read(path: Path, limits: AnalysisLimits) -> Source | Unreadable:
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not a file.")
    size = path.stat().st_size
    if size > limits.file_bytes:
        return Unreadable(path.name, f"has {size:,} bytes, over the {limits.file_bytes:,} that are read")
    return read(Candidate(path.resolve(), path.name, size, language_of(path), vendored=False))


def make_pass(name: PassName, limits: AnalysisLimits) -> Pass:
    """A fresh pass."""
    if name is PassName.STRUCTURE:
        return StructurePass(limits)
    return BugPass() if name is PassName.BUGS else DocumentationPass()


@dataclass(slots=True)
class _Survey:
    """The reading of a directory's files, once for all passes."""

    found: Discovery
    passes: list[Pass]
    limits: AnalysisLimits
    cancelled: Callable[[], bool]
    files: int = 0
    lines: int = 0
    size: int = 0
    cut_short: str = ""
    """Why not all was read; empty if it was."""

    def read_all(self, progress: Progress) -> None:
        """Read batch by batch, and show each file to all passes."""
        files, notes = self.found.files, self.found.notes
        total = sum(candidate.size for candidate in files) or 1
        for start in range(0, len(files), _BATCH):
            progress(min(self.size / total, 0.99), files[start].name)
            stop = Stop(self.cancelled)
            sources = list(self._read_batch(start))
            for seen in see_all(sources, notes, stop):
                for one in self.passes:
                    see_file(one, seen, notes)
            if stop.came and not self.cut_short:
                last = start + len(sources)
                self.cut_short = f"Stopped early, among the files {start + 1} to {last} of {len(files)}."
            if self.cut_short:
                break
        progress(1.0, f"{self.files} files read")

    def _read_batch(self, start: int) -> Iterator[Source]:
        """Read the files of one batch, up to a bound."""
        found = self.found
        for number, candidate in enumerate(found.files[start : start + _BATCH], start):
            if self.cancelled():
                self.cut_short = f"Stopped early, after {number} of {len(found.files)} files."
                return
            if self.size + candidate.size > self.limits.total_bytes:
                bound = f"{self.limits.total_bytes:,} bytes"
                self.cut_short = f"Stopped at {bound}, after {number} of {len(found.files)} files."
                return
            self.size += candidate.size
            file = read(candidate)
            if isinstance(file, Source):
                self.files += 1
                self.lines += file.line_count
                if file.note:
                    found.notes.append(f"{file.name}: {file.note}.")
                yield file
            elif file.reason == "binary":
                found.skipped["binary"] += 1
            else:
                found.notes.append(f"{file.name}: {file.reason}.")
                for one in self.passes:
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
