"""`ether torture`: kill the processes of a bus under load, and check that it keeps its promises."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ether.cli.common.exit_code import ExitCode
from ether.cli.common.options import with_options
from ether.cli.common.output import Output
from ether.cli.tools.lab_report import MarkdownOption, check_format, show
from ether.lab.torture.settings import Durability
from ether_broker.errors import UsageError, nearest

if TYPE_CHECKING:
    from ether.lab.torture.settings import Victim

__all__ = ["torture"]

_SAME: Final = {"supervisor": "broker"}
"""The supervisor lives in the broker's process."""


@with_options
def torture(
    *,
    delegations: Annotated[int, typer.Option(min=1, metavar="N", help="How many, in all.")] = 20_000,
    nodes: Annotated[int, typer.Option(min=1, metavar="N", help="Processes with agents.")] = 3,
    delegators: Annotated[int, typer.Option(min=1, metavar="N", help="Processes that delegate.")] = 2,
    observers: Annotated[int, typer.Option(min=0, metavar="N", help="Processes that observe.")] = 1,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Makes the plan and the work.", show_default="random")
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Over which they are spread.", show_default="100 of them a second"),
    ] = None,
    kills: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Strikes.", show_default="one every two seconds")
    ] = None,
    victims: Annotated[
        str | None,
        typer.Option(
            metavar="KIND,...",
            help="Who is struck: broker (or supervisor, which is the same process), node, delegator, observer, cluster.",
            show_default="all",
        ),
    ] = None,
    durability: Annotated[
        Durability, typer.Option(help="Whether the bus keeps what it has accepted beyond its broker.")
    ] = Durability.JOURNAL,
    journal_faults: Annotated[
        bool,
        typer.Option(
            "--journal-faults", help="Fill, lock, protect, break and take away the journal's disk at times, too."
        ),
    ] = False,
    transport: Annotated[str, typer.Option(help="ipc, or tcp on the loopback.")] = "ipc",
    keep: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Keep the logs here; else they are kept only if a promise broke."),
    ] = None,
    check: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Start nothing: check the logs of an earlier campaign.")
    ] = None,
    markdown: MarkdownOption = False,
    out: Output,
) -> None:
    """Kill, pause and restart the processes of a bus under load, and check that every promise was kept.

    The processes are the command's own, and so is the bus: nothing else is touched. The exit code is 1 when a promise
    was broken; then the seed is printed and the logs are kept.
    """
    from ether.lab.torture.campaign import reread, run
    from ether.lab.torture.settings import TortureSettings

    check_format(out, markdown=markdown)
    if check is not None:
        report = reread(check)
    else:
        optional = {"seed": seed, "seconds": seconds, "kills": kills, "victims": _victims(victims)}
        given: dict[str, Any] = {name: value for name, value in optional.items() if value is not None}
        settings = TortureSettings(
            delegations=delegations, nodes=nodes, delegators=delegators, observers=observers,
            durability=durability, journal_faults=journal_faults, transport=transport, folder=keep, tell=out.note, **given,
        )  # fmt: skip
        report = run(settings)
    show(out, report, markdown=markdown)
    if not report.ok:
        raise typer.Exit(ExitCode.FAILED)


def _victims(text: str | None) -> tuple[Victim, ...] | None:
    """The kinds of a list.

    Raises:
        UsageError: one of them is none.
    """
    from ether.lab.torture.settings import Victim

    if text is None:
        return None
    words = [_SAME.get(word, word) for word in text.replace(" ", "").split(",") if word]
    for word in words:
        if word not in list(Victim):
            known = [*map(str, Victim), *_SAME]
            raise UsageError(f"There is no victim {word!r}: choose of {', '.join(known)}.{nearest(word, known)}")
    return tuple(victim for victim in Victim if victim in words)
