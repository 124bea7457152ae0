"""Shell completion of agents and capabilities; never an error, and never a long wait.

Of what a completion gives, typer offers what begins with the word that was begun.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Final

from ether.cli.common.bus_options import BusAddress
from ether.cli.common.connection import joined
from ether.runtime import Runtime
from ether_broker.errors import EtherError
from ether_broker.transport.endpoint import LAN

__all__ = ["complete_agents", "complete_capabilities"]

_PATIENCE: Final = 1.0
"""Seconds that somebody who pressed Tab will wait."""


def complete_agents() -> list[str]:
    """The agents on the bus."""
    return _ask(lambda bus: (row["agent"] for row in bus.iter_agents()))


def complete_capabilities() -> list[str]:
    """The capabilities on the bus."""
    return _ask(lambda bus: bus.capabilities())


def _ask(names: Callable[[Runtime], Iterable[str]]) -> list[str]:
    connect = os.environ.get("ETHER_CONNECT")
    if connect is not None and connect.startswith(LAN):  # to look for it would take longer than anybody waits
        return []
    try:
        keys, server_key = os.environ.get("ETHER_KEYS"), os.environ.get("ETHER_SERVER_KEY")
        with joined(BusAddress(connect=connect, keys=keys, server_key=server_key), patience=_PATIENCE) as bus:
            return sorted(filter(str.isprintable, names(bus)))
    except EtherError:
        return []
