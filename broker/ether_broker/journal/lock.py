"""One writer for a journal: a lock file beside it that says who."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import Final

from ether_broker.errors import JournalLocked
from ether_broker.journal.failure import explain

__all__ = ["Lock"]

_POLL: Final = 0.02


class Lock:
    """The right to write a journal, held until `release` or the end of the process, however that comes.

    The file `PATH.lock` has the holder's process id. It is an `flock`, which the operating system takes back from
    a killed process, so that a lock file that was left behind locks nobody out.

    Args:
        path: the journal's.
        patience: seconds to wait for a holder that is about to let go, such as a reader that tidies up.

    Raises:
        JournalLocked: another process has it; the message names it.
        JournalReadOnly: the lock file cannot be written.
    """

    def __init__(self, path: Path, *, patience: float = 0.5) -> None:
        self._file = Path(f"{path}.lock")
        limit = time.monotonic() + patience
        while (descriptor := self._try(path)) is None:
            if time.monotonic() >= limit:
                raise JournalLocked(
                    f"The journal {path} is in use by process {self._holder()}: "
                    "a journal has one broker; stop that one, or give this one a journal of its own."
                )
            time.sleep(_POLL)
        self._descriptor = descriptor
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)

    def _try(self, path: Path) -> int | None:
        try:
            descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise explain(error, path) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The holder before us may have removed the file between our open and our lock: then we locked nothing.
            if os.fstat(descriptor).st_ino == self._file.stat().st_ino:
                return descriptor
        except (BlockingIOError, FileNotFoundError):
            pass
        os.close(descriptor)
        return None

    def _holder(self) -> str:
        try:
            return self._file.read_text(encoding="ascii").strip() or "unknown"
        except (OSError, UnicodeDecodeError):
            return "unknown"

    def release(self) -> None:
        """Let go, and remove the file; once."""
        self._file.unlink(missing_ok=True)
        os.close(self._descriptor)
