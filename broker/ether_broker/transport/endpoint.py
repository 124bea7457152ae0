"""Addresses that a broker can have."""

from __future__ import annotations

import errno
import os
import re
import stat
from typing import Any, Final

from ether_broker.envelope.names import NAME_PATTERN
from ether_broker.errors import AddressInUse, InvalidEndpoint

__all__ = [
    "IPC",
    "LAN",
    "bind_error",
    "check_endpoint",
    "default_endpoint",
    "is_exposed",
    "lan_name",
    "own_endpoint",
    "prepare_endpoint",
]

IPC: Final = "ipc://"
LAN: Final = "lan://"
"""Begins what stands for a broker that is to be found on the local network; not an address that one can have."""

_TCP = re.compile(r"tcp://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+|\*):(\d{1,5}|\*)")
_WORD: Final = r"[A-Za-z0-9_][A-Za-z0-9_.@-]*"
"""A cluster's name, and no host with a port or path."""
_IPC_LIMIT: Final = 107
"""Bytes that the path of a unix socket may have (sun_path on Linux, less the final zero)."""


def check_endpoint(endpoint: str) -> str:
    """Return the endpoint if a broker can have it: `tcp://host:port`, `ipc:///path` or `inproc://name`.

    Raises:
        InvalidEndpoint: it is none of these; the message says what is wrong with it.
    """
    scheme, _, rest = endpoint.partition("://")
    if scheme == "tcp":
        match = _TCP.fullmatch(endpoint)
        if match is None or (match[2] != "*" and not 0 < int(match[2]) < 1 << 16):
            raise InvalidEndpoint(f"{endpoint!r} is no TCP address: write tcp://HOST:PORT with a port of 1 to 65535.")
    elif scheme == "ipc":
        if not rest.startswith("/") or len(rest.encode()) > _IPC_LIMIT:
            msg = f"{endpoint!r} is no ipc address: write ipc:///PATH, absolute and of {_IPC_LIMIT} bytes at most."
            raise InvalidEndpoint(msg)
    elif scheme != "inproc" or not rest:
        raise InvalidEndpoint(f"{endpoint!r} is no address of a broker: write tcp://HOST:PORT or ipc:///PATH.")
    return endpoint


def lan_name(url: str) -> str | None:
    """The name in `lan://NAME`; None in `lan://`, which means the only broker there is.

    Raises:
        InvalidEndpoint: it is neither.
    """
    name = url.removeprefix(LAN)
    if not url.startswith(LAN) or (name and not re.fullmatch(NAME_PATTERN, name)):
        msg = f"{url!r} names no broker of the local network: write lan://NAME, or lan:// for the only one."
        raise InvalidEndpoint(msg)
    return name or None


def is_exposed(endpoint: str) -> bool:
    """Whether other machines can reach it: TCP that is not certainly the loopback device's; a name to look up is not."""
    if not endpoint.startswith("tcp://"):
        return False
    host = endpoint.removeprefix("tcp://").rpartition(":")[0].strip("[]")
    if host in {"localhost", "lo"}:
        return False
    from ipaddress import ip_address

    try:
        address = ip_address(host)
    except ValueError:
        return True
    mapped = getattr(address, "ipv4_mapped", None)
    return not (mapped or address).is_loopback


def bind_error(endpoint: str, error: Any) -> AddressInUse | InvalidEndpoint:
    """What to raise when an address cannot be bound; `error` is the OSError, or the transport's own with an `errno`."""
    if error.errno == errno.EADDRINUSE:
        return AddressInUse(f"{endpoint} is taken: stop what listens there, or choose another address.")
    return InvalidEndpoint(f"{endpoint} cannot be bound: {error.strerror or error}.")


def default_endpoint(name: str = "default") -> str:
    """The ipc endpoint of the cluster of that name of this user, in the user's runtime folder."""
    import tempfile
    from pathlib import Path

    base = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(base) / "ether" if base else Path(tempfile.gettempdir()) / f"ether-{os.getuid()}"
    return f"ipc://{folder / name}.sock"


def own_endpoint(url: str) -> str:
    """The URL; of `ipc://NAME`, which has no path, the endpoint of this user's cluster of that name.

    Raises:
        InvalidEndpoint: it is a name alone.
    """
    if re.fullmatch(_WORD, url):
        msg = f"{url!r} is no address of a broker: write ipc://{url} for your bus of that name, or tcp://HOST:PORT."
        raise InvalidEndpoint(msg)
    name = url.removeprefix(IPC)
    is_name = name != url and "/" not in name and re.fullmatch(NAME_PATTERN, name)
    return default_endpoint(name) if is_name else url


def prepare_endpoint(endpoint: str) -> None:
    """Make the folder of an ipc socket, for its owner alone (0700).

    Raises:
        InvalidEndpoint: the folder cannot be made, belongs to somebody else, or others may write to it.
    """
    if not endpoint.startswith("ipc://"):
        return
    from pathlib import Path

    folder = Path(endpoint.removeprefix("ipc://")).parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = folder.stat()
    except OSError as error:
        msg = f"{folder} cannot be made or read ({error.strerror}): choose a folder of yours for the socket."
        raise InvalidEndpoint(msg) from error
    sticky = info.st_mode & stat.S_ISVTX
    if info.st_uid not in (os.getuid(), 0) or (info.st_mode & 0o022 and not sticky):
        msg = f"{folder} is not yours alone, so others could put a socket there: choose a folder with mode 0700."
        raise InvalidEndpoint(msg)
