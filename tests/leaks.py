"""Which threads, processes and sockets a test left behind, in the manner of Dask's test suite.

A census before a test and one after it are compared. What is still closing gets a few seconds; what stays is
told with enough to find who opened it. Linux only, as `/proc` is read; elsewhere only threads are counted.

    threads      Python's own. ZeroMQ's are native: their context shows by its descriptors.
    processes    children, and whatever carries our mark in its environment, so that a grandchild counts whose
                 parent died. One that ended and was not waited for counts too.
    descriptors  sockets, and the eventfd and epoll descriptors that a ZeroMQ context or an event loop holds.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import sys
import threading
import time
import traceback
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support import has_environment

__all__ = ["Census", "leaked_since", "mark_this_run"]

_MARK: Final = "LEAK_CENSUS_RUN"
_POLL = 0.01
_COUNTED = ("socket:", "anon_inode:[eventfd]", "anon_inode:[eventpoll]")


def mark_this_run() -> None:
    """Put a mark into the environment that every process we start inherits."""
    os.environ[_MARK] = f"{os.getpid()}-{uuid.uuid4().hex}"


@dataclass(frozen=True, slots=True)
class Census:
    """The threads, processes and descriptors of one moment."""

    threads: frozenset[threading.Thread]
    processes: frozenset[int]
    """Ids of all processes of the machine. Whose they are is asked only of new ones: that keeps it cheap."""
    descriptors: frozenset[tuple[int, str]]
    """Number and target, such as `(7, "socket:[4711]")`, of the kinds that are counted."""

    @classmethod
    def take(cls) -> Census:
        """Count now; about 1 ms."""
        return cls(frozenset(threading.enumerate()), frozenset(_processes()), frozenset(_descriptors()))

    def since(self, before: Census) -> Census:
        """What is here and was not there before, of processes only those that we started."""
        return Census(
            self.threads - before.threads,
            frozenset(pid for pid in self.processes - before.processes if _is_ours(pid)),
            self.descriptors - before.descriptors,
        )

    def describe(self) -> list[str]:
        """One text for each entry, a thread's with its stack."""
        return [
            *(_describe_thread(thread) for thread in self.threads),
            *(_describe_process(pid) for pid in sorted(self.processes)),
            *(_describe_descriptor(*descriptor) for descriptor in sorted(self.descriptors)),
        ]


def leaked_since(before: Census, patience: float = 5.0) -> list[str]:
    """Say what is left of what was opened since, and kill those of it that are processes.

    Args:
        before: the census to compare with.
        patience: seconds that something may take to close. Garbage is collected first, so that what only
            waits for the collector is closed, and warns about it, here.
    """
    limit = time.monotonic() + patience
    left = Census.take().since(before)
    if left.describe():
        gc.collect()
    while (found := left.describe()) and time.monotonic() < limit:
        time.sleep(_POLL)
        left = Census.take().since(before)
    for pid in left.processes:
        _kill(pid)
    return found


def _processes() -> list[int]:
    try:
        with os.scandir("/proc") as entries:
            return [int(entry.name) for entry in entries if entry.name.isdigit()]
    except FileNotFoundError:
        return []


def _descriptors() -> list[tuple[int, str]]:
    found = []
    with contextlib.suppress(FileNotFoundError):
        for entry in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # the listing's own descriptor is closed by now
                target = str(entry.readlink())
                if target.startswith(_COUNTED):
                    found.append((int(entry.name), target))
    return found


def _is_ours(pid: int) -> bool:
    if pid == _resource_tracker():
        return False
    try:
        parent = int(_stat(pid)[1])
    except OSError:
        return False
    return parent == os.getpid() or has_environment(pid, _MARK, os.environ.get(_MARK, ""))


def _resource_tracker() -> int | None:
    """Multiprocessing's own helper process, which stays until we end."""
    module = sys.modules.get("multiprocessing.resource_tracker")
    return None if module is None else module._resource_tracker._pid


def _stat(pid: int) -> list[str]:
    """State, parent's id and so on, after proc(5); the name before them may hold anything."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(") ")[2].split()


def _describe_thread(thread: threading.Thread) -> str:
    frame = sys._current_frames().get(thread.ident or 0)
    stack = "".join(traceback.format_stack(frame)) if frame else "  not running\n"
    return f"thread {thread.name!r}, now at\n{stack}"


def _describe_process(pid: int) -> str:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        state = _stat(pid)[0]
    except OSError:
        return f"process {pid}, which has ended by now"
    return f"process {pid}: " + ("ended, but never waited for" if state == "Z" else command)


def _describe_descriptor(number: int, target: str) -> str:
    if not target.startswith("socket:"):
        return f"descriptor {number}: {target}, as of a ZeroMQ context or an event loop that was not closed"
    try:
        with socket.socket(fileno=os.dup(number)) as copy:
            return f"descriptor {number}: {copy.family.name} socket, bound to {copy.getsockname()!r}"
    except OSError:
        return f"descriptor {number}: {target}"


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
