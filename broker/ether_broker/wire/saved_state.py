"""The state of an agent as an answer of its brings it to the broker: in front of the answer's body, which it is no part of."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from ether_broker.encoding.bounded import MOST_STATE, Bounds, read
from ether_broker.envelope.payload import pack
from ether_broker.errors import InvalidEnvelope
from ether_broker.wire.frame import Flag, read_header, rehead

__all__ = ["BroughtState", "SavedState", "join_state", "split_state"]

_LENGTH: Final = 4
"""Bytes of the length that stands before the state."""
_STATE: Final = int(Flag.STATE)
_BOUNDS: Final = Bounds(2 * MOST_STATE, 16, 2)
_MOST: Final = 1 << 53
_INCARNATION: Final = 16


class BroughtState(NamedTuple):
    """A state that an answer brings."""

    base: int
    """The number of the state that it was made of; 0 of none."""
    origin: bytes
    """The incarnation of the agent that saved that one; empty of none."""
    incarnation: bytes
    """The incarnation of the agent, an id."""
    version: int
    """Of the agent's class."""
    data: bytes
    """Packed."""


class SavedState(NamedTuple):
    """A state as the bus has it."""

    number: int
    """Rises by one with each that the agent saves."""
    incarnation: bytes
    """The incarnation of the agent that saved it."""
    version: int
    """Of the agent's class that saved it."""
    data: bytes
    """Packed."""
    owner: str = ""
    """The key of the node that saved it, without keys the node; the broker's, which tells nobody."""

    @classmethod
    def of(cls, told: Any) -> SavedState | None:
        """What the bus tells: a map, or nil for none."""
        return None if told is None else cls(told["number"], told["instance"], told["version"], told["state"])

    def told(self) -> dict[str, Any]:
        """As the bus tells it."""
        return {"number": self.number, "instance": self.incarnation, "version": self.version, "state": self.data}


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
    if not isinstance(said, list) or [type(value) for value in said] != [int, bytes, bytes, int, bytes]:
        raise InvalidEnvelope("The state in front of a response is a list: base, origin, incarnation, version, data.")
    brought = BroughtState(*said)
    if (
        not 0 <= brought.base < _MOST or not 0 <= brought.version < _MOST
        or len(brought.origin) > _INCARNATION or len(brought.incarnation) != _INCARNATION
    ):  # fmt: skip
        raise InvalidEnvelope("The state in front of a response has a number or an id that cannot be.")
    answer = rehead(header, envelope[: header.body] + envelope[end:], flags=header.flags & ~_STATE)
    return brought, answer
