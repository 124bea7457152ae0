"""Warnings for a program that has set up no logging."""

from __future__ import annotations

import contextlib
import logging
import warnings

__all__ = ["warn_unread"]


def warn_unread(logger: logging.Logger, message: str, stacklevel: int = 3) -> None:
    """Issue what was logged as a RuntimeWarning too, if nobody reads the log; not if its level says that nobody wants to."""
    if not logger.isEnabledFor(logging.WARNING):
        return
    found: logging.Logger | None = logger
    while found is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in found.handlers):
            return
        found = found.parent if found.propagate else None
    with contextlib.suppress(RuntimeWarning):  # under `-W error`: what warns here is a thread of the bus
        warnings.warn(message, RuntimeWarning, stacklevel=stacklevel)
