"""The journal that a command reads, found by its options and opened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ether_broker.errors import EtherError, UnknownJournal, UsageError, nearest
from ether_broker.journal.location import default_journal, journals_folder, known_journals

if TYPE_CHECKING:
    from ether.audit.trail import Trail

__all__ = ["ClusterOption", "JournalOption", "complete_requests", "journal_path", "opened"]

_PANEL: Final = "Journal"
_OFFERED: Final = 20


def complete_clusters(incomplete: str) -> list[str]:
    """The clusters of this user that have a journal."""
    return [name for name in known_journals() if name.startswith(incomplete)]


JournalOption = Annotated[
    Path | None,
    typer.Option(
        "--journal",
        metavar="PATH",
        help="The journal's file.",
        show_default="the cluster's",
        rich_help_panel=_PANEL,
    ),
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--name",
        metavar="CLUSTER",
        help="The journal of this user's cluster of that name.",
        show_default="default",
        rich_help_panel=_PANEL,
        autocompletion=complete_clusters,
    ),
]


def journal_path(journal: Path | None, name: str | None) -> Path:
    """The file that the options name.

    Raises:
        UsageError: both are given.
        InvalidSpec: the name is none that a cluster can have.
        UnknownJournal: it is not there; the message has the nearest that is.
    """
    if journal is not None and name is not None:
        raise UsageError("--journal names a file and --name a cluster: give one of them.")
    path = default_journal(name or "default") if journal is None else journal
    if path.is_file():
        return path
    if path.is_dir():
        raise UnknownJournal(f"{path} is a folder: name the journal's file in it.{_beside(path, path.name)}")
    if journal is not None:
        raise UnknownJournal(f"There is no journal at {path}.{_beside(path.parent, path.name)}")
    hint = nearest(name or "default", known_journals())
    raise UnknownJournal(
        f"The cluster {name or 'default'!r} has no journal in {journals_folder()}.{hint}"
        " `ether up` keeps one unless it is told not to; --journal names a file elsewhere."
    )


def _beside(folder: Path, name: str) -> str:
    """The nearest file of that folder that may be a journal."""
    try:
        names = [found.name for found in folder.iterdir() if found.suffix == ".db" and found.is_file()]
    except OSError:
        return ""
    return nearest(name, names)


@contextmanager
def opened(journal: Path | None, name: str | None) -> Iterator[Trail]:
    """Open the journal that the options name, to read it.

    Raises:
        EtherError: as `journal_path`, and as `JournalReader` for a file that is none, or that cannot be read.
    """
    path = journal_path(journal, name)
    from ether.audit.trail import Trail

    with Trail(path) as trail:
        yield trail


def complete_requests(ctx: typer.Context, incomplete: str) -> list[str]:
    """The newest delegations of the journal, as `ether log show` takes them; never an error."""
    try:
        with opened(ctx.params.get("journal"), ctx.params.get("name")) as trail:
            return [request for request in trail.newest_requests(_OFFERED) if request.startswith(incomplete)]
    except (EtherError, OSError):
        return []
