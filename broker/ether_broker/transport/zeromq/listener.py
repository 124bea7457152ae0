"""The listening sockets of a guarded broker: several for one port, each for another key of the broker's own.

CURVE has one server key a listening socket, and libzmq ends the connections of one that is closed. So that a new key
takes over a port while the connections under the former one go on, both listen there (`SO_REUSEPORT`), and a filter of one
instruction tells the kernel to give every new connection to the newest.
"""

from __future__ import annotations

import contextlib
import ctypes
import socket
import struct
from typing import Final

from ether_broker.transport.endpoint import bind_error

__all__ = ["listen"]

_BACKLOG: Final = 128
_ATTACH_FILTER: Final = 51
"""SO_ATTACH_REUSEPORT_CBPF, Linux 4.5 and newer; Python's socket module has no name for it."""
_RETURN: Final = 0x06
"""BPF_RET | BPF_K."""


def listen(host: str, port: int, *, before: int = 0) -> socket.socket:
    """A listening socket that does not block.

    Args:
        host: an address or a name; `*` is every address of the machine.
        port: 0 takes a free one.
        before: how many of ours listen there already; this one takes what comes from now on.

    Raises:
        AddressInUse: somebody else listens there.
        InvalidEndpoint: there is no such address here.
    """
    where = f"tcp://{host}:{port or '*'}"
    try:
        return _listen(host, port, before)
    except OSError as error:
        raise bind_error(where, error) from error


def _listen(host: str, port: int, before: int) -> socket.socket:
    family, address = _resolve(host, port)
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, host != "*")
        if before:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.bind(address)
        # Only now for the first: it is bound as its owner's alone, so that a second broker is told; then it may share.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.listen(_BACKLOG)
        if before:
            _prefer(made, before)
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made


def _resolve(host: str, port: int) -> tuple[int, tuple[str, int]]:
    if host == "*":
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET6):
            return socket.AF_INET6, ("::", port)
        return socket.AF_INET, ("0.0.0.0", port)  # noqa: S104  who binds `*` wants that
    found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = found[0]
    return family, (str(address[0]), port)


def _prefer(listener: socket.socket, index: int) -> None:
    """Give every new connection of the port to the listener of that index, in the order in which they came."""
    program = ctypes.create_string_buffer(struct.pack("HBBI", _RETURN, 0, 0, index))
    listener.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(program)))
