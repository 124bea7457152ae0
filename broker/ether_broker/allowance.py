"""How much trouble a peer may make a second, so that one that makes more costs the others nothing. Sans-IO."""

from __future__ import annotations

from typing import Final

__all__ = ["CAPACITY", "RATE", "Allowance", "weigh"]

CAPACITY: Final = 4_096
"""Points that a peer may spend at once; what costs more by itself is refused unread."""
RATE: Final = 4_000.0
"""Points that come back each second."""
_DEBT: Final = 32_768
"""Points below zero down to which the rest of a frame is taken that was begun."""
_CONTAINERS: Final = bytes([*range(0x80, 0xA0), *range(0xDC, 0xE0)])
"""The bytes with which a map or a list of msgpack begins."""


class Allowance:
    """A bucket of points that runs full again by itself; one point is about 20 µs of the broker's time.

    What others pay for is charged: control envelopes, refusals, dead letters. Delegations and responses that count are free:
    mailboxes and credit bound them. Who has spent everything is not read until points have come back; its numbered frames
    are asked for again then, so a node that meant well loses nothing but time.

    Args:
        capacity: points that it begins with, and has at most.
        rate: points that come back each second.
    """

    __slots__ = ("_at", "_capacity", "_rate", "left")

    def __init__(self, capacity: float = CAPACITY, rate: float = RATE) -> None:
        self._capacity = capacity
        self._rate = rate
        self._at = 0.0
        self.left = float(capacity)
        """Points, as of the last look; below zero is a debt."""

    def spend(self, points: float) -> None:
        """Charge something that was done."""
        self.left -= points

    @property
    def is_bankrupt(self) -> bool:
        """Whether nothing more is done on credit, not even the rest of a frame."""
        return self.left < -_DEBT

    def has_left(self, now: float) -> bool:
        """Whether there is something to spend, with what has come back by `now` (seconds)."""
        self.left = min(self._capacity, self.left + max(0.0, now - self._at) * self._rate)
        self._at = now
        return self.left > 0


def weigh(body: bytes) -> int:
    """Points that it costs at most to read a body: by its bytes, and by how many maps and lists there may be in it.

    msgpack can say a map in one byte, and Python needs 64 bytes and half a microsecond for each; a MiB of them is a bomb.
    Bytes within text count too where they look the same, so this is an upper bound.
    """
    return 1 + (len(body) >> 10) + ((len(body) - len(body.translate(None, _CONTAINERS))) >> 2)
