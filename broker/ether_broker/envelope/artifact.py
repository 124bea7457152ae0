"""Artifacts: files, sealed by their digest, so that whoever takes them in can tell a change (G5).

artifact.open ─┬─► the file on this machine, if it is what was sealed
               └─► else a Fetcher of this process ── FETCH, CHUNK ──► the node that offered it
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path, PurePath
from typing import Annotated, Any, BinaryIO, Final, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from ether_broker.artifacts.fetching import fetch
from ether_broker.artifacts.sealing import ReadFailed, digest_of, open_regular, seal
from ether_broker.asyncio_checks import runs_event_loop
from ether_broker.envelope.model import AgentName, Model
from ether_broker.errors import ArtifactMismatch, ArtifactTooLarge, ArtifactUnavailable, UsageError
from ether_broker.number import is_number
from ether_broker.text import printable

__all__ = ["Artifact", "ArtifactSource"]

MOST_FETCHED: Final = 4 << 30
"""Bytes of an artifact that are fetched from another machine, unless more are asked for (4 GiB)."""
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_MAKES: Final = "an Artifact is wanted: bus.artifact({path}) makes one, and task.artifact({path}) in a handler"
_PATH: Final = 1_000
"""Characters of a path in an error."""
_SHOWN: Final = 80
"""Characters of a path that was given instead of an artifact that an error shows."""
IDLE_TIMEOUT: Final = 30.0
"""Seconds that may pass without a byte while an artifact is fetched."""
_IN_LOOP: Final = (
    "This thread runs an event loop, which would stand still while the file is read or fetched: "
    "`await asyncio.to_thread(artifact.open)` does it in another."
)


class ArtifactSource(Model):
    """The node that has an artifact's bytes, with the key by which it knows that it offered them.

    Example:
        Path("notes.md").write_text("done")
        assert bus.artifact("notes.md").source.node == bus.name
        assert Artifact.of("notes.md").source is None
    """

    node: AgentName
    file: str
    """What tells the file from one that has its path later: device, inode, size and time of the last change."""
    key: Annotated[str, Field(repr=False)]
    """Of path, digest, size and `file`, in hex: whoever has it may read the file."""


class Artifact(Model):
    """A file, with the digest by which a later change of it is detected (G5).

    Example:
        Path("report.md").write_text("done")
        artifact = Artifact.of("report.md")
        assert artifact.read() == b"done"

        Path("report.md").write_text("changed")
        with pytest.raises(ArtifactMismatch):
            artifact.verify()
    """

    path: str
    sha256: str | None = None
    size: Annotated[int, Field(ge=0)] | None = None
    """Bytes."""
    source: ArtifactSource | None = None
    """Where other machines fetch it from: of one that `task.artifact`, `bus.artifact` or `lease.write` made."""

    @property
    def shown_path(self) -> str:
        """The path as an error shows it: printable, and cut."""
        return printable(self.path, _PATH)

    @model_validator(mode="before")
    @classmethod
    def _check_is_no_path(cls, value: Any) -> Any:
        if isinstance(value, (str, PurePath)):
            raise PydanticCustomError("artifact_path", _MAKES, {"path": repr(str(value)[:_SHOWN])})
        return value

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> Self:
        """Seal a file as it is now.

        Raises:
            OSError: it cannot be read, is no regular file, or was written meanwhile.
        """
        digest, found = seal(path)
        return cls(path=os.fspath(path), sha256=digest, size=found.st_size)

    def sealed(self, is_wanted: Callable[[], bool] = lambda: True) -> Self:
        """Itself if it has a digest, else with that of the file; as it is where there is no such file on this machine.

        Args:
            is_wanted: asked for each MiB of the file; if it says no, the artifact stays as it is.
        """
        if self.sha256 is not None:
            return self
        try:
            digest, found = seal(self.path, is_wanted)
        except (OSError, ValueError):  # such as a URL, or a name that no file can have
            return self
        return type(self)(path=self.path, sha256=digest, size=found.st_size)

    def open(
        self, *, root: str | os.PathLike[str] = "", max_bytes: int | None = None, idle_timeout: float = IDLE_TIMEOUT
    ) -> BinaryIO:  # fmt: skip
        """Open it for reading: a binary file with just the sealed bytes, which the caller closes.

        On a machine that has the file it is that file, as it was when it was checked: a writer that changes it in place later
        is not noticed. On another it is a temporary file of this process that disappears when it is closed.

        Args:
            root: as `verify`.
            max_bytes: bytes that it may have; default: 4 GiB if it is fetched or does not say how many were sealed, and any
                number of a file of this machine.
            idle_timeout: seconds that may pass without a byte while it is fetched; of a process on several buses, on each.

        Raises:
            ArtifactMismatch: it was changed, is not there or was never sealed, and nobody offers it to other machines; or the
                node that does so sent other bytes than those that were sealed.
            ArtifactTooLarge: it has more than `max_bytes`.
            ArtifactUnavailable: it is not here, and could not be fetched: nothing came for
                `idle_timeout` seconds, its node was not on the bus for 10, or there is no room here.
            Closed: the runtime that fetched it was closed meanwhile.
            UsageError: this thread runs an event loop, or a callback of a handle; or `max_bytes` or `idle_timeout` is none.
        """
        _check_bounds(max_bytes, idle_timeout)
        try:
            return self._open_checked(root, max_bytes)
        except ArtifactMismatch as error:
            return self._fetch_copy(error, max_bytes, idle_timeout)

    def _fetch_copy(self, here: ArtifactMismatch, max_bytes: int | None, idle_timeout: float) -> BinaryIO:
        import tempfile

        with contextlib.ExitStack() as stack:
            try:
                copy = tempfile.TemporaryFile()  # noqa: SIM115  the caller closes it
                stack.callback(_close, copy)
                self._fetch(copy.write, lambda: copy.truncate(copy.seek(0)), here, max_bytes, idle_timeout)
                copy.seek(0)
            except OSError as error:
                raise ArtifactUnavailable(
                    f"{self.shown_path} cannot be kept here: {error.strerror or error}."
                ) from error
            stack.pop_all()
            return copy

    def _open_checked(self, root: str | os.PathLike[str], max_bytes: int | None) -> BinaryIO:
        file = self._open_here(root)
        try:
            self._compare_file(file, lambda _data: None, max_bytes)
            file.seek(0)
        except BaseException:
            file.close()
            raise
        return file

    def verify(self, *, root: str | os.PathLike[str] = "") -> Self:
        """Check that the file is still what was sealed, and return itself; as `open`, with its defaults.

        Says how the file was when it was read, not how it is later: to use what was checked, take `open`, `read` or `copy_to`.

        Args:
            root: where a relative path begins; default: the working directory of this process.

        Raises:
            ArtifactMismatch: it was changed, is not there, or was never sealed.
            ArtifactUnavailable, UsageError: as `open`.
        """
        self._pour(root, lambda _data: None, lambda: None, None, IDLE_TIMEOUT)
        return self

    def read(
        self, *, root: str | os.PathLike[str] = "", max_bytes: int | None = None, idle_timeout: float = IDLE_TIMEOUT
    ) -> bytes:  # fmt: skip
        """The file's bytes, which are those that were sealed; arguments and errors as `open`."""
        data = bytearray()
        self._pour(root, data.extend, data.clear, max_bytes, idle_timeout)
        return bytes(data)

    def copy_to(
        self, target: str | os.PathLike[str], *, root: str | os.PathLike[str] = "", max_bytes: int | None = None,
        idle_timeout: float = IDLE_TIMEOUT,
    ) -> Path:  # fmt: skip
        """Take the file in as a copy of one's own (spec 2 §10): all of it or, when it does not match, nothing.

        Args:
            target: the copy's path; a file that is there is replaced at once.
            root: as `verify`.
            max_bytes: as `open`.
            idle_timeout: as `open`.

        Raises:
            ArtifactMismatch, ArtifactUnavailable, UsageError: as `open`.
            ArtifactUnavailable: also if there is no room for it.
            OSError: the copy cannot be written otherwise.
        """
        _check_bounds(max_bytes, idle_timeout)  # before a file is made
        copy = Path(target)
        if not copy.name:
            raise UsageError(f"copy_to({str(copy)!r}): this is a folder; add the name that the copy is to have.")
        part = copy.with_name(f".{os.urandom(8).hex()}.part")
        try:
            with part.open("xb") as out:
                self._pour(root, out.write, lambda: out.truncate(out.seek(0)), max_bytes, idle_timeout)
            part.replace(copy)
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise ArtifactUnavailable(f"{self.shown_path} cannot be kept as {copy}: {error.strerror}.") from error
            raise
        finally:
            part.unlink(missing_ok=True)
        return copy

    def _pour(
        self, root: str | os.PathLike[str], write: Callable[[bytes], object], reset: Callable[[], object],
        max_bytes: int | None, idle_timeout: float,
    ) -> None:  # fmt: skip
        """Write all of its bytes, from here or from its node; those written since the last `reset` are what was sealed."""
        _check_bounds(max_bytes, idle_timeout)
        try:
            with self._open_here(root) as file:
                self._compare_file(file, write, max_bytes)
        except ArtifactMismatch as error:
            reset()
            self._fetch(write, reset, error, max_bytes, idle_timeout)

    def _fetch(
        self, write: Callable[[bytes], object], reset: Callable[[], object], here: ArtifactMismatch, max_bytes: int | None,
        idle_timeout: float,
    ) -> None:  # fmt: skip
        most = MOST_FETCHED if max_bytes is None else max_bytes
        fetch(self, write, reset, compare=self._compare, here=here, max_bytes=most, idle_timeout=idle_timeout)

    def _open_here(self, root: str | os.PathLike[str]) -> BufferedReader:
        if self.source is not None:
            _check_may_wait()
        if self.sha256 is None:
            path = self.path[:_PATH]
            make = f"make it with bus.artifact({path!r}) or Artifact.of({path!r})"
            msg = (
                f"The artifact {path!r} has no digest: {make}. One of a response names no file that its specialist had."
            )
            raise ArtifactMismatch(msg, self.path)
        try:
            return open_regular(Path(root, self.path))
        except (OSError, ValueError) as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: OSError | ValueError) -> ArtifactMismatch:
        reason = error.strerror or error if isinstance(error, OSError) else error
        msg = (
            f"{self.shown_path} cannot be read here: {reason}. A relative path begins at `root`; and another machine can "
            "read what was made by `task.artifact(path)` or `bus.artifact(path)`."
        )
        return ArtifactMismatch(msg, self.path, self.sha256)

    def _compare_file(self, file: BufferedReader, write: Callable[[bytes], object], max_bytes: int | None) -> None:
        """Give the bytes of a file to `write`, no more of them than it may have."""
        found = os.fstat(file.fileno()).st_size
        if self.size is not None and found != self.size:
            raise self._mismatch(None, found)
        if max_bytes is not None and found > max_bytes:
            raise ArtifactTooLarge(f"{self.shown_path} has more than max_bytes={max_bytes:,}, the most that is read.")
        most = MOST_FETCHED if max_bytes is None else max_bytes
        if self.size is None and found > most:
            raise ArtifactTooLarge(
                f"{self.shown_path} has more than {most:,} bytes, and nobody said how many were sealed: give max_bytes."
            )
        try:
            digest, size = digest_of(file, most if self.size is None else self.size, write)
        except ReadFailed as error:
            raise self._unreadable(error) from error
        self._compare(digest, size)

    def _compare(self, digest: str, size: int) -> None:
        if digest != self.sha256 or self.size not in (None, size):
            raise self._mismatch(digest, size)

    def _mismatch(self, digest: str | None, size: int) -> ArtifactMismatch:
        """The error, whose message tells nothing of the other file: it may go to who must not know."""
        sealed = "" if self.size is None else f"{self.size:,} "
        msg = f"{self.shown_path} is not what was sealed: {sealed}bytes with the SHA-256 {printable(self.sha256, _SHOWN)}."
        return ArtifactMismatch(msg, self.path, self.sha256, digest, size)


def _check_bounds(max_bytes: object, idle_timeout: object) -> None:
    if max_bytes is not None and (type(max_bytes) is not int or max_bytes < 0):
        raise UsageError(f"max_bytes={max_bytes!r:.40}: a whole number of bytes, 0 or more.")
    if not is_number(idle_timeout) or not 0 < idle_timeout < float("inf"):
        raise UsageError(f"idle_timeout={idle_timeout!r:.40}: a number of seconds above 0.")


def _close(file: BinaryIO) -> None:
    with contextlib.suppress(OSError):  # which writes what is left in its buffer
        file.close()


def _check_may_wait() -> None:
    """Refuse a thread that runs an event loop: on one machine as on several, so that nobody learns of it later."""
    if runs_event_loop():
        raise UsageError(_IN_LOOP)
