"""The disk under a campaign's journal, and what may go wrong with it.

Who may mount gets a small file system of its own in memory, in a mount namespace that ends with the campaign however that
ends. Who may not has the journal in the campaign's folder, which can be locked, protected and taken away, but not filled.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from ether.lab.torture.fault_plan import Fault
from ether_broker.journal.sqlite.writer_lock import holder

__all__ = ["Disk"]

_SIZE: Final = 256 << 20
"""Bytes of the file system."""
_NEW_NAMESPACE: Final = 0x00020000
"""CLONE_NEWNS of unshare(2)."""
_PATIENCE: Final = 5.0
"""Seconds to wait for a lock that the broker has."""


class Disk:
    """The file system of a campaign's journal; a context manager, made and left in one thread.

    `break_by` and `mend` are called from one other thread, by turns. Afterwards the journal is in the campaign's folder.

    Args:
        folder: of the campaign.
        name: of the journal's file.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._root = folder / "disk"
        self._place = self._root / "journal"
        self._ballast = self._root / "ballast"
        self._lock: sqlite3.Connection | None = None
        self._failing = 0
        self._mended: Callable[[], None] | None = None
        self.journal: Path = self._place / name
        """The broker's."""
        self.is_mounted: bool = False
        """Whether it is a file system of its own."""

    def __enter__(self) -> Self:
        self._root.mkdir()
        self.is_mounted = _mount(self._root)
        self._place.mkdir(0o700)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:  # fmt: skip
        self.mend()
        for file in self._place.iterdir():
            shutil.copy2(file, self._folder / file.name)
        if self.is_mounted:
            _run("umount", "-l", self._root)
        shutil.rmtree(self._root, ignore_errors=True)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """What can be done to it."""
        return tuple(Fault) if self.is_mounted else tuple(fault for fault in Fault if fault is not Fault.FILL)

    @property
    def is_broken(self) -> bool:
        """Whether something is wrong with it now."""
        return self._mended is not None

    def break_by(self, fault: Fault) -> None:
        """Let something go wrong, until `mend`; nothing must be wrong yet.

        Raises:
            OSError, sqlite3.Error: it could not be done; nothing has changed.
        """
        assert self._mended is None, "one fault at a time"
        begin, end = {
            Fault.FILL: (self._fill, self._empty),
            Fault.LOCK: (self._begin_lock, self._end_lock),
            Fault.PROTECT: (self._protect, self._release),
            Fault.REMOVE: (self._take_away, self._put_back),
            Fault.FAIL: (self._fail, self._work),
        }[fault]
        begin()
        self._mended = end

    def mend(self) -> None:
        """End what goes wrong, if anything does."""
        if self._mended is not None:
            end, self._mended = self._mended, None
            end()

    def _fill(self) -> None:
        with self._ballast.open("wb", buffering=0) as file:
            for size in (1 << 20, 4096, 1):
                with contextlib.suppress(OSError):
                    while file.write(bytes(size)):
                        pass

    def _empty(self) -> None:
        self._ballast.unlink()

    def _begin_lock(self) -> None:
        connection = sqlite3.connect(self.journal, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("BEGIN IMMEDIATE")
        except BaseException:
            connection.close()
            raise
        self._lock = connection

    def _end_lock(self) -> None:
        assert self._lock is not None
        self._lock.execute("ROLLBACK")
        self._lock.close()

    def _protect(self) -> None:
        """What is open may be written on; a broker that is started meanwhile may not."""
        if self.is_mounted:  # root may write whatever the modes say
            _run("mount", "--bind", "-o", "ro", self._place, self._place)
            return
        self._modes(0o400, 0o500)

    def _release(self) -> None:
        if self.is_mounted:
            _run("umount", "-l", self._place)
            return
        self._modes(0o600, 0o700)

    def _modes(self, file: int, folder: int) -> None:
        self._place.chmod(0o700)
        for path in self._place.iterdir():
            path.chmod(file)
        self._place.chmod(folder)

    def _take_away(self) -> None:
        self._place.rename(self._root / "away")

    def _put_back(self) -> None:
        (self._root / "away").rename(self._place)

    def _fail(self) -> None:
        """The system refuses each write of that process to a file (EFBIG), which SQLite takes for an error of the disk.

        Files that are open are concerned, too, and no right is needed. A broker that is started meanwhile is not.
        """
        writer = holder(self.journal)
        if writer is None:
            raise OSError(f"no process has {self.journal}")
        _, most = resource.prlimit(writer, resource.RLIMIT_FSIZE)
        resource.prlimit(writer, resource.RLIMIT_FSIZE, (0, most))
        self._failing = writer

    def _work(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            _, most = resource.prlimit(self._failing, resource.RLIMIT_FSIZE)
            resource.prlimit(self._failing, resource.RLIMIT_FSIZE, (most, most))


def _mount(folder: Path) -> bool:
    """Mount a file system in memory there, for this thread and what it starts from now on; False for who may not."""
    if os.geteuid() or ctypes.CDLL(None, use_errno=True).unshare(_NEW_NAMESPACE):
        return False
    try:
        _run("mount", "--make-rprivate", "/")
        _run("mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", folder)
    except OSError:
        return False
    return True


def _run(*command: str | Path) -> None:
    """Run a command of the system.

    Raises:
        OSError: there is none, or it failed.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
