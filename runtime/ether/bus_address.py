"""The address of a bus that a runtime joins, and what is said where no broker answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ether_broker.errors import BrokerUnavailable, InvalidEndpoint
from ether_broker.transport.endpoint import LAN, own_endpoint

if TYPE_CHECKING:
    from ether_broker.security.credentials import Credentials

__all__ = ["absence", "bus_address"]


def bus_address(url: str, credentials: Credentials | None) -> str:
    """The address for a socket.

    Raises:
        InvalidEndpoint: it is none, or one that nobody else reaches.
        EtherError: with `lan://`, as `ether_broker.discovery.locate`.
    """
    if url.startswith("inproc://"):
        msg = f"{url} is inside one Runtime, and nobody else reaches it: open that one with bind=, as in Runtime(bind='ipc:///PATH')."
        raise InvalidEndpoint(msg)
    if not url.startswith(LAN):
        return own_endpoint(url)
    from ether_broker.discovery.locate import located
    from ether_broker.security.keys import fingerprint

    known = () if credentials is None else [fingerprint(key) for key in credentials.server_keys()]
    return located(url, known=known).url


def absence(url: str, error: BrokerUnavailable) -> BrokerUnavailable:
    """What is said of an ipc address where nobody answers: where the cluster of its name is, or which buses are there."""
    from ether_broker.discovery.listening import others
    from ether_broker.discovery.own_clusters import told_elsewhere

    if (elsewhere := told_elsewhere(url)) is not None:
        name = url.rpartition("/")[2].removesuffix(".sock")
        return BrokerUnavailable(
            f"No broker answers at {url}: the cluster {name!r} runs at {elsewhere}: connect to that."
        )
    found = others(url)
    return BrokerUnavailable(f"{error} These are there: {', '.join(found)}.") if found else error
