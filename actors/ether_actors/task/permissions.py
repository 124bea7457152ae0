"""The permissions of a sub-delegation: never more than those of the task that makes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ether_broker.errors import NotPermitted

__all__ = ["narrowed"]

_LISTS: Final = (list, tuple, set, frozenset)


def narrowed(permissions: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """What both have: the task's permissions, and of those that are wanted otherwise the lesser value.

    True is all there is and False nothing; of two numbers the smaller one counts, of two lists what stands in both. What the
    task does not name is permitted, so a wanted value of it counts.

    Raises:
        NotPermitted: two other values, such as texts, differ, so that nobody can say which of them permits less.
    """
    common = {name: _lesser(name, value, wanted[name]) for name, value in permissions.items() if name in wanted}
    return {**wanted, **permissions, **common}


def _lesser(name: str, value: Any, wanted: Any) -> Any:
    if value is True or wanted is False:
        return wanted
    if value is False or wanted is True or value == wanted:
        return value
    if isinstance(value, (int, float)) and isinstance(wanted, (int, float)):
        return min(value, wanted)
    if isinstance(value, _LISTS) and isinstance(wanted, _LISTS):
        return [item for item in wanted if item in value]
    msg = (
        f"The task's permissions have {name} {value!r:.80}, and nobody can say whether {wanted!r:.80} is less: leave it out, "
        "which passes on the task's own, or give False."
    )
    raise NotPermitted(msg)
