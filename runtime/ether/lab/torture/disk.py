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
from collections.abc import Iterator
from pathlib import Path
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
        self._fault: contextlib.AbstractContextManager[None] | None = None
        """What is wrong with it now; leaving it mends it."""
        self.journal: Path = self._place / name
        """The broker's."""
        self.is_mounted: bool = False
        """Whether it is a file system of its own."""

    def __enter__(self) -> Self:
        self._root.mkdir()
        self.is_mounted = _mount(self._root)
        self._place.mkdir(0o700)
        return self

    def __exit__(self, *_: object) -> None:
        self.mend()
        for file in self._place.iterdir():
            shutil.copy2(file, self._folder / file.name)
        if self.is_mounted:
            _run("umount", "-l", self._root)
        shutil.rmtree(self._root, ignore_errors=True)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """What can be done to it."""
        return tuple(fault for fault in Fault if self.is_mounted or fault is not Fault.FILL)

    @property
    def is_broken(self) -> bool:
        """Whether something is wrong with it now."""
        return self._fault is not None

    def break_by(self, fault: Fault) -> None:
        """Let something go wrong, until `mend`; nothing must be wrong yet.

        Raises:
            OSError, sqlite3.Error: it could not be done; nothing has changed.
        """
        assert self._fault is None, "one fault at a time"
        kinds = {
            Fault.FILL: self._filled, Fault.LOCK: self._locked, Fault.PROTECT: self._protected,
            Fault.REMOVE: self._removed, Fault.FAIL: self._failing,
        }  # fmt: skip
        begun = kinds[fault]()
        begun.__enter__()
        self._fault = begun

    def mend(self) -> None:
        """End what goes wrong, if anything does."""
        fault, self._fault = self._fault, None
        if fault is not None:
            fault.__exit__(None, None, None)

    @contextlib.contextmanager
    def _filled(self) -> Iterator[None]:
        ballast = self._root / "ballast"
        with ballast.open("wb", buffering=0) as file:
            for size in (1 << 20, 4096, 1):
                with contextlib.suppress(OSError):
                    while file.write(bytes(size)):
                        pass
        yield
        ballast.unlink()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        connection = sqlite3.connect(self.journal, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
        with contextlib.closing(connection):
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("ROLLBACK")

    @contextlib.contextmanager
    def _protected(self) -> Iterator[None]:
        """What is open may be written on; a broker that is started meanwhile may not."""
        if self.is_mounted:  # root may write whatever the modes say
            _run("mount", "--bind", "-o", "ro", self._place, self._place)
            yield
            _run("umount", "-l", self._place)
        else:
            self._set_modes(0o400, 0o500)
            yield
            self._set_modes(0o600, 0o700)

    def _set_modes(self, file: int, folder: int) -> None:
        self._place.chmod(0o700)
        for path in self._place.iterdir():
            path.chmod(file)
        self._place.chmod(folder)

    @contextlib.contextmanager
    def _removed(self) -> Iterator[None]:
        away = self._place.rename(self._root / "away")
        yield
        away.rename(self._place)

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """The system refuses each write of that process to a file (EFBIG), which SQLite takes for an error of the disk.

        Files that are open are concerned, too, and no right is needed. A broker that is started meanwhile is not.
        """
        writer = holder(self.journal)
        if writer is None:
            raise OSError(f"no process has {self.journal}")
        _, most = resource.prlimit(writer, resource.RLIMIT_FSIZE)
        resource.prlimit(writer, resource.RLIMIT_FSIZE, (0, most))
        yield
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(writer, resource.RLIMIT_FSIZE, (most, most))


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
