"""The whole review in order: plan, bus, tasks, reduction, report."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from ether.review import markdown_report, report
from ether.review.bus import default_processes, open_bus
from ether.review.driver import reduce_outcomes, run_tasks
from ether.review.plan import plan, targets
from ether.review.progress import Progress
from ether.review.scout.explore import PassName
from ether.review.scout.ruff import require_ruff
from ether.runtime import Runtime
from ether_broker.errors import UsageError
from ether_broker.text import json_text, printable_lines

__all__ = ["DEFAULT_TIMEOUT", "Review", "review"]

DEFAULT_TIMEOUT: Final = 600.0
"""Seconds for one directory under one pass: at 10,000 lines a second, six million lines."""


@dataclass(frozen=True, slots=True)
class Review:
    """A finished review."""

    report: dict[str, Any]
    """What `review.json` holds."""
    markdown_path: Path
    json_path: Path

    @property
    def exit_code(self) -> int:
        """0 when every task ended COMPLETED, 1 otherwise; findings are no failure."""
        return 1 if self.report["failures"] else 0

    def __str__(self) -> str:
        """What was found, and where it stands."""
        return f"{self.report['summary']['sentence']} See {self.markdown_path} and {self.json_path}."


def review(
    directories: Sequence[str | Path],
    output: str | Path = ".",
    *,
    processes: int | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    passes: Sequence[PassName] = tuple(PassName),
    stream: TextIO | None = None,
    bus: Runtime | None = None,
) -> Review:
    """Review each directory under each pass, and write `review.md` and `review.json`.

    A task that fails stops no other and is named in the report. Both files are written at the end, each at
    once, so a reader never sees half of one; an earlier review there is replaced. An interruption cancels
    what is under way, and nothing is written.

    Args:
        directories: what to review.
        output: the folder for the two files; made if it is missing.
        processes: nodes, each a process; 0 does all in this one; default: one for each processor.
        timeout: seconds for each task.
        passes: which passes.
        stream: where progress is shown; default: standard error.
        bus: a bus with scouts on it, on as many nodes as `processes`; default: one of the review's own.

    Raises:
        UsageError: a directory or an argument is wrong; nothing was started.
        MissingExtra: the extra `review`, which brings ruff, is not installed; nothing was started.
        EtherError: the bus did not start.
    """
    started = time.monotonic()
    reviewed = targets(directories)
    folder = _output_folder(Path(output))
    if timeout <= 0:
        raise UsageError(f"timeout={timeout}: give each task some seconds, such as {DEFAULT_TIMEOUT:g}.")
    tasks = plan(reviewed, passes)
    nodes = default_processes(len(tasks)) if processes is None else processes
    if nodes < 0:
        raise UsageError(f"processes={nodes}: 0 runs everything in this process, 1 and more are nodes.")
    if bus is None:
        require_ruff()
    with nullcontext(bus) if bus else open_bus(nodes) as scouts:
        progress = Progress(stream or sys.stderr)
        outcomes = run_tasks(scouts, tasks, progress, timeout=timeout, window=max(4, 2 * nodes))
        reduction, problem = reduce_outcomes(scouts, outcomes)
    seconds = time.monotonic() - started
    made = report.build(
        outcomes, reviewed, reduction, reduction_problem=problem, wall_seconds=seconds, processes=nodes
    )  # fmt: skip
    return Review(
        made,
        _write(folder / "review.md", printable_lines(markdown_report.render(made))),
        _write(folder / "review.json", json_text(made, indent=2) + "\n"),
    )


def _output_folder(path: Path) -> Path:
    if path.exists() and not path.is_dir():
        raise UsageError(f"--output {path} is a file: name a folder.")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--output {path} cannot be made ({error.strerror}): name a folder that can.") from error
    if not os.access(path, os.W_OK):
        raise UsageError(f"--output {path} may not be written to: name another folder.")
    return path.absolute()


def _write(path: Path, text: str) -> Path:
    """Write a file at once: readers see the old one or the new one."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        scratch.write_text(text, encoding="utf-8")
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)
    return path
