"""The output of child processes, read line by line and given on with the name of the process."""

from __future__ import annotations

import contextlib
import os
import selectors
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from ether.text_io.terminal import put

__all__ = ["OutputReader", "to_stderr"]

_READ: Final = 1 << 16
_KEPT: Final = 20
"""Last lines of a process that are kept, for the message about its end."""
_LONGEST: Final = 1 << 16
"""Bytes of a line; a longer one is broken."""


def to_stderr(name: str, line: str) -> None:
    """Print a line to our own stderr."""
    with contextlib.suppress(OSError, ValueError):  # a closed stderr ends no cluster
        put(f"{name} | {line}", sys.stderr)


class _Source:
    """One process's pipe."""

    def __init__(self, name: str, pipe: int) -> None:
        self.name = name
        self.pipe = pipe
        self.rest = b""
        self.last: deque[str] = deque(maxlen=_KEPT)
        self.ended = threading.Event()


class OutputReader:
    """A thread that reads the pipes of child processes, so that a slow terminal does not hold up their supervisor.

    Args:
        take: gets each line with the name of its process; it must not raise.
    """

    def __init__(self, take: Callable[[str, str], None] = to_stderr) -> None:
        self._take = take
        self._selector = selectors.DefaultSelector()
        self._sources: dict[int, _Source] = {}
        self._lock = threading.Lock()
        self._wake, self._woken = os.pipe()
        os.set_blocking(self._wake, False)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="ether-outlet", daemon=True)
        self._thread.start()

    def connect(self, name: str, pipe: int) -> None:
        """Read a process's output; the outlet has a descriptor of its own for it."""
        own = os.dup(pipe)
        os.set_blocking(own, False)
        source = _Source(name, own)
        with self._lock:
            self._sources[pipe] = source
            self._selector.register(own, selectors.EVENT_READ, source)
        os.write(self._woken, b".")

    def disconnect(self, pipe: int, timeout: float = 0.5) -> tuple[str, ...]:
        """Read to the end, waiting at most `timeout` seconds for it, and return the last lines."""
        with self._lock:
            source = self._sources.pop(pipe)
        source.ended.wait(timeout)
        with self._lock:  # not at its end when somebody else holds the pipe: a process that it has started
            self._end(source)
        return tuple(source.last)

    def close(self) -> None:
        """End the thread."""
        self._closing = True
        os.write(self._woken, b".")
        self._thread.join(2.0)
        for source in list(self._sources.values()):
            self._end(source)
        self._selector.close()
        os.close(self._wake)
        os.close(self._woken)

    def _run(self) -> None:
        while not self._closing:
            for key, _ in self._selector.select():
                if key.data is None:
                    os.read(self._wake, _READ)
                else:
                    self._read(key.data)

    def _read(self, source: _Source) -> None:
        with self._lock:
            if source.ended.is_set():
                return
            try:
                data = os.read(source.pipe, _READ)
            except BlockingIOError:
                return
        *lines, source.rest = (source.rest + data).split(b"\n")
        if not data or len(source.rest) > _LONGEST:
            lines, source.rest = [line for line in (*lines, source.rest) if line], b""
        for line in lines:
            text = line.decode(errors="replace").rstrip("\r")
            source.last.append(text)
            self._take(source.name, text)
        if not data:
            with self._lock:
                self._end(source)

    def _end(self, source: _Source) -> None:
        if source.ended.is_set():
            return
        self._selector.unregister(source.pipe)
        os.close(source.pipe)
        source.ended.set()
