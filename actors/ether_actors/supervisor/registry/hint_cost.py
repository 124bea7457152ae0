"""The cost of a hint at the nearest known name, which is bounded and charged to the delegator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ether_broker.name_hint import nearest
from ether_broker.transport.sessions.cost import HINT_SHIFT

__all__ = ["LOOKED_AT", "hint"]

LOOKED_AT: Final = 64
"""Nearest names that are looked at; those that the delegator may know of are suggested."""
_CHARACTERS: Final = 768
"""Characters of the names that one is compared with; they take some 0.1 ms."""
_NAME: Final = 8
"""The fixed cost of a name, in characters."""


def hint(asked: str, known: Iterable[str]) -> tuple[str, int]:
    """Find the nearest among the first names: up to 768 characters, where each name counts for 8 more than it has.

    Returns:
        The end of an error message, as of `nearest`, and the points that it took.
    """
    characters, names = 0, []
    for name in known:
        characters += _NAME + len(name)
        if characters > _CHARACTERS:
            break
        names.append(name)
    return nearest(asked, names), min(characters, _CHARACTERS) >> HINT_SHIFT
