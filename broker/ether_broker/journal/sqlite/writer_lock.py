"""The lock that keeps a journal to one writer: on the file itself, whatever name it was opened by."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import Final

from ether_broker.errors import JournalLocked, JournalUnavailable
from ether_broker.journal.sqlite.sqlite_errors import explain

__all__ = ["Lock", "holder"]

_POLL: Final = 0.02
_held: Final[set[tuple[int, int]]] = set()
"""(device, inode) of the files that this process holds. They must not be opened again here: closing a second descriptor
would take back SQLite's own locks on the file, which belong to the process."""


class Lock:
    """The right to write a journal, held until `release` or the end of the process, however that comes.

    It is an `flock` on the journal's file, so that neither a symbolic link nor another name gets past it, and the
    operating system takes it back from a killed process. Let go of it when SQLite has closed the file.

    Args:
        path: the journal's; it has to be there.
        patience: seconds to wait for a holder that is about to let go, such as a reader that tidies up.

    Raises:
        JournalLocked: another process has it, or this one; the message names it.
        JournalReadOnly: the file may not be written.
        JournalUnavailable: it is not there, or has several names: SQLite keeps a log beside the name.
    """

    def __init__(self, path: Path, *, patience: float = 0.5) -> None:
        limit = time.monotonic() + patience
        while (descriptor := self._try(path)) is None:
            if time.monotonic() >= limit:
                raise JournalLocked(
                    f"The journal {path} is in use by process {holder(path) or 'unknown'}: "
                    "a journal has one broker; stop that one, or give this one a journal of its own."
                )
            time.sleep(_POLL)
        self._descriptor = descriptor
        _held.add(self._file)

    def _try(self, path: Path) -> int | None:
        try:
            self._file = _identity(os.stat(path))  # noqa: PTH116  with os.fstat below
            if self._file in _held:
                return None
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise JournalUnavailable(f"The journal {path} is not there: put it back where it was.") from error
        except OSError as error:
            raise explain(error, path) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if (
                self.is_on(path) and _identity(_alone(descriptor, path)) == self._file
            ):  # nobody has replaced it meanwhile
                return descriptor
        except BlockingIOError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None

    def is_on(self, path: Path) -> bool:
        """Whether the file that has this name is the locked one."""
        with contextlib.suppress(OSError):
            return _identity(os.stat(path)) == self._file  # noqa: PTH116  with os.fstat above
        return False

    def release(self) -> None:
        """Let go; once."""
        _held.discard(self._file)
        os.close(self._descriptor)


def holder(path: Path) -> int | None:
    """The process that has a journal, by the system's table of locks; None if none has, or it does not say."""
    with contextlib.suppress(OSError):
        device, inode = _identity(path.stat())
        if (device, inode) in _held:
            return os.getpid()
        wanted = f"{os.major(device):02x}:{os.minor(device):02x}:{inode}"
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            words = line.split()
            if words[1:2] == ["FLOCK"] and wanted in words:
                return int(words[4])
    return None


def _alone(descriptor: int, path: Path) -> os.stat_result:
    status = os.fstat(descriptor)
    if status.st_nlink > 1:
        raise JournalUnavailable(
            f"The journal {path} has {status.st_nlink} names (hard links), and its log is kept beside one of them: "
            "remove the others, or make copies of them."
        )
    return status


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
