"""Numbers as callers give them."""

from __future__ import annotations

from typing import Final, TypeGuard

__all__ = ["is_number"]

_MOST: Final = 1 << 1023


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a number: no bool, not NaN, and no whole number that is too large for a float."""
    if isinstance(value, int):
        return not isinstance(value, bool) and -_MOST < value < _MOST
    return isinstance(value, float) and value == value  # noqa: PLR0124  NaN
