"""`ether torture`: kill the processes of a bus under load, and check that it keeps its promises."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ether.cli.common.options import SettingsOptions, with_options
from ether.cli.common.output import Output
from ether.cli.tools.lab_report import MarkdownOption, check_format, show
from ether.lab.torture.settings import TortureSettings, Victim
from ether.process.signals import exit_on_signals
from ether_broker.name_hint import choice

__all__ = ["torture"]

_SAME: Final = {"supervisor": Victim.BROKER}
"""The supervisor lives in the broker's process."""
_OPTIONS: Final = SettingsOptions(
    TortureSettings, "delegations", "nodes", "delegators", "observers", "seed", "seconds", "kills", "durability",
    "journal_faults", "transport", "keep",
)  # fmt: skip


@with_options
def torture(
    *,
    given: Annotated[dict[str, Any], _OPTIONS],
    victims: Annotated[
        str | None,
        typer.Option(
            metavar="KIND,...",
            help="Who is struck: broker (or supervisor, which is the same process), node, delegator, observer, cluster.",
            show_default="all",
        ),
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

    check_format(out, markdown=markdown)
    if victims is not None:
        given["victims"] = _victims(victims)
    with exit_on_signals():
        report = run(TortureSettings(**given, tell=out.note)) if check is None else reread(check)
    show(out, report, markdown=markdown, ok=report.ok)


def _victims(text: str) -> tuple[Victim, ...]:
    """The kinds of a list.

    Raises:
        UsageError: one of them is none.
    """
    known = {**{victim.value: victim for victim in Victim}, **_SAME}
    named = {choice(word, known, "victim") for word in text.replace(" ", "").split(",") if word}
    return tuple(victim for victim in Victim if victim in named)
