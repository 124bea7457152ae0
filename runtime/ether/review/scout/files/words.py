"""Words: sets of them, and counting with them."""

from __future__ import annotations

__all__ = ["plural", "words"]


def words(text: str) -> frozenset[str]:
    """The words of a text as a set: fifty names stay readable, where a display would take fifty lines."""
    return frozenset(text.split())


def plural(count: int, noun: str) -> str:
    """`1 file`, `2 files`, `1,000 files`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
