"""The priority of a delegation: its word, its bits among a header's flags, its class in a queue and its share of the turns."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

__all__ = ["BITS", "HIGH", "LOW", "NORMAL", "NOT_NORMAL", "WEIGHTS", "WORDS", "Priority", "priority_of"]

Priority: TypeAlias = Literal["low", "normal", "high"]

BITS: Final[dict[Priority, int]] = {"high": 1 << 9, "normal": 0, "low": 1 << 10}
"""{word: bits among the flags}, the highest first."""
NOT_NORMAL: Final = BITS["high"] | BITS["low"]
WORDS: Final = tuple(BITS)
"""Of each class."""
HIGH, NORMAL, LOW = 0, 1, 2
"""The classes; a lower one goes first."""
WEIGHTS: Final = (16, 4, 1)
"""How many of each class are taken of 21, while items of all three wait."""
_CLASSES: Final = (NORMAL, HIGH, LOW, NORMAL)


def priority_of(flags: int) -> int:
    """The class of a delegation in its agent's queues, by its flags; with both bits it is as with neither."""
    return _CLASSES[flags >> 9 & 3]
