"""`ether doctor`: whether Ether can work here, and what to do where it cannot."""

from __future__ import annotations

from typing import Final

import typer

from ether.cli.common.bus_options import NamedBusAddress
from ether.cli.common.exit_code import ExitCode
from ether.cli.common.options import with_options
from ether.cli.common.output import Output
from ether.cli.common.table import Column

__all__ = ["doctor"]


@with_options
def doctor(bus: NamedBusAddress, out: Output) -> None:
    """Check this machine and the bus; each line is ok, warn or fail, with the fix. Exit code 1 if one fails."""
    from ether.cli.setup.checks import CheckResult, checks

    found = list(checks(bus))
    rows = [{"check": one.name, "verdict": one.verdict.value, "detail": one.detail, "fix": one.fix} for one in found]
    out.rows(rows, _COLUMNS)
    if any(check.verdict is CheckResult.FAIL for check in found):
        raise typer.Exit(ExitCode.FAILED)


_COLUMNS: Final = (Column("verdict"), Column("check"), Column("found", lambda row: row["detail"]), Column("fix"))
