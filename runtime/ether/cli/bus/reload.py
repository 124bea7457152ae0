"""`ether reload`: change a bus while it runs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from ether.cli.common.connection import connected_name
from ether.cli.common.exit_code import ExitCode
from ether.cli.common.options import with_options
from ether.cli.common.output import Output
from ether_broker.errors import BrokerUnavailable
from ether_broker.journal.location import UNNAMED

__all__ = ["reload"]


@with_options
def reload(
    *,
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE", help="The changed cluster file.", show_default="the one that the cluster has read last"
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            metavar="CLUSTER",
            envvar="ETHER_CLUSTER__NAME",
            help="Of the cluster.",
            show_default="the file's, that of ETHER_CONNECT=ipc://NAME, or default",
        ),
    ] = None,
    out: Output,
) -> None:
    """Have a cluster that `ether up` runs take its changed file: what has changed starts, drains and stops, nothing else does.

    Waits until that is done, and prints what was started, restarted, stopped and left unchanged. A file that is not valid, or
    that changes more than `nodes`, is refused as a whole. Exit code 1: something did not start.
    """
    from ether.cluster.file.file_loader import load
    from ether.cluster.reloading.reload_requests import check_regular, reloadable, request_reload

    if file is not None:
        check_regular(file)
        named = load(file, {"cluster.name": name}).name
        name = name if named == UNNAMED else named
    name = name or connected_name("a reload goes by the name of a cluster: `ether reload --name NAME`") or UNNAMED
    try:
        report = request_reload(name, None if file is None else str(Path(file).absolute()))
    except BrokerUnavailable as error:
        names = [shlex.quote(name) for name in reloadable()]
        there = f" These run: {', '.join(names)}; `ether reload --name {names[0]}` reloads one." if names else ""
        raise BrokerUnavailable(f"{error} Start it with `ether up FILE`, or name it with --name.{there}") from None
    out.note(f"the cluster {name} has read {report.file}")
    out.value(report.as_dict(), "\n".join(report.lines()))
    if not report.is_complete:
        raise typer.Exit(ExitCode.FAILED)
