"""Numbers as callers give them."""

from __future__ import annotations

from typing import TypeGuard

__all__ = ["is_number"]


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a number: no bool, and not NaN."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value  # noqa: PLR0124  NaN
