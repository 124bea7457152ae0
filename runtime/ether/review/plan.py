"""The plan of a review: directories times passes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ether.review.scout.explore import PassName
from ether_broker.errors import UsageError
from ether_broker.name_hint import nearest

__all__ = ["ReviewTarget", "ReviewTask", "plan", "targets"]


@dataclass(frozen=True, slots=True)
class ReviewTarget:
    """A directory that a review covers."""

    path: Path
    """Absolute: the agents run elsewhere."""
    name: str
    """What the report calls it: its last part, or the whole path where two end alike."""


@dataclass(frozen=True, slots=True)
class ReviewTask:
    """One directory under one pass."""

    target: ReviewTarget
    pass_name: PassName

    @property
    def label(self) -> str:
        """For people: `rich · bugs`."""
        return f"{self.target.name} · {self.pass_name.value}"


def targets(directories: Sequence[str | Path]) -> list[ReviewTarget]:
    """Check the directories of a review; one that is given twice is reviewed once.

    Raises:
        UsageError: none was given, or one is not there; the message names the nearest that is.
    """
    if not directories:
        raise UsageError("No directory was given: name at least one, as in `ether review src`.")
    paths = list(dict.fromkeys(_checked(Path(given)) for given in directories))
    names = Counter(path.name for path in paths)
    return [ReviewTarget(path, path.name if path.name and names[path.name] == 1 else str(path)) for path in paths]


def _checked(given: Path) -> Path:
    path = given.expanduser()
    if path.is_dir():
        if not os.access(path, os.R_OK | os.X_OK):
            raise UsageError(f"{given} may not be read: give yourself the right to, or leave it out.")
        return path.absolute()
    if path.exists():
        raise UsageError(f"{given} is a file: name the directory that holds it, {path.parent}.")
    raise UsageError(f"There is no directory {given}.{_hint(path)}")


def _hint(path: Path) -> str:
    """What may have been meant: the longest part of the path that is there, and what it holds."""
    missing = path.absolute()
    while not missing.parent.is_dir():
        missing = missing.parent
    try:
        siblings = [entry.name for entry in missing.parent.iterdir() if entry.is_dir()]
    except OSError:
        return ""
    hint = nearest(missing.name, siblings)
    return f" In {missing.parent}:{hint.removeprefix(' In')}" if hint else f" {missing.parent} has no directories."


def plan(directories: Sequence[ReviewTarget], passes: Sequence[PassName] = tuple(PassName)) -> list[ReviewTask]:
    """Every directory under every pass; the passes that take longest come first, so that none is left for last."""
    order = [PassName.BUGS, PassName.STRUCTURE, PassName.DOCUMENTATION]
    wanted = sorted(dict.fromkeys(passes), key=order.index)
    return [ReviewTask(target, name) for name in wanted for target in directories]
