"""The rule of what counts as an amount, where a handler gives one."""

from __future__ import annotations

from typing import Final

__all__ = ["is_amount"]

_MOST_WHOLE: Final = 2.0**53
"""Up to which floats tell whole numbers apart."""


def is_amount(value: object, most: float = _MOST_WHOLE) -> bool:
    """Whether a value is an int or a float from 0 to `most`.

    A text, None and NaN are none, nor is a Decimal, which cannot be added to a float.
    """
    return isinstance(value, int | float) and 0 <= value <= most
