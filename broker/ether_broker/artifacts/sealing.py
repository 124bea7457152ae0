"""The sealing of a file by its digest, which tells a later change of it."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import Final

__all__ = ["ReadFailed", "digest_of", "open_regular", "seal"]

_CHUNK: Final = 1 << 20


def seal(path: str | os.PathLike[str], is_wanted: Callable[[], bool] = lambda: True) -> tuple[str, os.stat_result]:
    """The SHA-256 of a file as it is now, in hex, and which file that is.

    Args:
        path: of the file.
        is_wanted: asked for each MiB.

    Raises:
        OSError: it cannot be read, is no regular file, was written meanwhile, or is wanted no more.
    """

    def check(_data: bytes) -> None:
        if not is_wanted():
            raise OSError(f"{os.fspath(path)} is wanted no more")

    with open_regular(Path(path)) as file:
        before = os.fstat(file.fileno())
        digest, size = digest_of(file, before.st_size, check)
        after = os.fstat(file.fileno())
    if size != before.st_size or (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise OSError(f"{os.fspath(path)} was written while it was sealed, or has not the size that the system says")
    return digest, after


class ReadFailed(OSError):
    """The error of the file that is read, not of the one that is written."""


def open_regular(path: Path) -> BufferedReader:
    """Open a file for reading, without waiting for the other end of a pipe.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    file = open(path, "rb", opener=_no_wait)  # noqa: SIM115  Path.open takes no opener; the caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(f"{path} is no regular file")
    return file


def _no_wait(path: str, flags: int) -> int:
    """Open without waiting for the other end of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


def digest_of(file: BufferedReader, most: int, also: Callable[[bytes], object] = bool) -> tuple[str, int]:
    """The digest and the size of a file, which is read no further than a byte beyond `most`."""
    digest, size = hashlib.sha256(), 0
    while True:
        try:
            chunk = file.read(min(_CHUNK, most + 1 - size))
        except OSError as error:
            raise ReadFailed(*error.args) from error
        if not chunk:
            break
        digest.update(chunk)
        size += len(chunk)
        also(chunk)
    return digest.hexdigest(), size
