"""What takes far too long is ended, so that a loop without end is found like any other bug."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

__all__ = ["Endless", "bounded"]

_MOST: Final = 4.0
"""Seconds of this process's CPU that one step may take; the longest takes some hundredths, a garbage collection perhaps one."""


class Endless(BaseException):
    """It took too long; no Exception, so that nobody survives it."""


@contextmanager
def bounded(what: str) -> Iterator[None]:
    """Raise Endless in what takes too long; only in a process's first thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(_number: int, _frame: Any) -> None:
        raise Endless(f"{what} takes more than {_MOST:g} s of CPU")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, _MOST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)
