"""The command line: `ether`.

    app.py          the commands, global options, and what an error becomes
    exit_code.py    what the exit code says
    options.py      options that several commands share
    output.py       data on stdout as text, JSON or JSON lines; notes on stderr
    connection.py   the bus that a command talks to
    commands/       one file a command, or a few that belong together

typer and rich are imported here only, and rich only where something is drawn.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line of this process and end it with the exit code."""
    from ether.cli.app import app

    app(prog_name="ether")
