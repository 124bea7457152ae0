"""`ether bench`: how fast and how large the bus is on this machine, beside others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ether.cli.common.options import SettingsOptions, with_options
from ether.cli.common.output import Output
from ether.cli.common.table import Column
from ether.cli.tools.lab_report import MarkdownOption, check_format, show
from ether.lab.bench.settings import QUICK, BenchSettings
from ether.process.signals import exit_on_signals
from ether_broker.errors import UsageError
from ether_broker.name_hint import choice
from ether_broker.text import printable

__all__ = ["bench"]


@with_options
def bench(
    *,
    cases: Annotated[list[str] | None, typer.Argument(metavar="[CASE]...", help="Which; `--list` names them.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few short rounds: a look, and no measurement.")] = False,
    given: Annotated[dict[str, Any], SettingsOptions(BenchSettings, "rounds", "seconds", "window", "pin", "transport")],
    without: Annotated[
        list[str] | None, typer.Option(metavar="SYSTEM", help="Leave it out, such as nats or proxy.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Compare with an earlier run, which `-o json` wrote there.")
    ] = None,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Draw the rates of all contenders as bars, too.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Exit code 1 if a target is missed.")] = False,
    markdown: MarkdownOption = False,
    list_cases: Annotated[bool, typer.Option("--list", help="List the cases, and run none.")] = False,
    out: Output,
) -> None:
    """Measure the bus beside raw sockets, a C proxy and NATS, in one run; only ratios within a run say something.

    Without names it runs all but `peers`, `events`, `artifact` and `map`. That takes about ten minutes, `--quick` three, with
    3 rounds of 0.25 s.
    """
    from ether.lab.bench.bars import bars
    from ether.lab.bench.earlier import EarlierRun
    from ether.lab.bench.main import CASES, run

    check_format(out, markdown=markdown)
    earlier = None if against is None else EarlierRun.read(against)
    if list_cases:
        out.rows([{"case": case.name, "about": case.about} for case in CASES.values()], _CASES)
        return
    if svg is not None:  # now, and not after minutes of measuring
        try:
            svg.touch()
        except OSError as error:
            raise UsageError(f"--svg {printable(svg)} cannot be written: {error.strerror}.") from None
    systems = {system: system for case in CASES.values() for system in case.systems}
    left_out = tuple(choice(system, systems, "system") for system in without or ())
    wanted: dict[str, Any] = {**(QUICK if quick else {}), **given}
    with exit_on_signals():
        report = run(cases or (), BenchSettings(**wanted, without=left_out, tell=out.note))
    if svg is not None:
        svg.write_text(bars(report.tables.get("rows", ()), "contender", "round trips/s"))
    report = report if earlier is None else earlier.beside(report)
    show(out, report, markdown=markdown, ok=not (check and report.missed))


_CASES: Final = (Column("case"), Column("about"))
