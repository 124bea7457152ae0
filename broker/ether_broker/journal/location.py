"""The default location of a cluster's journal, and of those of clusters without a name."""

from __future__ import annotations

import contextlib
import os
import re
from hashlib import sha256
from pathlib import Path
from typing import Final

from ether_broker.errors import InvalidSpec

__all__ = [
    "JOURNAL",
    "UNNAMED",
    "default_journal",
    "is_by_origin",
    "journals_folder",
    "known_journals",
    "link_last_started",
]

JOURNAL: Final = "journal.db"
"""The file's name, in the folder of its cluster."""
UNNAMED: Final = "default"
"""The name of clusters that are given none."""
_WORDS: Final = 60
"""Characters of an origin that the name of its journal's folder has."""
_ODD: Final = re.compile(r"[^A-Za-z0-9_.-]")


def journals_folder() -> Path:
    """The folder of this user's clusters: `$XDG_STATE_HOME/ether`, else `~/.local/state/ether`.

    As the XDG base directory specification has it, a relative `$XDG_STATE_HOME` is ignored. Nothing is made.
    """
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    base = state if state.is_absolute() else Path.home() / ".local" / "state"
    return base / "ether"


def default_journal(name: str = UNNAMED, origin: Path | None = None) -> Path:
    """The journal of this user's cluster of that name; neither it nor its folder need be there.

    Args:
        name: of the cluster. `default`, which those have that are given none, stands for a journal for each origin.
        origin: the cluster's file, or the folder in which it is started; without one, the journal of `default` is a link to
            that of the last one that was started.

    Raises:
        InvalidSpec: the name is no name of a folder.
    """
    if not name or name in {".", ".."} or "/" in name or "\0" in name:
        raise InvalidSpec(f"{name!r} cannot be the name of a cluster: it names a folder, so write no / in it.")
    folder = journals_folder() / name
    if origin is None or name != UNNAMED:
        return folder / JOURNAL
    words = _ODD.sub("_", "-".join(origin.parts[-2:]))[-_WORDS:]
    return folder / f"{words}-{sha256(os.fsencode(origin)).hexdigest()[:8]}" / JOURNAL


def is_by_origin(journal: str | None) -> bool:
    """Whether a journal is that of an origin, as its path says: the default one of a cluster without a name."""
    if journal is None:
        return False
    path = Path(journal)
    return path.name == JOURNAL and path.parent.parent == journals_folder() / UNNAMED


def link_last_started(journal: str | None) -> bool:
    """Make the journal of `default` a link to that of the cluster without a name that was started last.

    Args:
        journal: of that cluster; None: it keeps none, and the link goes.

    Returns:
        Whether it could be: a file of that name that is no link stays.
    """
    link = default_journal()
    if link.exists() and not link.is_symlink():
        return False
    with contextlib.suppress(OSError):  # such as a full disk: the journal tells
        if journal is None:
            link.unlink(missing_ok=True)
            return True
        made, path = link.with_name(f"{JOURNAL}.{os.getpid()}"), Path(journal).absolute()
        made.unlink(missing_ok=True)  # of a process of that id that was killed here
        link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        made.symlink_to(path.relative_to(link.parent) if path.is_relative_to(link.parent) else path)
        made.replace(link)
    return True


def known_journals() -> dict[str, Path]:
    """The journals that are there, by the names of their clusters: {name: path}."""
    found = sorted(journals_folder().glob(f"*/{JOURNAL}"))
    return {path.parent.name: path for path in found}
