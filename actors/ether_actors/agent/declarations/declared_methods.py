"""The checks of methods that decorators declare: that none is replaced, in its class or a subclass, without a word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ether_broker.errors import InvalidManifest

__all__ = ["EVENT_MARK", "check_is_new", "check_overridden", "is_marked"]

EVENT_MARK: Final = "__ether_event__"
"""The attribute of a method that handles events."""


def is_marked(method: object) -> bool:
    """Whether a decorator has declared a method of an agent: a capability, an event handler, or a schedule of one."""
    return any(key.startswith("__ether_") for key in getattr(method, "__dict__", ()))


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
    if is_body and before is not method and is_marked(before):
        raise InvalidManifest(
            f"{method.__qualname__} is declared twice, and Python keeps only the last: give each method its own name."
        )


def check_overridden(cls: type) -> None:
    """Check that what overrides a declared method of a base is declared too, or no method.

    Raises:
        InvalidManifest: one is not: its capability, subscription or schedule would be gone without a word.
    """
    found: dict[str, tuple[type, object]] = {}
    for base in cls.__mro__:
        for name, method in vars(base).items():
            by, override = found.setdefault(name, (base, method))
            if is_marked(method) and not (override is None or is_marked(override)):
                raise InvalidManifest(
                    f"{by.__qualname__}.{name} overrides what {base.__qualname__} declares by a decorator: repeat the "
                    f"decorator above it, or set {name} = None in {cls.__qualname__} if it is to have none."
                )
            if method is None or is_marked(method):
                found[name] = base, method
