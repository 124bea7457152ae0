"""Large bodies, found inside envelopes so that each is stored once, whoever sends it how often.

A delegation that is redelivered, a context slice that is handed down to ten specialists, a result that is passed on: their
payloads are the same bytes in different envelopes. An envelope's body is a msgpack map whose payloads are byte
strings, so the walk below jumps from field to field without reading what is in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ether_broker.wire import HEADER

__all__ = ["LARGE", "payloads"]

LARGE: Final = 4096
"""Bytes from which on a payload is stored by its hash. Below it, the hash, two look-ups and two rows (20 µs) cost more than
writing the bytes again (3 µs), and a reference with its rows takes 120 bytes itself."""
_TOKENS: Final = 256
"""Values that the walk passes at most. What is behind them stays in the row, so that a hostile body costs no more."""

_WIDTHS: Final = {
    0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8, 0xCA: 4, 0xCB: 8,
    0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17, 0xC0: 0, 0xC2: 0, 0xC3: 0,
}  # fmt: skip
"""Bytes behind the first one, of values that have a fixed length."""
_SIZED: Final = {0xC4: (1, 0), 0xC5: (2, 0), 0xC6: (4, 0), 0xC7: (1, 1), 0xC8: (2, 1), 0xC9: (4, 1), 0xD9: (1, 0),
                 0xDA: (2, 0), 0xDB: (4, 0)}  # fmt: skip
"""Bytes of the length, and those between it and the data: byte strings, extensions, text."""
_NESTED: Final = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}
"""Bytes of the count, and the values that each item is: arrays and maps."""
_BYTES: Final = frozenset({0xC5, 0xC6})


def payloads(envelope: bytes) -> Iterator[tuple[int, int]]:
    """Where the byte strings of `LARGE` or more bytes are, as (start, end) in rising order.

    Only those in the body's own map and not deeper, which is where payloads are. Anything that is no msgpack map has
    none: to the journal an envelope is bytes.
    """
    size = len(envelope)
    if size < LARGE + HEADER.size:
        return
    position = HEADER.size + envelope[4] + envelope[5] + envelope[6]
    if position >= size or not (envelope[position] & 0xF0 == 0x80 or envelope[position] in {0xDE, 0xDF}):  # noqa: PLR2004  maps
        return
    for _ in range(_TOKENS):
        if position >= size:
            return
        first = envelope[position]
        start, end = _value(envelope, position, first)
        if end > size:
            return
        if first in _BYTES and end - start >= LARGE:
            yield start, end
        position = end


def _value(envelope: bytes, position: int, first: int) -> tuple[int, int]:
    """Where the data of the value at `position` starts and ends; of an array or a map, where its first item does."""
    behind = position + 1
    if 0xA0 <= first <= 0xBF:  # noqa: PLR2004  text of up to 31 bytes
        return behind, behind + (first & 0x1F)
    if sized := _SIZED.get(first):
        width, between = sized
        start = behind + width + between
        return start, start + int.from_bytes(envelope[behind : behind + width])
    if nested := _NESTED.get(first):
        return behind, behind + nested[0]
    return behind, behind + _WIDTHS.get(first, 0)
