"""The store of large bodies, each of which is kept once, however often it is sent.

A delegation that is redelivered, a context slice that is handed down to ten specialists, a result that is passed on: their
payloads are the same bytes in different envelopes. An envelope's body is a msgpack map whose payloads are byte
strings, so the walk below jumps from field to field without reading what is in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgpack

from ether_broker.wire.frame import HEADER

__all__ = ["LARGE", "payloads"]

LARGE: Final = 4096
"""Bytes from which on a payload is stored by its hash. Below it, the hash, two look-ups and two rows (20 µs) cost more than
writing the bytes again (3 µs), and a reference with its rows takes 120 bytes itself."""
_TOKENS: Final = 256
"""Values that the walk passes at most. What is behind them stays in the row, so that a hostile body costs no more."""

_HEADS: Final = {0xC5: 3, 0xC6: 5}
"""Bytes before the data of byte strings that may be large, by the first of them."""


def payloads(envelope: bytes) -> Iterator[tuple[int, int]]:
    """Where the byte strings of `LARGE` or more bytes are, as (start, end) in rising order.

    Only those in the body's own map and not deeper, which is where payloads are. Anything that is no msgpack map has
    none: to the journal an envelope is bytes.
    """
    size = len(envelope)
    if size < LARGE + HEADER.size:
        return
    begin = HEADER.size + envelope[4] + envelope[5] + envelope[6]
    unpacker = msgpack.Unpacker(read_size=size, max_buffer_size=size, strict_map_key=False)
    unpacker.feed(memoryview(envelope)[begin:])
    try:
        for _ in range(min(2 * unpacker.read_map_header(), _TOKENS)):
            start = begin + unpacker.tell()
            unpacker.skip()
            end = begin + unpacker.tell()
            head = _HEADS.get(envelope[start], 0)
            if head and end - start - head >= LARGE:
                yield start + head, end
    except (ValueError, msgpack.exceptions.UnpackException):
        return
