"""Sets of words, written as words."""

from __future__ import annotations

__all__ = ["words"]


def words(text: str) -> frozenset[str]:
    """The words of a text as a set: fifty names stay readable, where a display would take fifty lines."""
    return frozenset(text.split())
