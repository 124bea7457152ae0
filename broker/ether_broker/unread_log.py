"""Warnings for a program that has set up no logging."""

from __future__ import annotations

import contextlib
import logging
import sys
import warnings
from typing import Final

from ether_broker.text import printable_lines

__all__ = ["warn_unread"]

_MOST: Final = 10_000
"""Characters of a message."""


def warn_unread(logger: logging.Logger, message: str, stacklevel: int = 3) -> None:
    """Issue what was logged as a RuntimeWarning too, if nobody reads the log; not if its level says that nobody wants to.

    Each is shown, and none is remembered: `warnings.warn` keeps each text for good, and a peer may word many. What a terminal
    would obey is written out, further lines are indented, and of a message beyond 10,000 characters its end is left out.
    """
    if not logger.isEnabledFor(logging.WARNING):
        return
    found: logging.Logger | None = logger
    while found is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in found.handlers):
            return
        found = found.parent if found.propagate else None
    shown = printable_lines(message if len(message) <= _MOST else f"{message[:_MOST]}…").replace("\n", "\n    ")
    with contextlib.suppress(RuntimeWarning):  # under `-W error`: what warns here is a thread of the bus
        frame = sys._getframe(stacklevel - 1)  # noqa: SLF001  as `warnings.warn` finds it
        warnings.warn_explicit(
            shown, RuntimeWarning, frame.f_code.co_filename, frame.f_lineno, module=frame.f_globals.get("__name__")
        )
