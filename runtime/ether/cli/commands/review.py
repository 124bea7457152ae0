"""`ether review`: review directories of code with scouts, and write the report."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ether.cli.options import FormatOption, output_of, settings_of
from ether_broker.errors import UsageError, nearest

if TYPE_CHECKING:
    from ether.scout.explore import PassName

__all__ = ["add_to"]


def add_to(app: typer.Typer) -> None:
    """Give the app this command."""
    app.command()(review)


def review(
    ctx: typer.Context,
    *,
    directories: Annotated[list[Path], typer.Argument(metavar="DIR...", help="What to review.")],
    output: Annotated[
        Path, typer.Option("--output", metavar="DIR", help="Where review.md and review.json go.", show_default="here")
    ] = Path(),
    passes: Annotated[
        list[str] | None,
        typer.Option(
            "--pass",
            metavar="NAME",
            help="structure, bugs or documentation; several times for several.",
            show_default="all",
        ),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes",
            "-j",
            min=0,
            help="Nodes, each a process; 0 does all in this one.",
            show_default="one for each processor",
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", metavar="SECONDS", help="For each directory under each pass.", show_default="600"),
    ] = None,
    output_format: FormatOption = None,
) -> None:
    """Review code bases: each directory under three passes, over agents in several processes, in one report.

    Exit code 1 if a task failed; findings are no failure. `-o json` prints what review.json holds.
    """
    from ether.review.job import DEFAULT_TIMEOUT
    from ether.review.job import review as run

    out = output_of(ctx, output_format)
    done = run(
        directories,
        output,
        processes=processes,
        timeout=DEFAULT_TIMEOUT if timeout is None else timeout,
        passes=_passes(passes or ()),
        stream=io.StringIO() if settings_of(ctx).quiet else sys.stderr,
    )
    sentence = done.report["summary"]["sentence"]
    out.value(done.report, f"{sentence} See {done.markdown_path} and {done.json_path}.")
    raise typer.Exit(done.exit_code)


def _passes(names: Sequence[str]) -> Sequence[PassName]:
    from ether.scout.explore import PassName

    known = {name.value: name for name in PassName}
    for name in names:
        if name not in known:
            msg = f"There is no pass {name!r}.{nearest(name, known)}"
            raise UsageError(msg)
    return [known[name] for name in names] or tuple(PassName)
