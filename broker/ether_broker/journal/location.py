"""The default location of a cluster's journal."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from ether_broker.errors import InvalidSpec

__all__ = ["JOURNAL", "default_journal", "journals_folder", "known_journals"]

JOURNAL: Final = "journal.db"
"""The file's name, in the folder of its cluster."""


def journals_folder() -> Path:
    """The folder of this user's clusters: `$XDG_STATE_HOME/ether`, else `~/.local/state/ether`.

    As the XDG base directory specification has it, a relative `$XDG_STATE_HOME` is ignored. Nothing is made.
    """
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    base = state if state.is_absolute() else Path.home() / ".local" / "state"
    return base / "ether"


def default_journal(name: str = "default") -> Path:
    """The journal of this user's cluster of that name; neither it nor its folder need be there.

    Raises:
        InvalidSpec: the name is no name of a folder.
    """
    if not name or name in {".", ".."} or "/" in name or "\0" in name:
        raise InvalidSpec(f"{name!r} cannot be the name of a cluster: it names a folder, so write no / in it.")
    return journals_folder() / name / JOURNAL


def known_journals() -> dict[str, Path]:
    """The journals that are there, by the names of their clusters: {name: path}."""
    found = sorted(journals_folder().glob(f"*/{JOURNAL}"))
    return {path.parent.name: path for path in found}
