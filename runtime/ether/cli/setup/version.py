"""`ether version`: what is installed."""

from __future__ import annotations

import typer

from ether.cli.common.options import FormatOption, output_of
from ether.cli.setup.versions import versions
from ether.text_io.terminal import put

__all__ = ["add_to", "print_line"]


def add_to(app: typer.Typer) -> None:
    """Give the app this command."""
    app.command()(version)


def version(ctx: typer.Context, output_format: FormatOption = None) -> None:
    """Print the versions of Ether, of what it speaks, and of what it stands on."""
    found = versions()
    text = "\n".join(f"{name:10} {value}" for name, value in found.items())
    output_of(ctx, output_format).value(found, text)


def print_line() -> None:
    """Print what `ether --version` says."""
    from ether.version import __version__

    put(f"ether {__version__}")
