"""Artifacts: files that a specialist made, sealed by their digest, so that whoever takes them in can tell a change (G5)."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import Field

from ether_broker.envelope.model import Model
from ether_broker.errors import ArtifactMismatch

__all__ = ["Artifact"]

_CHUNK: Final = 1 << 20


class Artifact(Model):
    """A file that a specialist made, with the digest by which a later change of it is detected (G5).

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

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> Self:
        """Seal a file as it is now.

        Raises:
            OSError: it cannot be read, or is no regular file.
        """
        with _open(Path(path)) as file:
            digest, size = _digest(file)
        return cls(path=os.fspath(path), sha256=digest, size=size)

    def sealed(self) -> Self:
        """Itself if it has a digest, else with that of the file; as it is where there is no such file on this machine."""
        if self.sha256 is not None:
            return self
        try:
            return self.of(self.path)
        except (OSError, ValueError):  # such as a URL, or a name that no file can have
            return self

    def verify(self, root: str | os.PathLike[str] = "") -> Self:
        """Check that the file is still what was sealed, and return itself.

        Says how the file was when it was read, not how it is later: to use what was checked, take `read` or `copy_to`.

        Args:
            root: where a relative path begins; default: the working directory of this process.

        Raises:
            ArtifactMismatch: it was changed, is not there, or was never sealed.
        """
        with self._checked(root) as file:
            self._compare(*_digest(file))
        return self

    def read(self, root: str | os.PathLike[str] = "") -> bytes:
        """The file's bytes, which are those that were sealed; arguments and errors as `verify`."""
        with self._checked(root) as file:
            data = file.read()
        self._compare(hashlib.sha256(data).hexdigest(), len(data))
        return data

    def copy_to(self, target: str | os.PathLike[str], root: str | os.PathLike[str] = "") -> Path:
        """Take the file in as a copy of one's own (spec 2 §10): all of it or, when it does not match, nothing.

        Args:
            target: the copy's path; a file that is there is replaced at once.
            root: as `verify`.

        Raises:
            ArtifactMismatch: as `verify`.
            OSError: the copy cannot be written.
        """
        copy = Path(target)
        part = copy.with_name(f".{copy.name}.{os.urandom(4).hex()}.part")
        try:
            with self._checked(root) as file, part.open("xb") as out:
                self._compare(*_digest(file, out.write))
            part.replace(copy)
        finally:
            part.unlink(missing_ok=True)
        return copy

    @contextlib.contextmanager
    def _checked(self, root: str | os.PathLike[str]) -> Iterator[BufferedReader]:
        if self.sha256 is None:
            msg = f"{self.path} was not sealed: its specialist named it without a digest, and had no such file."
            raise ArtifactMismatch(msg, self.path)
        try:
            file = _open(Path(root, self.path))
        except (OSError, ValueError) as error:
            reason = error.strerror or error if isinstance(error, OSError) else error
            msg = f"{self.path} cannot be read here: {reason}. A relative path begins at `root`."
            raise ArtifactMismatch(msg, self.path, self.sha256) from error
        with file:
            yield file

    def _compare(self, digest: str, size: int) -> None:
        if digest != self.sha256 or self.size not in (None, size):
            was = "" if self.size is None else f" of {self.size:,} bytes"
            msg = f"{self.path} is not what was sealed: {digest} of {size:,} bytes, and was {self.sha256}{was}."
            raise ArtifactMismatch(msg, self.path, self.sha256, digest)


def _open(path: Path) -> BufferedReader:
    file = open(path, "rb", opener=_no_wait)  # noqa: SIM115  Path.open takes no opener; the caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(f"{path} is no regular file")
    return file


def _no_wait(path: str, flags: int) -> int:
    """Open without waiting for the other end of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


def _digest(file: BufferedReader, also: Callable[[bytes], object] | None = None) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
        size += len(chunk)
        if also is not None:
            also(chunk)
    return digest.hexdigest(), size
