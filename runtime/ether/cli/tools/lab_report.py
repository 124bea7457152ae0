"""The reports of `ether bench`, `ether soak` and `ether torture` on a terminal and in files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ether.cli.common.exit_code import ExitCode
from ether.cli.common.output import Format, Output
from ether_broker.errors import UsageError

if TYPE_CHECKING:
    from ether.lab.report import Report

__all__ = ["MarkdownOption", "check_format", "show"]

MarkdownOption = Annotated[bool, typer.Option("--markdown", help="Print tables in Markdown.")]


def check_format(out: Output, *, markdown: bool) -> None:
    """Look at the format before anything is started.

    Raises:
        UsageError: Markdown and another format are asked for.
    """
    if markdown and not out.is_text:
        raise UsageError("--markdown is a format of its own: leave out -o.")


def show(out: Output, report: Report, *, markdown: bool, ok: bool) -> None:
    """Print a report, with jsonl each broken promise and each figure as a line; one that is not `ok` ends the command."""
    from ether.lab.render import render

    plain = report.plain()
    if out.format is Format.JSONL:
        out.rows([*plain["violations"], *plain["figures"]], ())
    else:
        out.value(plain, render(report, markdown=markdown).rstrip())
    if not ok:
        raise typer.Exit(ExitCode.FAILED)
