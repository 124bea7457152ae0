"""The addresses of this machine that others can use, and the order in which another machine's are tried."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from ether_broker.discovery.mdns import require

__all__ = ["LocalAddress", "bound_addresses", "interfaces", "nearest_first", "own_addresses"]

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_IPV6: Final = 6


class LocalAddress(NamedTuple):
    """One address of one network interface."""

    name: str
    address: _Address
    network: ipaddress.IPv4Network | ipaddress.IPv6Network


def interfaces() -> list[LocalAddress]:
    """The addresses of this machine that other machines can use, IPv4 first: no loopback, no IPv6 link-local.

    Raises:
        MissingExtra: the extra `lan` is not installed.
    """
    require()
    import ifaddr

    found = []
    for adapter in ifaddr.get_adapters():
        for ip in adapter.ips:
            text = ip.ip if isinstance(ip.ip, str) else ip.ip[0]
            try:
                interface = ipaddress.ip_interface(f"{text}/{ip.network_prefix}")
            except ValueError:  # an address with a scope, such as fe80::1%eth0
                continue
            if not (interface.ip.is_loopback or (interface.version == _IPV6 and interface.ip.is_link_local)):
                found.append(LocalAddress(adapter.name, interface.ip, interface.network))
    return sorted(found, key=lambda one: one.address.version)


def own_addresses() -> tuple[str, ...]:
    """The addresses of `interfaces`, each once, as text."""
    return tuple(dict.fromkeys(str(one.address) for one in interfaces()))


def bound_addresses(host: str) -> tuple[str, ...]:
    """Where other machines reach a socket that is bound to `host`.

    Args:
        host: as in a broker's `tcp://HOST:PORT`: `*`, an address (IPv6 in brackets), an interface's name as `eth0`,
            or a host's name.

    Returns:
        The addresses, IPv4 first; for `*` and `[::]` those of all interfaces, for `0.0.0.0` their IPv4 ones. Empty
        where there are none, as for loopback or before the network is up.
    """
    here = interfaces()
    bare = host.strip("[]")
    if bare in ("*", "::", "0.0.0.0"):  # noqa: S104  we bind nothing
        return tuple(dict.fromkeys(str(one.address) for one in here
                                   if one.address.version != _IPV6 or bare != "0.0.0.0"))  # noqa: S104  # fmt: skip
    named = [str(one.address) for one in here if one.name == bare]
    if named:
        return tuple(named[:1])  # as ZeroMQ, which binds the first
    try:
        told = [entry[4][0] for entry in socket.getaddrinfo(bare, None, type=socket.SOCK_STREAM)]
    except OSError:
        return ()
    ours = {str(one.address) for one in here}
    return tuple(dict.fromkeys(str(text) for text in told if text in ours))[:1]


def nearest_first(addresses: Iterable[str], here: Sequence[LocalAddress]) -> list[str]:
    """Order another machine's addresses by how likely they lead to it.

    Those in a network of ours come first. Our own come last: they are advertised by a broker of this machine, for
    which any will do, or by another machine that has the same private address, as each Docker host has 172.17.0.1.
    """
    ours = {one.address for one in here}

    def rank(text: str) -> int:
        address = ipaddress.ip_address(text)
        if address in ours:
            return 2
        return 0 if any(address in one.network for one in here) else 1

    return sorted(addresses, key=rank)
