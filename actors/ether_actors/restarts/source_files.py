"""The source files of the classes that this process has loaded: which of them have changed since."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["changed_sources", "note_source"]

_files: dict[str, str] = {}
"""{`module:Class`: the file that defines the class}."""
_states: dict[str, tuple[int, int] | None] = {}
"""{file: how it was as its module had been imported}."""


def note_source(start: str, cls: type[Any]) -> None:
    """Note how the file of a class is, as soon as its module has been imported.

    Args:
        start: `module:Class`, by which the class was loaded.
        cls: the class, which another module may define.
    """
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    if file is not None and start not in _files:
        _states.setdefault(file, _state(file))
        _files[start] = file


def changed_sources(starts: Iterable[str]) -> list[str]:
    """The files of some classes that have another time or size than when this process imported them, or are gone."""
    files = {_files[start] for start in starts if start in _files}
    return sorted(file for file in files if _state(file) != _states[file])


def _state(file: str) -> tuple[int, int] | None:
    try:
        found = Path(file).stat()
    except OSError:  # it is gone, or in an archive
        return None
    return found.st_mtime_ns, found.st_size
