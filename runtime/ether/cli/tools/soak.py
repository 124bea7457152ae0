"""`ether soak`: hold a bus under a steady load for long, and see that it stays as large and as fast as it was."""

from __future__ import annotations

from typing import Annotated, Any

from ether.cli.common.options import SettingsOptions, with_options
from ether.cli.common.output import Output
from ether.cli.tools.lab_report import MarkdownOption, check_format, show
from ether.lab.soak.settings import SoakSettings
from ether.process.signals import exit_on_signals

__all__ = ["soak"]


@with_options
def soak(
    *,
    given: Annotated[dict[str, Any], SettingsOptions(SoakSettings, "seconds", "load", "rate", "transport", "keep")],
    markdown: MarkdownOption = False,
    out: Output,
) -> None:
    """Hold a steady load, disturb the bus meanwhile, and report how memory, descriptors and latency went.

    The bus is the command's own: a broker with a journal, two nodes, a delegator and two observers. The exit code is 1
    when a process grew beyond its bound, latency rose, or a delegation was not completed.
    """
    from ether.lab.soak.run import run

    check_format(out, markdown=markdown)
    with exit_on_signals():
        report = run(SoakSettings(**given, tell=out.note))
    show(out, report, markdown=markdown, ok=report.ok)
