"""A table that is printed row by row, before its end is known."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ether.cli.common.output import Column
from ether.text_io.terminal import console, is_drawn, put

if TYPE_CHECKING:
    from rich.console import Console

    from ether.cli.common.output import Row

__all__ = ["Lines"]

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


class Lines:
    """Prints rows in aligned columns, a line each, with the column titles before the first.

    A column is as wide as its widest cell so far. On a terminal a line is cut at its edge; elsewhere it is whole.

    Args:
        columns: the last may be of any length.
        coloured: the title of the column whose words have colours.
    """

    def __init__(self, columns: Sequence[Column], coloured: str = "") -> None:
        self._columns = columns
        self._coloured = next((index for index, column in enumerate(columns) if column.title == coloured), -1)
        self._widths = [len(column.title) for column in columns]
        self._console: Console | None = console() if is_drawn(sys.stdout) else None
        self._has_titles = False

    def print(self, rows: Sequence[Row]) -> None:
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
