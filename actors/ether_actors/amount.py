"""What counts as an amount, where a handler gives one."""

from __future__ import annotations

__all__ = ["is_amount"]


def is_amount(value: object, most: float = float("inf")) -> bool:
    """Whether a value is a number from 0 to `most`; a text, None and NaN are none."""
    try:
        return bool(0 <= value <= most)  # type: ignore[operator]  # what cannot be compared is caught
    except TypeError:
        return False
