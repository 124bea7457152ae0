"""The difference of two documents, and the merge that puts it back.

A residue is a dict of what is to be added or replaced, nested as the document is, and under `drop` a list of
paths of what is to be taken away:

    plain    {"name": "scout", "budget": {"max_cost": 0.5}, "depth": 2}
    full     {"name": "scout", "budget": {"max_cost": 0.5, "currency": "EUR"}}
    residue  {"budget": {"currency": "EUR"}, "drop": [["depth"]]}

A dict is merged into a dict and anything else replaces what was there, so that lists are told whole. Other
than in JSON Merge Patch (RFC 7386), null is a value like others: in agents' documents it may mean something.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ether_broker.errors import InvalidEnvelope

__all__ = ["DROP", "difference", "patch", "pieces", "same"]

DROP: Final = "drop"
"""The key of the paths to be taken away; no field of an envelope or a view has this name."""


def same(one: Any, other: Any) -> bool:
    """Whether two plain values read the same in JSON: 1, 1.0 and True are equal in Python and differ here."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other) or (one != one and other != other)  # noqa: PLR0124  NaN alone differs from itself


def difference(plain: dict[str, Any], full: dict[str, Any]) -> dict[str, Any]:
    """The residue that makes `full` of `plain`; empty when they are the same."""
    dropped: list[list[str]] = []
    residue = _added(plain, full, [], dropped)
    if dropped:
        residue[DROP] = dropped
    return residue


def _added(plain: dict[str, Any], full: dict[str, Any], path: list[str], dropped: list[list[str]]) -> dict[str, Any]:
    added: dict[str, Any] = {}
    for key, value in full.items():
        before = plain.get(key, _MISSING)
        if type(before) is dict and type(value) is dict:
            inner = _added(before, value, [*path, key], dropped)
            if inner:
                added[key] = inner
        elif not same(before, value):
            added[key] = value
    dropped.extend([*path, key] for key in plain if key not in full)
    return added


_MISSING: Final = object()


def patch(plain: dict[str, Any], residue: dict[str, Any]) -> dict[str, Any]:
    """Put a residue back: `patch(plain, difference(plain, full))` is `full`. Neither argument is changed.

    Raises:
        InvalidEnvelope: `drop` is not a list of paths.
    """
    full = _merged(plain, {key: value for key, value in residue.items() if key != DROP})
    for path in _paths(residue.get(DROP, [])):
        holder: Any = full
        for key in path[:-1]:
            holder = holder.get(key) if type(holder) is dict else None
        if type(holder) is dict:
            holder.pop(path[-1], None)
    return full


def _merged(plain: dict[str, Any], added: dict[str, Any]) -> dict[str, Any]:
    # Every dict is copied, so that `patch` may drop from the result.
    full = {key: _merged(value, {}) if type(value) is dict else value for key, value in plain.items()}
    for key, value in added.items():
        if type(value) is dict:
            before = full.get(key)
            full[key] = _merged(before if type(before) is dict else {}, value)
        else:
            full[key] = value
    return full


def _paths(dropped: Any) -> list[list[Any]]:
    if type(dropped) is list and all(type(path) is list and path for path in dropped):
        return dropped
    raise InvalidEnvelope(f"{DROP}: expected a list of paths such as [['params']], and found {dropped!r}.")


def pieces(residue: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The same residue as several, each of one value; patching with all of them has the same result."""
    for key, value in residue.items():
        if key == DROP and type(value) is list:
            yield from ({DROP: [path]} for path in value)
        elif type(value) is dict and value:
            yield from ({key: piece} for piece in _leaves(value))
        else:
            yield {key: value}


def _leaves(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for key, inner in value.items():
        if type(inner) is dict and inner:
            yield from ({key: leaf} for leaf in _leaves(inner))
        else:
            yield {key: inner}
