"""A cluster's broker on the local network: what `advertise=True` announces, and when."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable

from ether.version import __version__
from ether_broker.discovery.addresses import bound_addresses
from ether_broker.discovery.advert import Advert
from ether_broker.discovery.advertiser import Advertiser
from ether_broker.errors import InvalidEndpoint

__all__ = ["advertise"]

_STRANGE = re.compile(r"[^A-Za-z0-9_-]+")


def advertise(
    cluster: str,
    bound: str,
    *,
    is_up: Callable[[], bool],
    on_event: Callable[[str], None],
    fingerprint: str | None = None,
) -> Advertiser:
    """Announce a broker until the advertiser is closed; not while the broker is down.

    Args:
        cluster: the cluster's name.
        bound: the address that the broker is bound to, with its port: `tcp://*:7421`.
        is_up: asked every 2 s, in a thread of the advertiser's.
        on_event: told in words what happens, there.
        fingerprint: of the broker's key; None: it has none.

    Raises:
        InvalidEndpoint: no other machine reaches that address.
        MissingExtra, DiscoveryUnavailable: as `Advertiser.open`.
    """
    host, _, port = bound.removeprefix("tcp://").rpartition(":")
    if host.strip("[]") not in ("*", "::", "0.0.0.0") and not bound_addresses(host):  # noqa: S104  we bind nothing
        raise InvalidEndpoint(
            f"{bound} cannot be advertised: {host} is no address of this machine that others reach. "
            f"Bind one that is, or all: --bind 'tcp://*:{port}'."
        )
    machine = _STRANGE.sub("-", socket.gethostname().partition(".")[0])[:32]
    advert = Advert(cluster, cluster, int(port), host=machine, version=__version__, fingerprint=fingerprint)
    return Advertiser(advert, lambda: bound_addresses(host) if is_up() else (), on_event=on_event).open()
