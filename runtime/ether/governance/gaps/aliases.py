"""Aliases: names of capabilities that are those of others, misspelt."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

__all__ = ["misspelt"]

_EDITS: Final = 2
_LETTERS_AN_EDIT: Final = 4
"""A name has so many letters at least for each edit: two of `a.b` may be another word."""


def misspelt(name: str, known: Iterable[str]) -> str | None:
    """The known name that this one is at most two edits away from, the nearest; None if there is none.

    An edit adds, leaves out or changes a letter, or swaps two neighbours.
    """
    edits = min(_EDITS, len(name) // _LETTERS_AN_EDIT)
    near = ((_distance(name, one, edits), one) for one in known if one != name and abs(len(one) - len(name)) <= edits)
    distance, nearest = min(near, default=(edits + 1, ""))
    return nearest if distance <= edits else None


def _distance(one: str, other: str, most: int) -> int:
    """The edits between two names; `most` + 1 if there are more."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        earlier, before, row = before, row, [at]
        for place, also in enumerate(other, 1):
            cost = min(before[place] + 1, row[-1] + 1, before[place - 1] + (letter != also))
            if at > 1 and place > 1 and letter == other[place - 2] and also == one[at - 2]:
                cost = min(cost, earlier[place - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
    return row[-1]
