"""A working file that is written under a lease: fenced by the token in a file beside it (G5).

A file system knows nothing of leases, so the writers check each other: beside `report.md` lies `.report.md.lease` with the
highest token that has come so far. Who enters a lease writes its token there; who writes the file checks it. Both do so
under the kernel's lock on that small file, which ends with its process. So once a newer lease was entered, an older one
writes nothing more, however late it wakes.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from ether_broker.errors import LeaseLost, Unavailable, UsageError

__all__ = ["PATIENCE", "WorkingFile"]

PATIENCE: Final = 5.0
"""Seconds to wait for another process that has the small file locked: it does so for no longer than a rename takes."""
PAUSE: Final = 0.005
_DIGITS: Final = 20

_LONGEST: Final = 192
"""Bytes of a name that the files beside it have in theirs; most file systems take 255."""


def _short(name: str) -> str:
    """A file's name, or a digest of it where the names of the files beside it would be too long."""
    raw = os.fsencode(name)
    return name if len(raw) <= _LONGEST else hashlib.sha256(raw).hexdigest()


class WorkingFile:
    """A file, and the token under which it is written.

    Not promised: anything against writers that do not go this way, or on a file system without `flock` between all of
    them.

    Args:
        path: absolute; missing directories are made.
        token: of the lease.
    """

    def __init__(self, path: Path, token: int) -> None:
        self.path = path
        self._stem = f".{_short(path.name)}."
        self.fence = path.with_name(f"{self._stem}lease")
        """The small file beside it."""
        self._token = token

    def enter(self) -> None:
        """Shut out every older lease.

        Raises:
            LeaseLost: a newer one has been entered.
            Unavailable: the fence was locked for `PATIENCE` seconds.
            OSError: the directory cannot be written.
        """
        self._patiently(self.try_enter)

    def try_enter(self) -> bool:
        """As `enter`, but False at once while the fence is locked."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return self._guarded(self._clear)

    def replace(self, data: bytes) -> os.stat_result:
        """Write the whole file: a reader sees the old one or the new one, also after a crash. Errors as `enter`.

        Returns:
            Which file it is now.
        """
        part = self.path.with_name(f"{self._stem}{self._token}-{os.urandom(4).hex()}.part")
        try:
            written = self._write(part, data)
            self._patiently(lambda: self._guarded(lambda: part.replace(self.path)))
        finally:
            part.unlink(missing_ok=True)
        return written

    def _clear(self) -> None:
        """Remove what writers with older leases left when they were killed; it can replace nothing any more."""
        before = self._stem
        for name in [entry.name for entry in self.path.parent.iterdir()]:
            token = name.removeprefix(before).partition("-")[0]
            if name.startswith(before) and name.endswith(".part") and token.isdecimal() and int(token) < self._token:
                self.path.with_name(name).unlink(missing_ok=True)

    def _write(self, part: Path, data: bytes) -> os.stat_result:
        with part.open("xb") as file:
            with contextlib.suppress(FileNotFoundError):
                os.fchmod(file.fileno(), stat.S_IMODE(self.path.stat().st_mode))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            return os.fstat(file.fileno())

    def _patiently(self, attempt: Callable[[], bool]) -> None:
        limit = time.monotonic() + PATIENCE
        while not attempt():
            if time.monotonic() >= limit:
                raise self.stuck()
            time.sleep(PAUSE)

    def stuck(self) -> Unavailable:
        """What to raise when the fence stays locked."""
        return Unavailable(f"{self.fence} was locked by another process for {PATIENCE:g} s: is one of them stopped?")

    def _guarded(self, act: Callable[[], object]) -> bool:
        with self._locked() as fence:
            if fence is None:
                return False
            highest = self._read(fence)
            if highest > self._token:
                msg = (
                    f"{self.path} is fenced off: a lease with token {highest} came after this one ({self._token}). If that "
                    f"goes on and nobody else writes it, the clock of the bus was set back: remove {self.fence.name} then."
                )
                raise LeaseLost(msg)
            if highest < self._token:
                os.pwrite(fence, b"%0*d\n" % (_DIGITS, self._token), 0)
            act()
        return True

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int | None]:
        """The fence, locked; None while another has it. It is never deleted, so all lock the same file."""
        fence = os.open(self.fence, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            try:
                fcntl.flock(fence, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield None
            else:
                yield fence
        finally:
            os.close(fence)

    def _read(self, fence: int) -> int:
        text = os.pread(fence, 64, 0)
        try:
            return int(text or b"0")
        except ValueError:
            msg = f"{self.fence} holds {text[:32]!r} and no token: remove it if nobody writes {self.path.name}."
            raise UsageError(msg) from None
