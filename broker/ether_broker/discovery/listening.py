"""The addresses where somebody takes connections."""

from __future__ import annotations

import itertools
import socket
from pathlib import Path
from typing import Final

from ether_broker.discovery.own_clusters import addresses_beside
from ether_broker.transport.endpoint import IPC, default_endpoint

__all__ = ["is_listening", "others"]

_KNOCK: Final = 2.0
"""Seconds for a TCP connection to be made."""
_GLANCE: Final = 0.2
"""Seconds for another bus of this user to take a connection."""
_NAMED: Final = 5


def others(url: str) -> list[str]:
    """The addresses of this user's other buses that run, as `ether up --name` or a cluster file binds them: five at most."""
    folder = Path(default_endpoint().removeprefix(IPC)).parent  # not that of the URL, whose sockets may be anybody's
    found = (f"{IPC}{path}" for path in sorted(folder.glob("*.sock")) if f"{IPC}{path}" != url)
    listening = (one for one in found if is_listening(one, _GLANCE))
    return list(itertools.islice(dict.fromkeys(itertools.chain(listening, addresses_beside(url))), _NAMED))


def is_listening(url: str, timeout: float = _KNOCK) -> bool:
    """Whether somebody takes connections there; ZeroMQ itself would only try again and again, and never say."""
    scheme, _, rest = url.partition("://")
    try:
        if scheme == "tcp":
            host, _, port = rest.rpartition(":")
            socket.create_connection((host.strip("[]"), int(port)), timeout).close()
        else:
            with socket.socket(socket.AF_UNIX) as knocking:
                knocking.settimeout(timeout)
                knocking.connect(rest)
    except (OSError, UnicodeError):  # of a host's name that cannot be one, as in tcp://my..host:5555
        return False
    return True
