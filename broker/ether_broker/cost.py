"""What an envelope costs, in points; turns are shared out by it. Sans-IO.

A point is about 10 µs of the broker's time for work, and 3 µs for what is none: so a step that is full of that is short, and
those who work beside it wait less.
"""

from __future__ import annotations

from typing import Final

from ether_broker.wire import Kind

__all__ = ["DEAREST", "PER_8_KIB", "PRICES", "reading"]

DEAREST: Final = 1_024
"""Points of a body that is still read; one that would cost more is refused unread, and counts as one above it."""
_BASE: Final = {
    Kind.CANCEL: 1, Kind.TAP_ACK: 1, Kind.DELEGATION: 2, Kind.RESPONSE: 2, Kind.REGISTER: 12, Kind.HELLO: 12,
}  # fmt: skip
PRICES: Final = bytes(_BASE.get(kind, 4) for kind in range(256))  # type: ignore[call-overload]  # an IntEnum's keys
"""Points of an envelope by its first byte, its kind: CANCEL and TAP_ACK 1, work 2, REGISTER and HELLO 12, others 4."""
PER_8_KIB: Final = 13
"""An envelope costs a point more for each 8 KiB: its size, shifted right by this."""
_CONTAINERS: Final = bytes([*range(0x80, 0xA0), *range(0xDC, 0xE0)])
"""The bytes with which a map or a list of msgpack begins."""


def reading(body: bytes) -> int:
    """Points of reading a body of msgpack, beside what its envelope costs: 1 for each KiB, and for each 16 maps and lists.

    Of most work the broker reads no body. msgpack says a map in one byte, and Python needs 64 bytes and half a microsecond for
    each; a MiB of them is a bomb. Bytes within text count too where they look the same.
    """
    return min((len(body) >> 10) + ((len(body) - len(body.translate(None, _CONTAINERS))) >> 4), DEAREST + 1)
