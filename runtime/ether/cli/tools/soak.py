"""`ether soak`: hold a bus under a steady load for long, and see that it stays as large and as fast as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ether.cli.common.exit_code import ExitCode
from ether.cli.common.options import with_options
from ether.cli.common.output import Output
from ether.cli.tools.lab_report import MarkdownOption, check_format, show

__all__ = ["soak"]


@with_options
def soak(
    *,
    seconds: Annotated[float, typer.Option(metavar="SECONDS", help="For how long.")] = 600.0,
    load: Annotated[float, typer.Option(metavar="PART", help="Of the maximum rate, which is measured first.")] = 0.5,
    rate: Annotated[
        float | None,
        typer.Option(metavar="N", help="Delegations a second, in place of --load.", show_default="measured"),
    ] = None,
    transport: Annotated[str, typer.Option(help="ipc, or tcp on the loopback.")] = "ipc",
    keep: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Make the journal there, and leave it; it must be empty or new."),
    ] = None,
    markdown: MarkdownOption = False,
    out: Output,
) -> None:
    """Hold a steady load, disturb the bus meanwhile, and report how memory, descriptors and latency went.

    The bus is the command's own: a broker with a journal, two nodes, a delegator and two observers. The exit code is 1
    when a process grew beyond its bound, latency rose, or a delegation was not completed.
    """
    from ether.lab.soak.run import run
    from ether.lab.soak.settings import SoakSettings

    check_format(out, markdown=markdown)
    settings = SoakSettings(seconds=seconds, load=load, rate=rate, transport=transport, folder=keep, tell=out.note)
    report = run(settings)
    show(out, report, markdown=markdown)
    if not report.ok:
        raise typer.Exit(ExitCode.FAILED)
