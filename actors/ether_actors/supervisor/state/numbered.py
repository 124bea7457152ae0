"""A map under rising numbers: items are taken out in any order, and the next after a number is found without a walk."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeVar

__all__ = ["SPARE", "following"]

SPARE: Final = 64
"""Numbers that may stand for nothing any more, beside an eighth of those that do: beyond that the list is rebuilt."""
_T = TypeVar("_T")


def following(items: Mapping[int, _T], numbers: Sequence[int], after: int) -> Iterator[tuple[int, _T | None]]:
    """What was entered above a number, in order; O(log n), and O(1) for each.

    Args:
        items: what is there, by number.
        numbers: that were given, rising; None comes for those of what was taken out.
        after: any number.
    """
    for index in range(bisect_right(numbers, after), len(numbers)):
        yield numbers[index], items.get(numbers[index])
