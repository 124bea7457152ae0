"""The check of a number in a specification."""

from __future__ import annotations

from collections.abc import Callable

from ether_broker.errors import InvalidSpec
from ether_broker.number import is_number

__all__ = ["check_number", "is_count"]


def is_count(value: object) -> bool:
    """Whether a value is a whole number, 1 or more."""
    return type(value) is int and value >= 1


def check_number(where: str, name: str, value: object, wanted: str, fits: Callable[[float], bool]) -> None:
    """Check a number of a specification.

    Raises:
        InvalidSpec: it does not fit; the message says where and what would.
    """
    if is_number(value) and fits(value):
        return
    raise InvalidSpec(f"{where}: {name} is {value!r}; give {wanted}.")
