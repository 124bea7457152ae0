"""Warnings for a program that has set up no logging."""

from __future__ import annotations

import contextlib
import logging
import sys
import warnings

__all__ = ["warn_unread"]


def warn_unread(logger: logging.Logger, message: str, stacklevel: int = 3) -> None:
    """Issue what was logged as a RuntimeWarning too, if nobody reads the log; not if its level says that nobody wants to.

    Each is shown, and none is remembered: `warnings.warn` keeps each text for good, and a peer may word many.
    """
    if not logger.isEnabledFor(logging.WARNING):
        return
    found: logging.Logger | None = logger
    while found is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in found.handlers):
            return
        found = found.parent if found.propagate else None
    with contextlib.suppress(RuntimeWarning):  # under `-W error`: what warns here is a thread of the bus
        frame = sys._getframe(stacklevel - 1)  # noqa: SLF001  as `warnings.warn` finds it
        warnings.warn_explicit(
            message, RuntimeWarning, frame.f_code.co_filename, frame.f_lineno, module=frame.f_globals.get("__name__")
        )
