"""The resolution of `lan://` and `lan://NAME` to an address that takes connections."""

from __future__ import annotations

import socket
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from ether_broker.discovery.advert import Advert
from ether_broker.discovery.browser import browse
from ether_broker.discovery.selection import choose, is_conclusive
from ether_broker.errors import BrokerUnavailable
from ether_broker.transport.endpoint import LAN, lan_name

__all__ = ["TIMEOUT", "Located", "locate", "located"]

TIMEOUT: Final = 5.0
"""Seconds to listen for a broker that may not be there."""
_SETTLE: Final = 1.5
"""Seconds of silence after which no more brokers are expected: one that has just answered another waits a second."""
_KNOCK: Final = 1.0
"""Seconds for a TCP connection to be made."""


class Located(NamedTuple):
    """A broker that was found, and its address."""

    url: str
    """An address that takes connections; an address that was given is not tried."""
    advert: Advert | None
    """What it says of itself; None where the address was given. Its fingerprint tells which of several known keys the
    connection has to prove."""


def located(url: str, *, timeout: float = TIMEOUT, known: Collection[str] = ()) -> Located:
    """Where a broker is: at the URL itself, or for `lan://` and `lan://NAME` at what is found under it.

    Raises:
        InvalidEndpoint: `lan://` with what is no name.
        EtherError: as `locate`.
    """
    if not url.startswith(LAN):
        return Located(url, None)
    return locate(lan_name(url), timeout=timeout, known=known)


def locate(
    name: str | None = None,
    *,
    timeout: float = TIMEOUT,
    known: Collection[str] = (),
    interfaces: Sequence[str] | None = None,
) -> Located:
    """Find a broker on the local network, and give an address of it that takes connections.

    Args:
        name: of the advert, or of its cluster; None: whichever is the only one.
        timeout: seconds to listen at most. A broker that is named, or whose key is known, is taken as soon as it is
            heard; without, 1.5 s of silence have to follow, because another might answer.
        known: as `choose`.
        interfaces: as `browse`.

    Raises:
        MissingExtra, DiscoveryUnavailable: as `discover`.
        BrokerUnavailable: none was heard, or the one that is meant takes no connections.
        UntrustedBroker, UsageError, IncompatibleVersion: as `choose`.
    """
    found = browse(
        timeout, enough=lambda found: is_conclusive(found, name, known), settle=_SETTLE, interfaces=interfaces
    )
    advert = choose(found, name, known, seconds=timeout)
    return Located(_responder(advert), advert)


def _responder(advert: Advert) -> str:
    """The first of its addresses that takes connections."""
    for url in advert.urls:
        parts = urlsplit(url)
        try:
            with socket.create_connection((parts.hostname, parts.port), _KNOCK):
                return url
        except OSError:
            continue
    tried = ", ".join(advert.urls) or "no address"
    raise BrokerUnavailable(
        f"{advert.name} is advertised at {tried}, and takes no connection there: it has just ended, or a firewall "
        f"keeps TCP port {advert.port} of that machine closed."
    )
