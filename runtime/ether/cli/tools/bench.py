"""`ether bench`: how fast and how large the bus is on this machine, beside others."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from ether.cli.common.exit_code import ExitCode
from ether.cli.common.options import with_options
from ether.cli.common.output import Output
from ether.cli.common.table import Column
from ether.cli.tools.lab_report import MarkdownOption, check_format, show
from ether_broker.errors import choice

__all__ = ["bench"]


@with_options
def bench(
    *,
    cases: Annotated[list[str] | None, typer.Argument(metavar="[CASE]...", help="Which; `--list` names them.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Short rounds: a look, and no measurement.")] = False,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Turns of each contender.", show_default="5, quick 3")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Of each turn.", show_default="1, quick 0.25")
    ] = None,
    window: Annotated[int | None, typer.Option(min=1, help="Requests open at a time.", show_default="256")] = None,
    pin: Annotated[
        int | None,
        typer.Option(metavar="CORE", help="Keep everything on one core.", show_default="the serial cases only"),
    ] = None,
    transport: Annotated[str | None, typer.Option(help="tcp or ipc.", show_default="tcp")] = None,
    without: Annotated[
        list[str] | None, typer.Option(metavar="SYSTEM", help="Leave it out, such as nats or proxy.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Exit code 1 if a target is missed.")] = False,
    markdown: MarkdownOption = False,
    list_cases: Annotated[bool, typer.Option("--list", help="List the cases, and run none.")] = False,
    out: Output,
) -> None:
    """Measure the bus beside raw sockets, a C proxy and NATS, in one run; only ratios within a run say something.

    All cases take about ten minutes, `--quick` three.
    """
    from ether.lab.bench.main import CASES, run
    from ether.lab.bench.settings import QUICK, BenchSettings

    check_format(out, markdown=markdown)
    if list_cases:
        out.rows([{"case": case.name, "about": case.about} for case in CASES.values()], _CASES)
        return
    options = {"rounds": rounds, "seconds": seconds, "window": window, "pin": pin, "transport": transport}
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    systems = {system: system for case in CASES.values() for system in case.systems}
    left_out = frozenset(choice(system, systems, "system") for system in without or ())
    short: dict[str, Any] = QUICK if quick else {}
    report = run(cases or (), BenchSettings(**{**short, **given}, without=left_out, tell=out.note))
    show(out, report, markdown=markdown)
    if check and report.missed:
        raise typer.Exit(ExitCode.FAILED)


_CASES: Final = (Column("case"), Column("about"))
