"""The whole review in order: plan, bus, tasks, reduction, report."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from ether.review import markdown_report as markdown
from ether.review import report
from ether.review.driver import Bus, groups_of, reduce_outcomes, run_tasks
from ether.review.outcome import Outcome
from ether.review.plan import plan, targets
from ether.review.progress import Display
from ether.review.progress_lines import PlainDisplay
from ether.review.scout.explore import PassName
from ether.review.scout.findings.finding import Finding
from ether.review.scout.ruff import require_ruff
from ether.review.scout.summary import Group, summarise
from ether.text_io.terminal import is_drawn, put, say
from ether_broker.envelope.status import Status
from ether_broker.errors import EtherError, UsageError
from ether_broker.text import json_text, printable_lines

__all__ = ["DEFAULT_TIMEOUT", "Review", "review", "run_review"]

DEFAULT_TIMEOUT: Final = 600.0
"""Seconds for one directory under one pass: at 10,000 lines a second, six million lines."""
_REDUCE_TIMEOUT: Final = 60.0

OpenBus = Callable[[int], AbstractContextManager[Bus]]


@dataclass(frozen=True, slots=True)
class Review:
    """A finished review."""

    report: dict[str, Any]
    """What `review.json` holds."""
    markdown_path: Path
    json_path: Path

    @property
    def exit_code(self) -> int:
        """0 when every task ended COMPLETED, 1 otherwise."""
        return 1 if self.report["failures"] else 0


def run_review(
    directories: Sequence[str | Path],
    output: str | Path = ".",
    *,
    processes: int | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    out: TextIO | None = None,
    err: TextIO | None = None,
) -> int:
    """Review directories as a command does: progress on `err`, one line of result on `out`.

    Returns:
        0 all is well (findings are no failure), 1 a task failed or was cut short, 2 a wrong argument, 130 Ctrl-C.
    """
    out, err = out or sys.stdout, err or sys.stderr
    try:
        done = review(directories, output, processes=processes, timeout=timeout, stream=err)
    except UsageError as error:
        say(str(error), err)
        return 2
    except EtherError as error:
        say(f"The bus did not start: {error}", err)
        return 1
    except KeyboardInterrupt:
        say("Interrupted: what was under way is called off, and nothing was written.", err)
        return 130
    put(f"{done.report['summary']['sentence']} See {done.markdown_path} and {done.json_path}", out)
    return done.exit_code


def review(
    directories: Sequence[str | Path],
    output: str | Path = ".",
    *,
    processes: int | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    passes: Sequence[PassName] = tuple(PassName),
    stream: TextIO | None = None,
    open_bus: OpenBus | None = None,
) -> Review:
    """Review each directory under each pass, and write `review.md` and `review.json`.

    A task that fails stops no other and is named in the report. Both files are written at the end, each at
    once, so a reader never sees half of one; an earlier review there is replaced.

    Args:
        directories: what to review.
        output: the folder for the two files; made if it is missing.
        processes: nodes, each a process; 0 does all in this one; default: one for each processor.
        timeout: seconds for each task.
        passes: which passes.
        stream: where progress is shown; default: standard error.
        open_bus: what opens the bus; default: `ether.review.bus.open_bus`.

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
    nodes = _processes(processes, len(tasks))
    if open_bus is None:
        require_ruff()
    with (open_bus or _open_bus)(nodes) as bus:
        with _display(stream or sys.stderr, len(tasks)) as display:
            outcomes = run_tasks(bus, tasks, display, timeout=timeout, window=max(4, 2 * nodes))
        reduction, problem = _reduce(bus, outcomes)
    made = report.build(
        outcomes,
        reviewed,
        reduction,
        reduction_problem=problem,
        wall_seconds=time.monotonic() - started,
        processes=nodes,
    )
    return Review(
        made,
        _write(folder / "review.md", printable_lines(markdown.render(made))),
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


def _processes(wanted: int | None, tasks: int) -> int:
    from ether.review.bus import default_processes

    if wanted is None:
        return default_processes(tasks)
    if wanted < 0:
        raise UsageError(f"processes={wanted}: 0 runs everything in this process, 1 and more are nodes.")
    return wanted


def _open_bus(processes: int) -> AbstractContextManager[Bus]:
    from ether.review.bus import open_bus

    return open_bus(processes)


def _display(stream: TextIO, total: int) -> Display:
    if is_drawn(stream):
        from ether.review.progress_bars import BarDisplay

        return BarDisplay(stream, total)
    return PlainDisplay(stream)


def _reduce(bus: Bus, outcomes: Sequence[Outcome]) -> tuple[dict[str, Any], str]:
    """The summary, and why it had to be made here if no agent made it: a review without one would be worth little."""
    response = reduce_outcomes(bus, outcomes, timeout=_REDUCE_TIMEOUT)
    if not isinstance(response, EtherError) and response.status is Status.COMPLETED:
        return response.data_payload.thawed(), ""
    problem = str(response) if isinstance(response, EtherError) else response.explain()
    groups = [
        Group(
            group["source"],
            [Finding.from_json(finding) for finding in group["findings"]],
            group["counts"],
            group["by_rule"],
        )
        for group in groups_of(outcomes)
    ]
    return summarise(groups), f"The summary was made without an agent: {problem}"


def _write(path: Path, text: str) -> Path:
    """Write a file at once: readers see the old one or the new one."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        scratch.write_text(text, encoding="utf-8")
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)
    return path
