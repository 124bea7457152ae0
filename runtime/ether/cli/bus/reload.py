"""`ether reload`: change a bus while it runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Final

import typer

from ether.cli.common.exit_code import ExitCode
from ether.cli.common.options import with_options
from ether.cli.common.output import Output
from ether_broker.discovery.listening import others
from ether_broker.errors import BrokerUnavailable, UsageError
from ether_broker.transport.endpoint import default_endpoint, own_endpoint

__all__ = ["reload"]

_UNNAMED: Final = "default"
"""The name of a cluster that is given none."""


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
    from ether.cluster.reloading.reload_requests import request_reload

    if file is not None:
        named = load(file, {"cluster.name": name}).name
        name = name if named == _UNNAMED else named
    name = name or _connected() or _UNNAMED
    try:
        report = request_reload(name, None if file is None else str(Path(file).absolute()))
    except BrokerUnavailable as error:
        names = [Path(url).stem for url in others(default_endpoint(name)) if url.startswith("ipc://")]
        there = f" These run: {', '.join(names)}; `ether reload --name {names[0]}` reloads one." if names else ""
        raise BrokerUnavailable(f"{error} Start it with `ether up FILE`, or name it with --name.{there}") from None
    out.value(report.as_dict(), "\n".join(report.lines()))
    if not report.is_complete:
        raise typer.Exit(ExitCode.FAILED)


def _connected() -> str | None:
    """The name of this user's cluster at ETHER_CONNECT; None where that is not set.

    Raises:
        UsageError: it names another address.
    """
    url = os.environ.get("ETHER_CONNECT")
    if not url:
        return None
    own = own_endpoint(url)
    name = Path(own).stem
    if own != default_endpoint(name):
        raise UsageError(
            f"ETHER_CONNECT is {url}, and a reload goes by the name of a cluster: `ether reload --name NAME`."
        )
    return name
