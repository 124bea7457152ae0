"""The check of a method that a decorator declares: that it replaces no other one of its class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ether_broker.errors import InvalidManifest

__all__ = ["check_is_new"]


def check_is_new(method: Any, namespace: Mapping[str, Any]) -> None:
    """Check that a declared method takes the name of no other one in the body of its class.

    Args:
        method: as a decorator gets it.
        namespace: of where the decorator stands, with what has been defined so far.

    Raises:
        InvalidManifest: it does: Python would keep only this one, and the first be lost without a word.
    """
    before = namespace.get(getattr(method, "__name__", ""))
    is_body = "__qualname__" in namespace
    if is_body and before is not method and any(key.startswith("__ether_") for key in getattr(before, "__dict__", ())):
        raise InvalidManifest(
            f"{method.__qualname__} is declared twice, and Python keeps only the last: give each method its own name."
        )
