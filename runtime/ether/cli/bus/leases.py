"""`ether leases`: who is the only writer of what, and who waits for it."""

from __future__ import annotations

from typing import Final

from ether.cli.common.bus_options import NamedBusOptions
from ether.cli.common.connection import joined
from ether.cli.common.options import with_options
from ether.cli.common.output import Output, seconds
from ether.cli.common.table import Column

__all__ = ["leases"]


@with_options
def leases(bus: NamedBusOptions, out: Output) -> None:
    """List the leases that are held, the oldest first; as JSON with who waits for each, first in line first."""
    with joined(bus, bus.wait) as found:
        out.rows(found.leases(), _LEASES)


_LEASES: Final = (
    Column("resource"),
    Column("agent"),
    Column("node"),
    Column("held for", lambda row: seconds(row["held_for"]), right=True),
    Column("token", right=True),
    Column("delegation", lambda row: row["request_id"]),
    Column("waiting", lambda row: ", ".join(claim["agent"] for claim in row["waiting"])),
)
