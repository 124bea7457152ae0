"""Tables of what a command lists: columns, aligned lines that need not wait for the end, and rich's on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ether.text_io.terminal import console, is_drawn, put
from ether_broker.text import printable

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["Column", "Lines", "drawn_table"]

_CELL: Final = 1_000
"""Characters of a cell."""
_GAP: Final = "  "
_STYLES: Final = {
    "COMPLETED": "green",
    "FAILED_EXECUTION": "red",
    "TIMEOUT": "red",
    "PARTIAL": "yellow",
    "REJECTED_CAPABILITY": "yellow",
    "REJECTED_CONTEXT": "yellow",
    "REJECTED_OVERLOAD": "yellow",
    "dead_letter": "yellow",
    "node_down": "yellow",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table that a command prints."""

    title: str
    cell: Callable[[Any], object] | None = None
    """Gives the text of a row's cell; a cell of None is shown as `-`. Default: the row's field of the title's name."""
    right: bool = False
    """Whether it is a number, and stands at the right."""

    def text(self, row: Any) -> str:
        """The cell of a row: one printable line, of 1,000 characters at most."""
        value = row.get(self.title) if self.cell is None else self.cell(row)
        return "-" if value is None or value == "" else printable(value, _CELL)


class Lines:
    """A printer of rows in aligned columns, a line each, with the column titles before the first.

    A column is as wide as its widest cell so far. On a terminal a line is cut at its edge; elsewhere it is whole.

    Args:
        columns: the last may be of any length.
        coloured: the title of the column whose words have colours.
    """

    def __init__(self, columns: Sequence[Column], coloured: str = "") -> None:
        self._columns = columns
        self._coloured = next((index for index, column in enumerate(columns) if column.title == coloured), -1)
        self._widths = [len(column.title) for column in columns]
        self._console = console() if is_drawn(sys.stdout) else None
        self._has_titles = False

    def add(self, rows: Sequence[object]) -> None:
        """Print these rows."""
        cells = [[column.text(row) for column in self._columns] for row in rows]
        for line in cells:
            self._widths = [max(width, len(cell)) for width, cell in zip(self._widths, line, strict=True)]
        if rows and not self._has_titles:
            self._has_titles = True
            self._write([column.title.upper() for column in self._columns], "bold")
        for line in cells:
            self._write(line)

    def _write(self, cells: Sequence[str], style: str = "") -> None:
        padded = [
            cell.rjust(width) if column.right else cell.ljust(width)
            for cell, width, column in zip(cells, self._widths, self._columns, strict=True)
        ]
        if self._console is None:
            put(_GAP.join(padded).rstrip())
            return
        from rich.text import Text

        line = Text(style=style)
        for index, (cell, text) in enumerate(zip(cells, padded, strict=True)):
            line.append(_GAP if index else "")
            line.append(text, _STYLES.get(cell) if index == self._coloured else None)
        line.rstrip()
        self._console.print(line, no_wrap=True, overflow="ellipsis")


def drawn_table(columns: Iterable[Column], **of_each: Any) -> Table:
    """A table of rich's with these columns, still without rows.

    Args:
        columns: give their titles, and where they stand.
        of_each: what else `Table.add_column` is told of each.
    """
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, len(_GAP), 0, 0))
    for column in columns:
        table.add_column(column.title.upper(), justify="right" if column.right else "left", **of_each)
    return table
