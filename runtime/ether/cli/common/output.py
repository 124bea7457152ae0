"""The output of a command: data on stdout in the format that was asked for, everything else on stderr.

Text is for people: a table in colours on a terminal, plain columns that `awk` can split elsewhere. `json` is one
document, `jsonl` one a line; they are for programs and have every field.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Any

from ether.cli.common.table import Column, Lines, drawn_table
from ether.text_io.terminal import console, is_drawn, put, say
from ether_broker.text import json_text

__all__ = ["Format", "Output", "seconds"]


@unique
class Format(StrEnum):
    """The formats in which commands print data."""

    TEXT = "text"
    JSON = "json"
    JSONL = "jsonl"


@dataclass(frozen=True, slots=True)
class Output:
    """The printer of one command's data and notes, as the options before every subcommand want it."""

    format: Format = Format.TEXT
    """Of the data."""
    quiet: bool = False
    """Whether notes for people are left out; errors are always told."""
    debug: bool = False
    """Whether tracebacks are shown."""

    @property
    def is_text(self) -> bool:
        """Whether people are to read it."""
        return self.format is Format.TEXT

    # -- data ----------------------------------------------------------------------------------------------------

    def rows(self, rows: Iterable[Any], columns: Sequence[Column]) -> None:
        """Print rows, such as dicts: as a table, as one JSON list, or each as a line, as soon as it is there."""
        if self.format is Format.JSONL:
            for row in rows:
                put(json_text(row))
            return
        rows = list(rows)
        if self.format is Format.JSON:
            put(json_text(rows, indent=2))
        elif not rows:
            self.note("nothing to list")
        elif is_drawn(sys.stdout):
            from rich.text import Text

            table = drawn_table(columns, overflow="fold")
            for row in rows:
                table.add_row(*(Text(column.text(row)) for column in columns))
            console().print(table)
        else:
            Lines(columns).add(rows)

    def value(self, value: Any, text: str | None = None) -> None:
        """Print one value: as JSON, or as `text` for people; None shows them JSON too."""
        if self.format is Format.JSONL:
            put(json_text(value))
        elif self.format is Format.JSON or text is None:
            self._document(value)
        elif text:
            put(text)

    def url(self, url: str) -> None:
        """Print the URL of a bus that is up, and go on where nobody reads it: the bus is there for others too."""
        with contextlib.suppress(OSError):
            self.value({"url": url}, url)

    def _document(self, value: Any) -> None:
        text = json_text(value, indent=2)
        if self.is_text and is_drawn(sys.stdout):
            from rich.highlighter import JSONHighlighter

            console().print(JSONHighlighter()(text), soft_wrap=True)
        else:
            put(text)

    # -- notes ---------------------------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        """Tell people something that is no data."""
        if not self.quiet:
            say(text)


def seconds(value: float | None) -> str | None:
    """A duration for people, such as `850 µs`, `12 ms` or `3.2 s`; None stays None."""
    if value is None:
        return None
    if value < 0.001:  # noqa: PLR2004  a millisecond
        return f"{value * 1e6:.0f} µs"
    if value < 1:
        return f"{value * 1e3:.3g} ms"
    return f"{value:.0f} s" if 1e3 <= value < 1e9 else f"{value:.3g} s"  # noqa: PLR2004  three digits, and what no clock tells
