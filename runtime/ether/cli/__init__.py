"""The command line: `ether`.

    app.py          the commands, global options, and what an error becomes
    bus/            commands that run a bus or ask it for something
    journal/        commands that read a journal
    governance/     commands that judge a journal
    setup/          commands about the installation
    tools/          review, bench, soak, torture
    top/            `ether top`
    common/         what they share: options, output, exit codes, the bus that a command talks to

typer and rich are imported here only, and rich only where something is drawn.

May import: `cli.bus`, `cli.common`, `cli.governance`, `cli.journal`, `cli.setup`, `cli.tools`, `cli.top`, `text_io`,
`version`, the layers below.
Used by: none.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line of this process and end it with the exit code."""
    from ether.cli.app import app

    app(prog_name="ether")
