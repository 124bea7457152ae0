"""The processes that asked, as a checkpoint has them: each once, and of each delegation the place of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ether_broker.transport.sessions.session import Life

__all__ = ["pack_lives", "read_lives"]

_LIFE: Final = (str, bytes)


def pack_lives(lives: Iterable[Life | None]) -> list[list[Any]]:
    """What `read_lives` reads: the lives, and of each item its place among them, from 1 on; 0 for None."""
    places: dict[Life | None, int] = {None: 0}
    of_each = [places.setdefault(life, len(places)) for life in lives]
    return [[*places][1:], of_each]


def read_lives(packed: list[list[Any]] | None, count: int) -> list[Life | None]:
    """The life of each of so many items; all None where an older Ether packed none.

    Raises:
        IndexError, TypeError, ValueError: it is not what `pack_lives` made of so many.
    """
    if packed is None:
        return [None] * count
    table, places = packed
    if len(places) != count or any(tuple(map(type, life)) != _LIFE for life in table) or min(places, default=0) < 0:
        msg = f"lives: {packed!r:.80}"
        raise TypeError(msg)
    lives: list[Life | None] = [None, *((node, digest) for node, digest in table)]
    return [lives[place] for place in places]
