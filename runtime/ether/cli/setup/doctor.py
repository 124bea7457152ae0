"""`ether doctor`: whether Ether can work here, and what to do where it cannot."""

from __future__ import annotations

from typing import Final

import typer

from ether.cli.common.exit_code import ExitCode
from ether.cli.common.options import (
    ConnectOption,
    FormatOption,
    KeysOption,
    NameOption,
    ServerKeyOption,
    named,
    output_of,
)
from ether.cli.common.output import Column

__all__ = ["add_to"]


def add_to(app: typer.Typer) -> None:
    """Give the app this command."""
    app.command()(doctor)


def doctor(
    ctx: typer.Context, *, connect: ConnectOption = None, bus_name: NameOption = None, keys: KeysOption = None,
    server_key: ServerKeyOption = None, output_format: FormatOption = None,
) -> None:  # fmt: skip
    """Check this machine and the bus; each line is ok, warn or fail, with the fix. Exit code 1 if one fails."""
    from ether.cli.setup.checks import CheckResult, checks

    found = list(checks(named(bus_name) or connect, keys, server_key))
    output_of(ctx, output_format).rows([check.as_row() for check in found], _COLUMNS)
    if any(check.verdict is CheckResult.FAIL for check in found):
        raise typer.Exit(ExitCode.FAILED)


_COLUMNS: Final = (
    Column("verdict", lambda row: row["verdict"]),
    Column("check", lambda row: row["check"]),
    Column("found", lambda row: row["detail"]),
    Column("fix", lambda row: row["fix"]),
)
