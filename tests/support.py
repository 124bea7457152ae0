"""What tests of several layers share: bounded waits, fresh interpreters, and finding a run's processes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, Self, TypeVar

__all__ = [
    "REPOSITORY",
    "SOURCE_ROOTS",
    "Stalls",
    "child_environment",
    "has_environment",
    "process_is_alive",
    "processes_with",
    "run_python",
    "wait_until",
]

REPOSITORY: Final = Path(__file__).resolve().parent.parent
SOURCE_ROOTS: Final = tuple(REPOSITORY / layer for layer in ("runtime", "actors", "broker"))

_POLL = 0.005
_LOOK = 0.01
_Seen = TypeVar("_Seen")


def wait_until(condition: Callable[[], _Seen], timeout: float = 10.0, what: str = "") -> _Seen:
    """Wait for a condition of another process or thread, and return what it gave.

    For end-to-end tests only; what runs on a manual clock needs no waiting.

    Args:
        condition: called every 5 ms until it gives something true; what it raises goes to the caller.
        timeout: seconds; at the limit the condition is tried one last time.
        what: words for the failure, such as "both nodes are registered".

    Raises:
        AssertionError: the condition did not hold in time; the message has its last value.
    """
    limit = time.monotonic() + timeout
    while True:
        late = time.monotonic() >= limit
        if seen := condition():
            return seen
        if late:
            raise AssertionError(f"not within {timeout:g} s: {what or condition}; the last value was {seen!r}")
        time.sleep(_POLL)


class Stalls:
    """Counts the seconds in which the machine ran somebody else: this process wakes each 10 ms, or is late."""

    def __enter__(self) -> Self:
        self.seconds = 0.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        before = time.monotonic()
        while not self._end.wait(_LOOK):
            now = time.monotonic()
            self.seconds += now - before - _LOOK
            before = now


def process_is_alive(pid: int) -> bool:
    """Whether a process runs; one that ended and waits for its parent (a zombie) does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(b") ")[2][:1] not in b"ZX"


def has_environment(pid: int, name: str, value: str) -> bool:
    """Whether a process was started with this environment variable; False if that cannot be read."""
    try:
        return f"{name}={value}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def processes_with(name: str, value: str) -> Iterator[int]:
    """The ids of all running processes that were started with this environment variable.

    Other than a parent's list of children, it finds those whose parent has died.
    """
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and has_environment(int(entry.name), name, value):
            yield int(entry.name)


def child_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Our environment, with the source roots first on `PYTHONPATH`: a plain checkout needs no installing."""
    path = [str(root) for root in SOURCE_ROOTS]
    if inherited := os.environ.get("PYTHONPATH"):
        path.append(inherited)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), **(extra or {})}


def run_python(code: str, timeout: float = 30.0) -> str:
    """Run code in a fresh interpreter where warnings are errors, and return what it printed.

    Raises:
        AssertionError: it ended with an error; the message has what it said.
        subprocess.TimeoutExpired: it ran for longer than `timeout` seconds, and was killed.
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=child_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout
