"""Shell completion of agents and capabilities; never an error, and never a long wait."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from ether_broker.errors import EtherError
from ether_broker.transport.endpoint import LAN

if TYPE_CHECKING:
    from ether.runtime import Runtime

__all__ = ["complete_agents", "complete_capabilities"]

_PATIENCE: Final = 1.0
"""Seconds that somebody who pressed Tab will wait."""


def complete_agents(incomplete: str) -> list[str]:
    """The agents on the bus whose names begin so."""
    return _ask(incomplete, lambda bus: (row["agent"] for row in bus.iter_agents()))


def complete_capabilities(incomplete: str) -> list[str]:
    """The capabilities on the bus whose names begin so."""
    return _ask(incomplete, lambda bus: bus.capabilities())


def _ask(incomplete: str, names: Callable[[Runtime], Iterable[str]]) -> list[str]:
    from ether.cli.common.bus_options import BusAddress
    from ether.cli.common.connection import joined

    connect = os.environ.get("ETHER_CONNECT")
    if connect is not None and connect.startswith(LAN):  # to look for it would take longer than anybody waits
        return []
    try:
        keys, server_key = os.environ.get("ETHER_KEYS"), os.environ.get("ETHER_SERVER_KEY")
        with joined(BusAddress(connect=connect, keys=keys, server_key=server_key), patience=_PATIENCE) as bus:
            return sorted(name for name in names(bus) if name.startswith(incomplete) and name.isprintable())
    except EtherError:
        return []
