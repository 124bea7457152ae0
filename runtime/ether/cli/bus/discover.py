"""`ether discover`: which brokers the local network has."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Final

import typer

from ether.cli.common.options import with_options
from ether.cli.common.output import Output
from ether.cli.common.table import Column

__all__ = ["discover"]


@with_options
def discover(
    *,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="How long to listen.")] = 2.5,
    out: Output,
) -> None:
    """List the buses that `ether up --advertise` announces on the local network.

    Whatever is listed is what somebody on the network says, a key's fingerprint too. `--discover NAME` joins one.
    """
    from ether_broker.discovery.browser import discover as listen

    found = listen(timeout)
    out.rows([{**asdict(advert), "url": advert.url, "urls": advert.urls} for advert in found], _COLUMNS)
    if not found:
        out.note(
            "nothing is advertised here; a firewall (UDP port 5353, multicast) or another subnet may keep it from "
            "being heard"
        )


_COLUMNS: Final = (
    Column("name"),
    Column("url"),
    Column("host"),
    Column("version"),
    Column("key", lambda row: row["fingerprint"] or "none"),
)
