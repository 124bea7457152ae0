"""The errors of SQLite and the operating system, translated to ours, which name the file and the fix."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ether_broker.errors import (
    EtherError,
    JournalCorrupt,
    JournalFull,
    JournalLocked,
    JournalReadOnly,
    JournalUnavailable,
)

__all__ = ["CORRUPT_FIX", "explain", "explained"]

CORRUPT_FIX: Final = "Stop the broker, restore the journal from a copy or move it away, and start again."

_UNWRITABLE: Final = "may not be written: give this user the right to write it, or mount its file system for writing"
_PROTECTED: Final = JournalReadOnly, _UNWRITABLE
_LOCKED: Final = JournalLocked, "is locked by another program that has it open with SQLite: end that one"
_KINDS: Final[dict[int, tuple[type[EtherError], str]]] = {
    sqlite3.SQLITE_FULL: (JournalFull, "has no room on its disk: make some, and writing goes on"),
    **dict.fromkeys((sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH), _PROTECTED),
    **dict.fromkeys((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED), _LOCKED),
    sqlite3.SQLITE_CORRUPT: (JournalCorrupt, "is damaged. " + CORRUPT_FIX),
    sqlite3.SQLITE_NOTADB: (JournalCorrupt, "is no SQLite database. " + CORRUPT_FIX),
    sqlite3.SQLITE_CANTOPEN: (
        JournalUnavailable, "cannot be opened, nor its folder made: choose a place where this user may write",
    ),
    sqlite3.SQLITE_IOERR: (JournalUnavailable, "is on a disk or file system that fails: look at the system's log"),
}  # fmt: skip
_ERRNOS: Final = {
    errno.ENOSPC: sqlite3.SQLITE_FULL,
    errno.EDQUOT: sqlite3.SQLITE_FULL,
    errno.EROFS: sqlite3.SQLITE_READONLY,
    errno.EACCES: sqlite3.SQLITE_PERM,
    errno.EPERM: sqlite3.SQLITE_PERM,
    errno.EIO: sqlite3.SQLITE_IOERR,
}


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Raise what SQLite raises inside as an error of ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise explain(error, path) from error


def explain(error: sqlite3.Error | OSError, path: Path) -> EtherError:
    """The error of ours that says this about the journal at `path`."""
    if isinstance(error, OSError):
        code = _ERRNOS.get(error.errno or 0, sqlite3.SQLITE_CANTOPEN)
    else:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary code; the rest is detail
    kind, what = _KINDS.get(code, (JournalUnavailable, "cannot be used"))
    return kind(f"The journal {path} {what} ({error}).")
