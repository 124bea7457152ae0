"""`ether discover`: which brokers the local network has."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ether.cli.common.options import FormatOption, output_of
from ether.cli.common.output import Column

if TYPE_CHECKING:
    from ether_broker.discovery.advert import Advert

__all__ = ["add_to"]


def add_to(app: typer.Typer) -> None:
    """Give the app this command."""
    app.command()(discover)


def discover(
    ctx: typer.Context,
    *,
    timeout: Annotated[float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="How long to listen.")] = 2.5,
    output_format: FormatOption = None,
) -> None:
    """List the buses that `ether up --advertise` announces on the local network.

    Whatever is listed is what somebody on the network says, a key's fingerprint too. `--discover NAME` joins one.
    """
    from ether_broker.discovery.browser import discover as listen

    out = output_of(ctx, output_format)
    found = listen(timeout)
    out.rows([_row(advert) for advert in found], _COLUMNS)
    if not found:
        out.note(
            "nothing is advertised here; a firewall (UDP port 5353, multicast) or another subnet may keep it from "
            "being heard"
        )


def _row(advert: Advert) -> dict[str, Any]:
    return {**asdict(advert), "url": advert.url, "urls": advert.urls}


_COLUMNS: Final = (
    Column("name", lambda row: row["name"]),
    Column("url", lambda row: row["url"]),
    Column("host", lambda row: row["host"]),
    Column("version", lambda row: row["version"]),
    Column("key", lambda row: row["fingerprint"] or "none"),
)
