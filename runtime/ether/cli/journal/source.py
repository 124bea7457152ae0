"""The journal that a command reads, found by its options and opened."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ether.cli.common.connection import connected_name
from ether_broker.errors import EtherError, UnknownJournal, UsageError
from ether_broker.journal.location import UNNAMED, default_journal, journals_folder, known_journals
from ether_broker.name_hint import nearest

if TYPE_CHECKING:
    from ether.audit.trail import Trail
    from ether.cli.common.output import Output

__all__ = ["JournalOptions", "complete_requests"]

_PANEL: Final = "Journal"
_OFFERED: Final = 20
_BY_NAME: Final = (
    "a journal is read from a file of this machine: name it with --journal PATH, or its cluster with --name CLUSTER"
)


@dataclass(frozen=True, kw_only=True)
class JournalOptions:
    """The journal that is read."""

    journal: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="The journal's file.", show_default="the cluster's", rich_help_panel=_PANEL),
    ] = None
    name: Annotated[
        str | None,
        typer.Option(
            metavar="CLUSTER",
            help="The journal of this user's cluster of that name.",
            show_default="that of ETHER_CONNECT=ipc://NAME, or of those without a name, the one started last",
            rich_help_panel=_PANEL,
            autocompletion=known_journals,
        ),
    ] = None

    def path(self) -> Path:
        """The file.

        Raises:
            UsageError: both options are given; or neither, and ETHER_CONNECT names no cluster of this user.
            InvalidSpec: the name is none that a cluster can have.
            UnknownJournal: it is not there; the message has the nearest that is.
        """
        if self.journal is not None and self.name is not None:
            raise UsageError("--journal names a file and --name a cluster: give one of them.")
        name = self.name or (connected_name(_BY_NAME) if self.journal is None else None) or UNNAMED
        path = self.journal or default_journal(name)
        if path.is_file():
            # That of a cluster without a name is a link, and the one started last need not stay it.
            return path if self.journal is not None else path.resolve()
        if path.is_dir():
            raise UnknownJournal(f"{path} is a folder: name the journal's file in it.{_beside(path, path.name)}")
        if self.journal is not None:
            raise UnknownJournal(f"There is no journal at {path}.{_beside(path.parent, path.name)}")
        raise UnknownJournal(
            f"The cluster {name!r} has no journal in {journals_folder()}.{nearest(name, known_journals())}"
            " `ether up` keeps one unless it is told not to; --journal names a file elsewhere."
        )

    def opened(self, out: Output | None = None) -> Trail:
        """Open it, to read it in a `with` block; tell people on `out` which it is, where no option names it.

        Raises:
            EtherError: as `path`, and as `JournalReader` for a file that is none, or that cannot be read.
        """
        from ether.audit.trail import Trail

        path = self.path()
        if out is not None and self.journal is None and self.name is None:
            out.note(f"the journal is {path}")
        return Trail(path)


def _beside(folder: Path, name: str) -> str:
    """The nearest file of that folder that may be a journal."""
    try:
        names = [found.name for found in folder.iterdir() if found.suffix == ".db" and found.is_file()]
    except OSError:
        return ""
    return nearest(name, names)


def complete_requests(ctx: typer.Context) -> list[str]:
    """The newest delegations of the journal, as `ether log show` takes them; never an error."""
    try:
        with JournalOptions(journal=ctx.params.get("journal"), name=ctx.params.get("name")).opened() as trail:
            return trail.newest_requests(_OFFERED)
    except (EtherError, OSError):
        return []
