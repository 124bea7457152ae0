"""`ether leases`: who is the only writer of what, and who waits for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import typer

from ether.cli.common.connection import joined
from ether.cli.common.options import (
    ConnectOption,
    FormatOption,
    KeysOption,
    NameOption,
    ServerKeyOption,
    WaitOption,
    named,
    output_of,
)
from ether.cli.common.output import Column, seconds

__all__ = ["add_to"]


def add_to(app: typer.Typer) -> None:
    """Give the app this command."""
    app.command()(leases)


def leases(
    ctx: typer.Context, *, connect: ConnectOption = None, bus_name: NameOption = None, wait: WaitOption = 0.0,
    keys: KeysOption = None, server_key: ServerKeyOption = None, output_format: FormatOption = None,
) -> None:  # fmt: skip
    """List the leases that are held, the oldest first; as JSON with who waits for each, first in line first."""
    out = output_of(ctx, output_format)
    with joined(named(bus_name) or connect, wait, keys=keys, server_key=server_key) as bus:
        out.rows(bus.leases(), _LEASES)


def _waiting(row: Mapping[str, Any]) -> str:
    """Those who wait, in line; `-` for nobody."""
    return ", ".join(claim["agent"] for claim in row["waiting"]) or "-"


_LEASES: Final = (
    Column("resource", lambda row: row["resource"]),
    Column("agent", lambda row: row["agent"]),
    Column("node", lambda row: row["node"]),
    Column("held for", lambda row: seconds(row["held_for"]), right=True),
    Column("token", lambda row: row["token"], right=True),
    Column("delegation", lambda row: row["request_id"]),
    Column("waiting", _waiting),
)
