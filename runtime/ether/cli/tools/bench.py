"""`ether bench`: how fast and how large the bus is on this machine, beside others."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from ether.cli.common.exit_code import ExitCode
from ether.cli.common.options import FormatOption, output_of
from ether.cli.common.output import Column, Format
from ether_broker.errors import UsageError, nearest

__all__ = ["add_to"]

Cases = Annotated[list[str] | None, typer.Argument(metavar="[CASE]...", help="Which; `--list` names them.")]
Rounds = Annotated[
    int | None, typer.Option("--rounds", min=1, help="Turns of each contender.", show_default="5, quick 3")
]
Seconds = Annotated[
    float | None,
    typer.Option("--seconds", metavar="SECONDS", help="Of each turn.", show_default="1, quick 0.25"),
]
Pin = Annotated[
    int | None,
    typer.Option("--pin", metavar="CORE", help="Keep everything on one core.", show_default="the serial cases only"),
]
Without = Annotated[
    list[str] | None, typer.Option("--without", metavar="SYSTEM", help="Leave it out, such as nats or proxy.")
]


def add_to(app: typer.Typer) -> None:
    """Give the app this command."""
    app.command()(bench)


def bench(
    ctx: typer.Context,
    *,
    cases: Cases = None,
    quick: Annotated[bool, typer.Option("--quick", help="Short rounds: a look, and no measurement.")] = False,
    rounds: Rounds = None,
    seconds: Seconds = None,
    window: Annotated[
        int | None, typer.Option("--window", min=1, help="Requests open at a time.", show_default="256")
    ] = None,
    pin: Pin = None,
    transport: Annotated[str | None, typer.Option("--transport", help="tcp or ipc.", show_default="tcp")] = None,
    without: Without = None,
    check: Annotated[bool, typer.Option("--check", help="Exit code 1 if a target is missed.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print tables in Markdown.")] = False,
    list_cases: Annotated[bool, typer.Option("--list", help="List the cases, and run none.")] = False,
    output_format: FormatOption = None,
) -> None:
    """Measure the bus beside raw sockets, a C proxy and NATS, in one run; only ratios within a run say something.

    All cases take about ten minutes, `--quick` three.
    """
    from ether.lab.bench.main import CASES, run
    from ether.lab.bench.measurement.settings import QUICK_KILLS, QUICK_ROUNDS, QUICK_ROWS, QUICK_SECONDS, Settings
    from ether.lab.bench.renderers.markdown import render_markdown
    from ether.lab.bench.renderers.plain import as_plain
    from ether.lab.bench.renderers.text import render_text

    out = output_of(ctx, output_format)
    if list_cases:
        out.rows([{"case": case.name, "about": case.about} for case in CASES.values()], _CASES)
        return
    if markdown and not out.is_text:
        msg = "--markdown is a format of its own: leave out -o."
        raise UsageError(msg)
    short: dict[str, Any] = {}
    if quick:
        short = {"rounds": QUICK_ROUNDS, "seconds": QUICK_SECONDS, "rows": QUICK_ROWS, "kills": QUICK_KILLS}
    options = {"rounds": rounds, "seconds": seconds, "window": window, "pin": pin, "transport": transport}
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    systems = frozenset().union(*(case.systems for case in CASES.values()))
    for system in without or ():
        if system not in systems:
            msg = f"There is no system {system!r}.{nearest(system, systems)}"
            raise UsageError(msg)
    report = run(cases or (), Settings(**{**short, **given}, without=frozenset(without or ()), tell=out.note))
    if out.format is Format.JSONL:
        out.rows(as_plain(report)["figures"], ())
    else:
        out.value(as_plain(report), (render_markdown if markdown else render_text)(report).rstrip())
    if check and report.missed:
        raise typer.Exit(ExitCode.FAILED)


_CASES: Final = (Column("case", lambda row: row["case"]), Column("about", lambda row: row["about"]))
