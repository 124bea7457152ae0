"""Progress bars, one a running task and one for all, with rich."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self, TextIO

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from ether.review.outcome import Outcome
from ether.review.plan import ReviewTask
from ether.review.progress_lines import short
from ether.text_io.terminal import console
from ether_broker.envelope.status import AgentStatus
from ether_broker.text import one_line, printable

__all__ = ["BarDisplay"]

_MARKS: Final = {
    AgentStatus.SUCCESS: ("✔", "green"),
    AgentStatus.PARTIAL: ("◐", "yellow"),
    AgentStatus.ERROR: ("✘", "red"),
}
_NOTE_WIDTH: Final = 32
_REASON: Final = 1_000
"""Characters of an error."""


class BarDisplay:
    """Draws on a terminal; colours only where the terminal has them and NO_COLOR is not set (rich sees to it).

    A finished task leaves one line above the bars, so that the screen never needs more rows than tasks run at
    a time.
    """

    def __init__(self, stream: TextIO, total: int) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=28),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}", style="dim", markup=False),
            console=console(stream),
        )
        self._overall = self._progress.add_task("review", total=float(total), note=f"0 of {total}")
        self._total = total
        self._done = 0
        self._bars: dict[ReviewTask, TaskID] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def started(self, task: ReviewTask, request_id: str) -> None:
        """Give the task a bar."""
        del request_id
        if task not in self._bars:
            self._bars[task] = self._progress.add_task(printable(task.label), total=1.0, note="")

    def progressed(self, task: ReviewTask, request_id: str, fraction: float, message: str) -> None:
        """Move its bar."""
        self.started(task, request_id)
        note = message if len(message) <= _NOTE_WIDTH else "…" + message[1 - _NOTE_WIDTH :]
        self._progress.update(self._bars[task], completed=fraction, note=one_line(note))

    def finished(self, outcome: Outcome) -> None:
        """Take its bar away and leave a line."""
        self._done += 1
        bar = self._bars.pop(outcome.task, None)
        if bar is not None:
            self._progress.remove_task(bar)
        told = Text.assemble(
            _MARKS[outcome.status.agent_status], f" {printable(outcome.task.label)} ",
            (f"{short(outcome.request_id)} {outcome.seconds:.1f} s", "dim"),
        )  # fmt: skip
        if not outcome.has_result:
            told.append(f" {outcome.status.name}", "red").append(f" {one_line(outcome.message, _REASON)}")
        self._progress.console.print(told)
        self._progress.update(self._overall, completed=float(self._done), note=f"{self._done} of {self._total}")
