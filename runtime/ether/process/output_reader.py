"""The output of child processes, read line by line and given on with the name of the process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
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


@dataclass(slots=True, eq=False)
class _Source:
    """One process's pipe."""

    name: str
    pipe: int
    rest: bytes = b""
    last: deque[str] = field(default_factory=lambda: deque(maxlen=_KEPT))
    ended: threading.Event = field(default_factory=threading.Event)


class OutputReader:
    """A thread that reads the pipes of child processes, so that a slow terminal does not hold up their supervisor.

    Args:
        take: gets each line with the name of its process; it must not raise.
    """

    def __init__(self, take: Callable[[str, str], None] = to_stderr) -> None:
        self._take = take
        self._sources: dict[int, _Source] = {}
        self._event_loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="ether-output-reader", daemon=True)
        self._thread.start()

    def connect(self, name: str, pipe: int) -> None:
        """Read a process's output, by a descriptor of its own."""
        own = os.dup(pipe)
        os.set_blocking(own, False)
        source = self._sources[pipe] = _Source(name, own)
        self._event_loop.call_soon_threadsafe(self._event_loop.add_reader, own, self._read, source)

    def disconnect(self, pipe: int, timeout: float = 0.5) -> tuple[str, ...]:
        """Read to the end, waiting at most `timeout` seconds for it, and return the last lines."""
        source = self._sources.pop(pipe)
        if not source.ended.wait(timeout):  # somebody else holds the pipe: a process that it has started
            self._event_loop.call_soon_threadsafe(self._end, source)
        return tuple(source.last)

    def close(self) -> None:
        """End the thread, waiting at most 2 s for it."""
        self._event_loop.call_soon_threadsafe(self._event_loop.stop)
        self._thread.join(2.0)

    def _run(self) -> None:
        self._event_loop.run_forever()
        for source in self._sources.values():
            self._end(source)
        self._event_loop.close()

    def _read(self, source: _Source) -> None:
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
            self._end(source)

    def _end(self, source: _Source) -> None:
        if not source.ended.is_set():
            self._event_loop.remove_reader(source.pipe)
            os.close(source.pipe)
            source.ended.set()
