"""A tree of delegations with a bar of time for each, as `ether trace` prints it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ether.cli.common.output import Format, Output, seconds
from ether.cli.common.table import Column, drawn_table
from ether.text_io.terminal import console, is_drawn
from ether_broker.text import one_line

if TYPE_CHECKING:
    from ether.audit.span import Span

__all__ = ["print_tree"]

_WIDTH: Final = 32
"""Signs of a bar; fewer where a terminal has no room for them."""
_NARROW: Final = 8
_GAP: Final = 2
_LOST, _QUEUED, _RUN, _UNKNOWN = "░", "·", "█", "▒"
_STYLES: Final = {
    "COMPLETED": "green",
    "PARTIAL": "yellow",
    "NEEDS_INPUT": "yellow",
    "RUNNING": "cyan",
    "OPEN": "cyan",
    "CANCELLED": "dim",
}


@dataclass(frozen=True, slots=True)
class Branch:
    """A line of the tree."""

    span: Span
    level: int
    """0 for the root."""
    stem: str
    """What is drawn before its name."""
    is_marked: bool
    start: float
    """Seconds from the tree's begin."""

    @property
    def name(self) -> str:
        """The capability in its place in the tree."""
        return f"{self.stem}{self.span.entry.capability}{' ◄' if self.is_marked else ''}"

    def bar(self, whole: float, width: int = _WIDTH) -> str:
        """Its time in that of the tree: `░` lost with a node, `·` queued, `█` in the handler, `▒` nothing tells."""
        span = self.span
        run, queued = span.run, span.queued
        cuts = [(span.lost, _LOST)] if span.lost > 0 else []
        if queued is None:
            cuts.append((span.duration, _UNKNOWN))
        else:
            cuts += [(span.lost + queued, _QUEUED)] if queued > 0 else []
            cuts.append((span.duration, _QUEUED if run is None else _RUN))
        scale = width / whole if whole > 0 else 0.0
        first = min(int(self.start * scale), width - 1)
        last = max(first + 1, min(width, round((self.start + span.duration) * scale)))
        signs = []
        for place in range(first, last):
            at = (place + 0.5) / scale - self.start if scale else 0.0  # the middle of a sign decides
            signs.append(next((sign for until, sign in cuts if at < until), cuts[-1][1]))
        return " " * first + "".join(signs)


def print_tree(root: Span, marked: bytes, out: Output, depth: int | None) -> None:
    """Print a tree: as nested documents, or as lines, of which the marked delegation's shows it.

    Args:
        root: the uppermost delegation that is shown.
        marked: request id of the one that was asked for.
        out: where.
        depth: levels that are shown below the root; None is all.
    """
    branches = list(_branches(root, marked, depth))
    if not out.is_text:
        _print_json(branches, out)
        return
    whole = max(branch.start + branch.span.duration for branch in branches)
    if is_drawn(sys.stdout):
        screen = console()
        screen.print(_table(branches, whole, screen.width))
    else:
        out.rows(branches, (*_COLUMNS, Column(_BAR, lambda branch: branch.bar(whole))))
    told = [f"#{branch.span.entry.number} {line}" for branch in branches for line in _remarks(branch.span)]
    if told:
        out.value(None, "\n".join(["", *told]))
    hidden = sum(1 for _ in root.walk()) - len(branches)
    if hidden:
        out.note(f"{hidden} more below --depth {depth}")


def _print_json(branches: Sequence[Branch], out: Output) -> None:
    documents: dict[str, dict[str, Any]] = {}
    for branch in branches:
        row = {**branch.span.row(), "level": branch.level, "start": branch.start, "marked": branch.is_marked}
        if out.format is Format.JSONL:
            out.value(row)
            continue
        documents[row["request_id"]] = {**row, "children": []}
        if branch.level:
            documents[row["parent"]]["children"].append(documents[row["request_id"]])
    if documents:
        out.value(next(iter(documents.values())))


def _branches(root: Span, marked: bytes, depth: int | None) -> Iterator[Branch]:
    waiting = [(root, "", "", 0)]
    while waiting:
        span, stem, below, level = waiting.pop()
        yield Branch(span, level, stem, span.entry.about == marked, span.begin.since(root.begin))
        if level == depth:
            continue
        last = len(span.children) - 1
        waiting.extend(
            (child, below + ("└─ " if place == last else "├─ "), below + ("   " if place == last else "│  "), level + 1)
            for place, child in reversed(list(enumerate(span.children)))
        )


def _remarks(span: Span) -> Iterator[str]:
    """What the columns do not say: why it did not end as it should, and to whom else it was given."""
    name = span.entry.capability
    for attempt in span.attempts[1:]:
        after = seconds(attempt.begin.since(span.begin))
        yield f"{name}: attempt {attempt.number} by {attempt.agent or 'nobody'}, {after} after it was accepted"
    if span.status is not None and (span.error or span.status.name != "COMPLETED"):
        assert span.outcome is not None
        yield one_line(f"{name}: {span.status} by {span.outcome.from_agent}: {span.outcome.summary}").rstrip(": ")
    for letter in span.letters:
        detail = one_line(f"{letter.body.get('reason')}: {letter.body.get('detail', '')}").rstrip(": ")
        yield f"{name}: dead letter {detail}"


def _table(branches: Sequence[Branch], whole: float, width: int) -> Any:
    from rich.text import Text

    table = drawn_table((*_COLUMNS, Column(_BAR)), no_wrap=True)
    rows = [[column.text(branch) for column in _COLUMNS] for branch in branches]
    cells_of = zip(*rows, strict=True)
    taken = sum(
        max(len(column.title), *map(len, cells)) + _GAP for column, cells in zip(_COLUMNS, cells_of, strict=True)
    )
    for branch, row in zip(branches, rows, strict=True):
        cells = [Text(cell) for cell in (*row, branch.bar(whole, max(_NARROW, min(_WIDTH, width - taken))))]
        for index in (_STATE, -1):
            cells[index].stylize(_STYLES.get(branch.span.state, "red"))
        if branch.is_marked:
            cells[1].stylize("bold")
        table.add_row(*cells)
    return table


_COLUMNS: Final = (
    Column("number", lambda branch: branch.span.entry.number, right=True),
    Column("delegation", lambda branch: branch.name),
    Column("agent", lambda branch: branch.span.agent),
    Column("state", lambda branch: branch.span.state),
    Column("start", lambda branch: seconds(branch.start), right=True),
    Column("queued", lambda branch: seconds(branch.span.queued), right=True),
    Column("run", lambda branch: seconds(branch.span.run), right=True),
    Column("took", lambda branch: seconds(branch.span.duration), right=True),
)
_STATE: Final = 3
_BAR: Final = "time"
