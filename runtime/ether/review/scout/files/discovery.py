"""Discovery: which files of a directory are worth reading."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePath, PurePosixPath
from typing import Final

from ether.review.scout.files.language import language_of
from ether.review.scout.files.limits import AnalysisLimits
from ether.review.scout.files.words import words

__all__ = ["Candidate", "Discovery", "discover", "is_test_path"]

_JUNK: Final = words(
    "__pycache__ __pypackages__ node_modules bower_components site-packages htmlcov CVS .git .hg .svn "
    ".bzr .jj .venv .tox .nox .eggs .cache .idea .vscode .mypy_cache .pytest_cache .ruff_cache "
    ".hypothesis .ipynb_checkpoints .import_linter_cache .ether"
)
"""Directories that nobody wrote by hand, whatever surrounds them."""
_JUNK_SUFFIXES: Final = (".egg-info", ".dist-info", ".egg")
_ARTEFACTS: Final = frozenset({"build", "dist", "target", "out", "_build", "venv", "env"})
"""Directories that are usually built, but may be sources (PyPI has a package `build`): see `_is_built`."""
_BUILD_FILES: Final = words("pyproject.toml setup.py setup.cfg Cargo.toml package.json pom.xml Makefile")
_VENDORED: Final = words("_vendor vendor vendored _vendored third_party thirdparty extern _extern externals")
_TEST_PARTS: Final = frozenset({"tests", "test", "spec", "specs", "__tests__"})
_GROWN: Final = 1_000_000
"""Bytes up to which a file is read, however small it was when it was listed."""
_TEST_NAME: Final = re.compile(r"^(?:test_.*|.*_test|.*_spec|.*\.(?:test|spec)|conftest|tests)$")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that the walk over a directory found worth reading."""

    path: Path
    """Where to open it."""
    name: str
    """Relative to the root, with forward slashes."""
    size: int
    """Bytes, when it was listed."""
    language: str | None
    """By its name; None when only its first line can tell."""
    vendored: bool
    """It lies in a directory for other people's code: counted, not judged."""

    def read(self) -> bytes:
        """What it holds, now.

        Raises:
            OSError: it cannot be read; or since it was listed a link, a pipe or the like has taken its place
                (which is neither followed nor waited for), or it has grown beyond double its size and 1 MB.
        """
        with open(self.path, "rb", opener=_open_unfollowed) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "No regular file any more")
            most = max(2 * self.size, _GROWN)
            data = file.read(most + 1)
        if len(data) > most:
            raise OSError(errno.EFBIG, f"It has grown from {self.size:,} to over {most:,} bytes")
        return data


def _open_unfollowed(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


@dataclass(slots=True)
class Discovery:
    """The files that a walk over a directory found, and what it left out and why."""

    files: list[Candidate] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    """{reason: count of files or directories}."""
    notes: list[str] = field(default_factory=list)
    """What could not be listed, one sentence each."""


def is_test_path(name: str) -> bool:
    """Whether a relative path is a test by the conventions of pytest, Jest, Go and RSpec."""
    path = PurePosixPath(name)
    return not _TEST_PARTS.isdisjoint(path.parts[:-1]) or bool(_TEST_NAME.match(path.stem))


def discover(root: Path, limits: AnalysisLimits | None = None, *, cancelled: Callable[[], bool] = bool) -> Discovery:
    """List the files under `root` that are worth reading, in path order: twice the same on the same tree.

    Left out, and counted by reason: version control, caches, environments, dependencies, build artefacts,
    files over `limits.file_bytes`, what is not a regular file, and every symbolic link (a link may
    leave the root or lead back into it). Directories that cannot be listed become notes. `root` itself is
    never left out.

    Args:
        root: an existing directory; it may be a symbolic link.
        limits: the bounds; `AnalysisLimits()` unless given.
        cancelled: asked once a directory; when true, the walk ends early with what it has.
    """
    limits = limits or AnalysisLimits()
    found = Discovery()

    def failed(error: OSError) -> None:
        place = PurePath(error.filename).relative_to(root).as_posix()
        found.notes.append(f"{place}: cannot be listed ({error.strerror or error}).")

    for folder, folders, files in os.walk(root, onerror=failed):
        inside = Path(folder).relative_to(root).parts
        for name in sorted(files):
            if len(found.files) == limits.files:
                found.notes.append(f"Only the first {limits.files:,} files were looked at.")
                folders.clear()
                break
            found.files += _candidates(Path(folder, name), "/".join((*inside, name)), limits, found)
        folders[:] = [] if cancelled() else _worth_entering(Path(folder), sorted(folders), len(inside), limits, found)
    found.files.sort(key=lambda file: file.name)
    return found


def _worth_entering(parent: Path, names: list[str], depth: int, limits: AnalysisLimits, found: Discovery) -> list[str]:
    kept = []
    for name in names:
        if (parent / name).is_symlink():
            found.skipped["symbolic link"] += 1
        elif _is_junk(parent / name):
            found.skipped["generated or foreign directory"] += 1
        elif depth == limits.depth:
            found.skipped["directory below the depth asked for"] += 1
        else:
            kept.append(name)
    return kept


def _is_junk(directory: Path) -> bool:
    if directory.name in _JUNK or directory.name.endswith(_JUNK_SUFFIXES):
        return True
    return directory.name in _ARTEFACTS and _is_built(directory)


def _is_built(directory: Path) -> bool:
    """Whether a directory called `build` or the like was made by a tool: it is beside a build file."""
    if (directory / "pyvenv.cfg").exists():
        return True
    beside = any((directory.parent / name).exists() for name in _BUILD_FILES)
    return beside and not (directory / "__init__.py").exists()


def _candidates(path: Path, name: str, limits: AnalysisLimits, found: Discovery) -> Iterator[Candidate]:
    """The file, unless it is left out."""
    try:
        status = path.lstat()
    except OSError as error:
        found.notes.append(f"{name}: vanished while it was listed ({error.strerror or error}).")
        return
    if stat.S_ISLNK(status.st_mode):
        found.skipped["symbolic link"] += 1
    elif not stat.S_ISREG(status.st_mode):
        found.skipped["not a regular file"] += 1
    elif status.st_size > limits.file_bytes:
        found.skipped[f"larger than {limits.file_bytes:,} bytes"] += 1
        found.notes.append(f"{name}: {status.st_size:,} bytes, not read.")
    else:
        vendored = not _VENDORED.isdisjoint(name.split("/")[:-1])
        yield Candidate(path, _printable(name), status.st_size, language_of(path), vendored)


def _printable(name: str) -> str:
    """A file name may hold bytes that are no UTF-8 (surrogates in Python), which JSON cannot carry."""
    return name.encode("utf-8", "replace").decode("utf-8")
