"""`ether review`: review directories of code with scouts, and write the report."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ether.cli.common.bus_options import NamedBusOptions
from ether.cli.common.connection import joined
from ether.cli.common.discover_option import CONNECT, DISCOVER
from ether.cli.common.options import with_options
from ether.cli.common.output import Output
from ether_broker.errors import UsageError
from ether_broker.name_hint import choice

if TYPE_CHECKING:
    from ether.review.scout.explore import PassName

__all__ = ["review"]


@dataclass(frozen=True, kw_only=True)
class ScoutsOptions(NamedBusOptions):
    """The bus whose scouts are to be used."""

    connect: Annotated[
        str | None,
        typer.Option(
            CONNECT,
            DISCOVER,
            metavar="URL",
            help="Use the scouts of this bus, or with --discover [NAME] of one on the network, instead of own ones; "
            "the directories have to be there under the same paths.",
        ),
    ] = None


@with_options
def review(
    *,
    directories: Annotated[list[Path], typer.Argument(metavar="DIR...", help="What to review.")],
    output: Annotated[
        Path, typer.Option(metavar="DIR", help="Where review.md and review.json go.", show_default="here")
    ] = Path(),
    passes: Annotated[
        list[str] | None,
        typer.Option(
            "--pass",
            metavar="NAME",
            help="structure, bugs or documentation; several times for several.",
            show_default="all",
        ),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes",
            "-j",
            min=0,
            help="Nodes, each a process; 0 does all in this one.",
            show_default="one for each processor",
        ),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="For each directory under each pass.", show_default="600")
    ] = None,
    bus: ScoutsOptions,
    out: Output,
) -> None:
    """Review code bases: each directory under three passes, over agents in several processes, in one report.

    Exit code 1 if a task failed; findings are no failure. `-o json` prints what review.json holds.
    """
    from ether.review.bus import SCOUT, scout_nodes
    from ether.review.job import DEFAULT_TIMEOUT
    from ether.review.job import review as run

    if bus.url is not None and processes is not None:
        msg = "--processes starts scouts and --connect or --discover uses those that are there: leave one of them out."
        raise UsageError(msg)
    names = _passes(passes or ())
    with nullcontext() if bus.url is None else joined(bus, bus.wait) as found:
        if found is not None and not (processes := len(scout_nodes(found))):
            msg = f"No scout is on the bus: start some with `ether node {SCOUT}` and the same --connect or --discover."
            raise UsageError(msg)
        done = run(
            directories,
            output,
            processes=processes,
            timeout=DEFAULT_TIMEOUT if timeout is None else timeout,
            passes=names,
            stream=io.StringIO() if out.quiet else sys.stderr,
            bus=found,
        )
    out.value(done.report, str(done))
    raise typer.Exit(done.exit_code)


def _passes(names: Sequence[str]) -> Sequence[PassName]:
    from ether.review.scout.explore import PassName

    known = {name.value: name for name in PassName}
    return [choice(name, known, "pass") for name in names] or tuple(PassName)
