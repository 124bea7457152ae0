"""What an envelope costs, in points; turns are shared out by it. Sans-IO.

A point is about 10 µs of the broker's time for work, and 3 µs for what is none: so a step that is full of that is short, and
those who work beside it wait less.
"""

from __future__ import annotations

from typing import Final

from ether_broker.wire import HEADER, Kind

__all__ = ["DEAREST", "cost_of"]

DEAREST: Final = 1_024
"""Points of an envelope that is still read; one that would cost more is refused unread, and counts as one above it."""
_BASE: Final = {
    Kind.CANCEL: 1, Kind.TAP_ACK: 1, Kind.DELEGATION: 2, Kind.RESPONSE: 2, Kind.REGISTER: 12, Kind.HELLO: 12,
}  # fmt: skip
_BASES: Final = bytes(_BASE.get(kind, 4) for kind in range(256))  # type: ignore[call-overload]  # an IntEnum's keys
_HEADER: Final = HEADER.size
_DELEGATION: Final = int(Kind.DELEGATION)
_OPAQUE: Final = bytes([Kind.RESPONSE, Kind.CANCEL, Kind.TAP_ACK])
"""Kinds whose bodies the broker passes on unread; as it does a DELEGATION's, but for what is asked of the bus itself."""
_QUESTION: Final = b"ether."
_N_SOURCE: Final = 4
_N_TARGET: Final = 5
_CONTAINERS: Final = bytes([*range(0x80, 0xA0), *range(0xDC, 0xE0)])
"""The bytes with which a map or a list of msgpack begins."""


def cost_of(envelope: bytes) -> int:
    """Points that an envelope costs at most, known before anything of it is read.

    | what | points |
    |---|---|
    | CANCEL, TAP_ACK | 1 |
    | DELEGATION, RESPONSE | 2 |
    | any other | 4 |
    | REGISTER, HELLO | 12 |
    | each 8 KiB | 1 |
    | each 16 maps and lists in a body that the broker reads: all but DELEGATION, RESPONSE, CANCEL and TAP_ACK, and of
      DELEGATION what is asked of `ether.*` | 1 |

    msgpack says a map in one byte, and Python needs 64 bytes and half a microsecond for each; a MiB of them is a bomb. Bytes
    within text count too where they look the same.
    """
    size = len(envelope)
    if size < _HEADER:
        return 4
    kind = envelope[0]
    points = _BASES[kind] + (size >> 13)
    if kind == _DELEGATION:
        if not envelope.startswith(_QUESTION, _HEADER + envelope[_N_SOURCE] + envelope[_N_TARGET]):
            return points
    elif kind in _OPAQUE:
        return points
    return min(points + ((size - len(envelope.translate(None, _CONTAINERS))) >> 4), DEAREST + 1)
