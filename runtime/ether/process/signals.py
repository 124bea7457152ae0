"""Signals that end a process: the first asks for an orderly end, the second ends it at once."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, Final, Self

__all__ = ["Stopping", "exit_on_signals"]

_SLICE: Final = 0.5
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Stopping:
    """SIGTERM, SIGINT and SIGHUP as events to wait for; a context manager, in the main thread only.

    A signal that was ignored asks for no end: `nohup` means what it says.

    Args:
        at_once: called with the number of the second signal, in the main thread, wherever that is; default: ends the process
            with 128 and that number.
        on_hangup: called for SIGHUP, likewise, unless this process's terminal is gone; returns whether it takes the signal,
            which then asks for no end.
    """

    def __init__(
        self, at_once: Callable[[int], None] = lambda number: os._exit(128 + number),
        on_hangup: Callable[[], bool] = lambda: False,
    ) -> None:  # fmt: skip
        self._at_once = at_once
        self._on_hangup = on_hangup
        self._had_terminal = False
        self._is_hangup_ignored = False
        self._reasons: SimpleQueue[str] = SimpleQueue()  # `put` may be called from a signal handler
        self._before: dict[int, Any] = {}
        self.signals: int = 0
        """Signals so far."""
        self.last: int = 0
        """The number of the last one."""

    def post(self, reason: str) -> None:
        """Ask for the end from within; any thread may call it."""
        self._reasons.put(reason)

    def wait(self, timeout: float | None = None) -> str | None:
        """Wait for a signal or a `post`, and return why; None when `timeout` seconds were not enough.

        It waits in slices. A signal that comes while the process is stopped (SIGSTOP) may go to another thread, and Python
        runs its handler in this one, which must not sleep on.
        """
        end = float("inf") if timeout is None else time.monotonic() + timeout
        while True:
            try:
                return self._reasons.get(timeout=max(0.0, min(_SLICE, end - time.monotonic())))
            except Empty:
                if time.monotonic() >= end:
                    return None

    def __enter__(self) -> Self:
        self._had_terminal = _has_terminal()
        self._is_hangup_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        for number in _SIGNALS:
            if number == signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._signalled)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _signalled(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP and (not self._had_terminal or _has_terminal()) and self._on_hangup():
            return
        if number == signal.SIGHUP and self._is_hangup_ignored:
            return
        self.signals += 1
        self.last = number
        if self.signals > 1:
            self._at_once(number)
        self.post(signal.Signals(number).name)


def _has_terminal() -> bool:
    """Whether this process has a terminal that controls it; it has none any more before the kernel says SIGHUP for that."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise `SystemExit` in the main thread, with 128 and the number: what is open is closed.

    A signal that was ignored stays so, and outside the main thread nothing changes.
    """

    def leave(number: int, _frame: object) -> None:
        for each in before:  # a second one must not interrupt the closing
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(128 + number)

    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, leave)
    try:
        yield
    finally:
        for caught, handler in before.items():
            signal.signal(caught, handler)
