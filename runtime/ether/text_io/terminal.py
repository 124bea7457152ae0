"""The one way out: whatever this program shows on a terminal, in a pipe or in a log leaves by it.

Nobody else prints, writes to stdout or stderr, makes a console or a handler for logs (`tests/test_outlets.py` holds that).
So everything passes `ether_broker.text`, wherever it came from: a peer's text that nobody thought of is harmless too. What it
does not do is guard the layout: a cell of a table or a word in a line is made one line where it is put there.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from typing import TYPE_CHECKING, Final, TextIO

from ether_broker.text import printable_lines

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["console", "is_drawn", "log_to_stderr", "put", "say"]

_MOST: Final = 20_000
"""Characters of one message."""
_FURTHER: Final = "\n  "
"""Between the lines of one message, so that none of them looks like another message."""


def put(text: str, stream: TextIO | None = None) -> None:
    """Write what was asked for, of any length, and a line end; on stdout unless told otherwise."""
    print(printable_lines(text), file=stream or sys.stdout, flush=True)


def say(text: str, stream: TextIO | None = None) -> None:
    """Write a message for people; on stderr unless told otherwise, and nowhere when nobody reads that any more.

    Of its lines all but the first are indented; what is over 20,000 characters is cut off.
    """
    shown = text if len(text) <= _MOST else f"{text[:_MOST]}…"
    with contextlib.suppress(OSError, ValueError):
        put(_FURTHER.join(printable_lines(shown).split("\n")), stream or sys.stderr)


def console(stream: TextIO | None = None) -> Console:
    """A rich console on a stream, stdout by default; it knows of NO_COLOR, FORCE_COLOR and TERM=dumb by itself."""
    from ether.text_io.console import SafeConsole

    return SafeConsole(file=stream or sys.stdout, highlight=False, markup=False, emoji=False, soft_wrap=False)


def is_drawn(stream: TextIO) -> bool:
    """Whether tables and bars may be drawn on a stream: it is a terminal that can."""
    return stream.isatty() and os.environ.get("TERM", "") not in {"", "dumb"}


def log_to_stderr(level: int | str) -> None:
    """Have this process's logs written to stderr, from a level on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_SafeFormatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])


class _SafeFormatter(logging.Formatter):
    """A log formatter that makes no record look like another, tracebacks with what they quote included."""

    def format(self, record: logging.LogRecord) -> str:
        return _FURTHER.join(printable_lines(super().format(record)).split("\n"))
