"""Addresses of peers: a transport gives one with each message, and takes one with each frame.

To whoever decides, an address is opaque: it is compared, and handed back. What it says of a node the transport tells, by its
`Addressing`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, NewType

__all__ = ["INCARNATION", "NOWHERE", "Address", "Addressing", "NodeAddress", "two_connections"]

Address = NewType("Address", bytes)
"""Where a message came from, or a frame goes to; any bytes, as a stranger may have chosen them."""

NOWHERE: Final = Address(b"")
"""Of who has none."""

INCARNATION: Final = 16
"""Bytes of a node's random incarnation."""


class NodeAddress(NamedTuple):
    """The address of one incarnation of a node: where it is sent to, and where its frames come from."""

    incarnation: bytes
    """16 bytes that no other node has, and nobody can guess."""
    listens: Address
    """Where it says HELLO, and is sent to."""
    talks: Address
    """Where all else comes from; the same where one connection serves both ways."""
    is_joined: bool = True
    """Whether frames travel as bytes; else as their parts, within a process."""


Addressing = Callable[[Address], NodeAddress | None]
"""Tells which node an address is one of; None for an address that no node can have. It costs the same for whatever bytes."""


def two_connections(address: Address) -> NodeAddress | None:
    """The addressing of a transport on which a node has two connections: `r` + incarnation listens, `t` + incarnation talks."""
    if len(address) != 1 + INCARNATION or address[:1] not in {b"r", b"t"}:
        return None
    incarnation = address[1:]
    return NodeAddress(incarnation, Address(b"r" + incarnation), Address(b"t" + incarnation))
