"""The bus that a command talks to: one that is there, or one of its own."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ether_broker.errors import BrokerUnavailable, InvalidEndpoint
from ether_broker.transport.endpoint import LAN, check_endpoint, default_endpoint, lan_name, own_endpoint

if TYPE_CHECKING:
    from ether.runtime import Runtime

__all__ = ["any_bus", "embedded", "is_listening", "joined", "others", "pause", "wait_for"]

_PATIENCE: Final = 5.0
"""Seconds that a broker which listens may take to answer."""
_KNOCK: Final = 2.0
"""Seconds for a TCP connection to be made."""
_GLANCE: Final = 0.2
"""Seconds for another bus of this user to take a connection."""
_NAMED: Final = 5
_PAUSE: Final = 0.05


@contextmanager
def any_bus(
    connect: str | None,
    wait: float,
    agents: Sequence[str],
    *,
    keys: str | None = None,
    server_key: str | None = None,
    name: str | None = None,
) -> Iterator[Runtime]:
    """The bus of a command's options: its own with these agents if there are any, else the one that is there.

    Args:
        connect: as `joined`.
        wait: as `joined`.
        agents: each `module:Class`.
        keys: as `joined`.
        server_key: as `joined`.
        name: as `joined`.

    Raises:
        EtherError: as `joined` and `embedded`.
    """
    with embedded(agents) if agents else joined(connect, wait, keys=keys, server_key=server_key, name=name) as bus:
        yield bus


@contextmanager
def joined(
    connect: str | None,
    wait: float = 0.0,
    *,
    patience: float | None = None,
    keys: str | None = None,
    server_key: str | None = None,
    name: str | None = None,
) -> Iterator[Runtime]:
    """Join the bus at an address.

    Args:
        connect: its address; None is this user's own.
        wait: seconds to wait until something listens there.
        patience: seconds that it may then take to answer; 5 unless given.
        keys: the folder with our keys.
        server_key: as `Runtime.connect`.
        name: of the node, and so of who delegates; with keys it is below the key's. Unless given, one that nobody has.

    Raises:
        InvalidKey: a key cannot be used.
        AuthenticationFailed: broker and we do not accept each other's keys.
        InvalidEndpoint: not an address that can be connected to.
        BrokerUnavailable: nobody listens there, or what listens is no broker.
        NodeRefused: the broker does not let us in; NameTaken: another node has that name.
    """
    url = wait_for(connect, wait, keys, server_key)
    from ether.runtime import Runtime

    limit = _PATIENCE if patience is None else patience
    if name is not None and keys is not None:
        from ether_broker.security.credentials import Credentials

        name = "/".join(filter(None, (Credentials.of(keys, server_key).pair.name, name)))
    with Runtime.connect(url, name=name, timeout=limit, drain=0.0, keys=keys, server_key=server_key) as bus:
        yield bus


def wait_for(connect: str | None, wait: float, keys: str | None = None, server_key: str | None = None) -> str:
    """Wait until something listens at an address, and return it; of a `lan://` URL, the address that is found.

    Raises:
        InvalidEndpoint: not an address that can be connected to.
        BrokerUnavailable: nobody listened there within `wait` seconds.
        EtherError: as `ether_broker.discovery.locate`.
    """
    url = connectable(connect or default_endpoint())
    if url.startswith(LAN):
        from ether_broker.discovery.locate import TIMEOUT, located

        return located(url, timeout=max(wait, TIMEOUT), known=_known(keys, server_key)).url
    limit = time.monotonic() + wait
    while not is_listening(url):
        if time.monotonic() >= limit:
            found = [] if connect else others(url)
            there = f" These are there: {', '.join(found)}." if found else ""
            msg = f"No broker listens at {url}: start one with `ether up`, or name another with --connect.{there}"
            raise BrokerUnavailable(msg)
        pause()
    return url


def others(url: str) -> list[str]:
    """The addresses of this user's other buses that run, as `ether up --name` binds them: five at most."""
    folder = Path(url.removeprefix("ipc://")).parent
    found = (f"ipc://{path}" for path in sorted(folder.glob("*.sock")) if f"ipc://{path}" != url)
    return list(itertools.islice((one for one in found if is_listening(one, _GLANCE)), _NAMED))


def _known(keys: str | None, server_key: str | None) -> list[str]:
    """Fingerprints of the brokers' keys that are believed."""
    if keys is None:
        return []
    from ether_broker.security.credentials import Credentials
    from ether_broker.security.keys import fingerprint

    return [fingerprint(key) for key in Credentials.of(keys, server_key).server_keys()]


@contextmanager
def embedded(agents: Sequence[str]) -> Iterator[Runtime]:
    """A bus in this process with these agents, each `module:Class`.

    Raises:
        InvalidSpec: one of them cannot be imported or started.
    """
    from ether.cli.common.agent_loader import load_agent, start_agent
    from ether.runtime import Runtime

    classes = [load_agent(text) for text in agents]
    with Runtime(drain=0.0) as bus:
        for text, cls in zip(agents, classes, strict=True):
            start_agent(bus, text, cls)
        yield bus


def pause() -> None:
    """Wait a moment before looking again."""
    time.sleep(_PAUSE)


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
        msg = f"{url!r} is an address to bind: connect to tcp://HOST:PORT or ipc:///PATH."
        raise InvalidEndpoint(msg)
    return url


def is_listening(url: str, timeout: float = _KNOCK) -> bool:
    """Whether somebody takes connections there; ZeroMQ itself would only try again and again, and never say."""
    try:
        with _knock(url, timeout):
            return True
    except OSError:
        return False


def _knock(url: str, timeout: float) -> socket.socket:
    scheme, _, rest = url.partition("://")
    if scheme == "tcp":
        host, _, port = rest.rpartition(":")
        return socket.create_connection((host.strip("[]"), int(port)), timeout)
    knocking = socket.socket(socket.AF_UNIX)
    try:
        knocking.settimeout(timeout)
        knocking.connect(rest)
    except OSError:
        knocking.close()
        raise
    return knocking
