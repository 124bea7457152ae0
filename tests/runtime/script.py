"""Python programs in processes of their own, as a user would start them."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

from tests.support import REPOSITORY, child_environment


class Script:
    """A program that runs; its stdout is read line by line."""

    def __init__(self, code: str, *args: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, *args],
            cwd=REPOSITORY,
            env=child_environment({"PYTHONUNBUFFERED": "1"}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._queue: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._queue.put(line.rstrip("\n"))

    def line(self, containing: str = "", timeout: float = 20.0) -> str:
        """Wait for a line and return it."""
        while True:
            try:
                line = self._queue.get(timeout=timeout)
            except queue.Empty:
                raise AssertionError(f"no line with {containing!r}, but {self.lines}") from None
            self.lines.append(line)
            if containing in line:
                return line

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def interrupt_group(self) -> None:
        """What Ctrl-C on a terminal does."""
        os.killpg(self.process.pid, signal.SIGINT)

    def wait(self, timeout: float = 20.0) -> int:
        code = self.process.wait(timeout)
        self._reader.join(timeout)
        while not self._queue.empty():
            self.lines.append(self._queue.get())
        return code

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextlib.contextmanager
def script(code: str, *args: str) -> Iterator[Script]:
    """Run a program, and kill it at the end if it still runs."""
    running = Script(code, *args)
    try:
        yield running
    finally:
        running.close()
