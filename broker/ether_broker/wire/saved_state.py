"""The state of an agent as an answer of its brings it to the broker: in front of the answer's body, which it is no part of."""

from __future__ import annotations

from typing import Final, NamedTuple

from ether_broker.encoding.bounded import Bounds, read
from ether_broker.envelope.payload import pack
from ether_broker.errors import InvalidEnvelope
from ether_broker.wire.frame import Flag, read_header, rehead

__all__ = ["BroughtState", "join_state", "split_state"]

_LENGTH: Final = 4
"""Bytes of the length that stands before the state."""
_STATE: Final = int(Flag.STATE)
_BOUNDS: Final = Bounds(1 << 17, 8, 2)
_MOST: Final = 1 << 63


class BroughtState(NamedTuple):
    """A state that an answer brings."""

    number: int
    """Rises with each that the agent saves."""
    version: int
    """Of the agent's class."""
    data: bytes
    """Packed."""


def join_state(envelope: bytes, state: BroughtState) -> bytes:
    """The envelope of an answer that brings a state."""
    header = read_header(envelope)
    packed = pack(list(state))
    body = b"".join((len(packed).to_bytes(_LENGTH), packed, envelope[header.body :]))
    return rehead(header, envelope[: header.body] + body, flags=header.flags | _STATE)


def split_state(envelope: bytes) -> tuple[BroughtState, bytes]:
    """The state that an answer brings, and the answer without it.

    Raises:
        InvalidEnvelope: it brings none, or what it brings is no state.
    """
    header = read_header(envelope)
    start = header.body + _LENGTH
    end = start + int.from_bytes(envelope[header.body : start])
    if start > len(envelope) or end > len(envelope):
        raise InvalidEnvelope(f"A response of {len(envelope)} bytes announces a state that ends at byte {end}.")
    said = read(envelope[start:end], _BOUNDS)
    if (
        not isinstance(said, list) or [type(value) for value in said] != [int, int, bytes]
        or not 0 < said[0] < _MOST or not 0 <= said[1] < _MOST
    ):  # fmt: skip
        raise InvalidEnvelope("The state in front of a response is a list of its number, its version and its bytes.")
    answer = rehead(header, envelope[: header.body] + envelope[end:], flags=header.flags & ~_STATE)
    return BroughtState(*said), answer
