"""The bus that a command talks to: one that is there, or one of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from ether.cli.common.bus_options import BusAddress, BusOptions
from ether.runtime import Runtime
from ether_broker.discovery.listening import is_listening, others
from ether_broker.discovery.own_clusters import told_elsewhere
from ether_broker.errors import BrokerUnavailable, EtherError, InvalidEndpoint, InvalidSpec, UsageError
from ether_broker.transport.endpoint import LAN, check_endpoint, default_endpoint, lan_name, own_endpoint

__all__ = ["any_bus", "cluster_at", "connected_name", "embedded", "joined", "pause", "wait_for"]

_PATIENCE: Final = 5.0
"""Seconds that a broker which listens may take to answer."""
_PAUSE: Final = 0.05


def any_bus(
    bus: BusOptions, agents: Sequence[str] | None, *, name: str | None = None
) -> AbstractContextManager[Runtime]:
    """The bus of a command's options: its own with these agents if there are any, else the one that is there.

    Args:
        bus: as `joined`.
        agents: each `module:Class`.
        name: as `joined`.

    Raises:
        EtherError: as `joined` and `embedded`.
    """
    return embedded(agents) if agents else joined(bus, bus.wait, name=name)


def joined(bus: BusAddress, wait: float = 0.0, *, patience: float = _PATIENCE, name: str | None = None) -> Runtime:
    """A runtime that joins the bus at an address when it is opened, as by a `with` block.

    Args:
        bus: its address, and our keys.
        wait: seconds to wait until something listens there.
        patience: seconds that it may then take to answer.
        name: of the node, and so of who delegates; with keys it is below the key's. Unless given, one that nobody has.

    Raises:
        InvalidKey: a key cannot be used.
        AuthenticationFailed: broker and we do not accept each other's keys.
        InvalidEndpoint: not an address that can be connected to.
        BrokerUnavailable: nobody listens there, or what listens is no broker.
        NodeRefused: the broker does not let us in; NameTaken: another node has that name.
    """
    url, keys, server_key = wait_for(bus, wait), bus.keys, bus.server_key
    if name is not None and keys is not None:
        from ether_broker.security.credentials import Credentials

        name = "/".join(filter(None, (Credentials.of(keys, server_key).pair.name, name)))
    return Runtime.connect(url, name=name, timeout=patience, drain=0.0, keys=keys, server_key=server_key)


def wait_for(bus: BusAddress, wait: float = 0.0) -> str:
    """Wait until something listens at an address, and return it; of a `lan://` URL, the address that is found.

    Raises:
        InvalidEndpoint: not an address that can be connected to.
        BrokerUnavailable: nobody listened there within `wait` seconds.
        EtherError: as `ether_broker.discovery.locate`.
    """
    url = connectable(bus.url or default_endpoint())
    if url.startswith(LAN):
        from ether_broker.discovery.locate import TIMEOUT, located

        return located(url, timeout=max(wait, TIMEOUT), known=_known(bus)).url
    limit = time.monotonic() + wait
    while not is_listening(url):
        if time.monotonic() >= limit:
            if (elsewhere := told_elsewhere(url)) is not None:
                raise BrokerUnavailable(
                    f"No broker listens at {url}: the cluster {Path(url).stem!r} runs at {elsewhere}: --connect that."
                )
            found = others(url) if url.startswith("ipc://") else []
            there = f" These are there: {', '.join(found)}." if found else ""
            msg = f"No broker listens at {url}: start one with `ether up`, or name another with --connect.{there}"
            raise BrokerUnavailable(msg)
        pause()
    return url


def _known(bus: BusAddress) -> list[str]:
    """Fingerprints of the brokers' keys that are believed."""
    if bus.keys is None:
        return []
    from ether_broker.security.credentials import Credentials
    from ether_broker.security.keys import fingerprint

    return [fingerprint(key) for key in Credentials.of(bus.keys, bus.server_key).server_keys()]


@contextmanager
def embedded(agents: Sequence[str]) -> Iterator[Runtime]:
    """A bus in this process with these agents, each `module:Class`.

    Raises:
        InvalidSpec: one of them cannot be imported or started.
    """
    from ether.cli.common.agent_loader import load_agent

    classes = [load_agent(text) for text in agents]
    with Runtime(drain=0.0) as bus:
        for text, cls in zip(agents, classes, strict=True):
            try:
                bus.start(cls)
            except EtherError:
                raise
            except Exception as error:
                raise InvalidSpec(f"{text} did not start: {type(error).__name__}: {error}.") from error
        yield bus


def pause() -> None:
    """Wait a moment before looking again."""
    time.sleep(_PAUSE)


def connected_name(why: str) -> str | None:
    """The name of this user's cluster at ETHER_CONNECT, for a command that goes by the name; None where that is not set.

    Args:
        why: the command wants a name, and how it is given.

    Raises:
        UsageError: ETHER_CONNECT is another address.
    """
    url = os.environ.get("ETHER_CONNECT")
    if not url:
        return None
    name = cluster_at(url)
    if name is None:
        raise UsageError(f"ETHER_CONNECT is {url}, and {why}.")
    return name


def cluster_at(url: str) -> str | None:
    """The name of the cluster of this user that has this default address; None if it is no such address."""
    own = own_endpoint(url)
    name = Path(own).stem
    return name if own == default_endpoint(name) else None


def connectable(url: str) -> str:
    """The address, if one can connect to it from another process; of `ipc://NAME`, that of this user's bus of that name.

    Raises:
        InvalidEndpoint: it cannot be; the message says why.
    """
    if url.startswith(LAN):
        lan_name(url)
        return url
    url = check_endpoint(own_endpoint(url))
    if url.startswith("inproc://") or "*" in url:
        raise InvalidEndpoint(f"{url!r} is an address to bind: connect to tcp://HOST:PORT or ipc:///PATH.")
    return url
