"""The resource use of a process, read in `/proc`: CPU time to the nanosecond, memory to the page. Linux only."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

__all__ = ["cpu_seconds", "forget_peak", "open_descriptors", "peak_bytes", "resident_bytes", "tree_bytes"]

_TICK: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    """CPU time that a process has used: user and system, all its living threads.

    The scheduler's own count of each thread (`schedstat`) is exact; where the kernel keeps none, `stat` has it in steps
    of 10 ms.

    Raises:
        FileNotFoundError: there is no such process.
    """
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((task / "schedstat").read_bytes().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            continue  # the thread has ended meanwhile
    return total / 1e9 if total else _cpu_ticks(pid)


def _cpu_ticks(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def resident_bytes(pid: int | str = "self") -> int:
    """Memory that a process holds in RAM."""
    return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _PAGE


def peak_bytes(pid: int | str = "self") -> int:
    """The most memory that a process has held in RAM since it began, or since `forget_peak`."""
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def forget_peak(pid: int | str = "self") -> None:
    """Have the peak of a process's memory begin at what it holds now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def tree_bytes(pids: Iterable[int]) -> int:
    """Memory that some processes and all their descendants hold in RAM; pages that they share count for each."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                parent = int((entry / "stat").read_bytes().rpartition(b") ")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found: set[int] = set()
    waiting = list(pids)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children.get(pid, ())
    total = 0
    for pid in found:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            total += resident_bytes(pid)
    return total


def open_descriptors(pid: int | str = "self") -> int:
    """Files, sockets and the like that a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208  names alone
