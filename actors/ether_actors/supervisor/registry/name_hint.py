"""The nearest known name to an unknown one, as a hint; its cost is bounded and told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ether_broker.errors import nearest
from ether_broker.transport.cost import HINT_SHIFT

__all__ = ["LOOKED_AT", "hint"]

LOOKED_AT: Final = 64
"""Nearest names that are looked at; those that the delegator may know of are suggested."""
_LETTERS: Final = 768
"""Letters of the names that one is compared with; they take some 0.1 ms."""
_NAME: Final = 8
"""Letters in whose time a name is taken up."""


def hint(asked: str, known: Iterable[str]) -> tuple[str, int]:
    """Find what is meant among the first names: 768 letters of them, each name for 8 more.

    Returns:
        The end of an error message, as of `nearest`, and the points that it took.
    """
    letters, names = 0, []
    for name in known:
        letters += _NAME + len(name)
        if letters > _LETTERS:
            break
        names.append(name)
    return nearest(asked, names), min(letters, _LETTERS) >> HINT_SHIFT
