"""Containers that refuse to change: a dict and a list that compare, print and serialise as the plain ones do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NoReturn

from ether_broker.errors import InvalidEnvelope

__all__ = ["MAX_DEPTH", "FrozenDict", "FrozenList", "freeze", "thaw"]

MAX_DEPTH: Final = 255
"""Containers within each other of what travels."""


def _refuse(self: object, *_args: object, **_kwargs: object) -> NoReturn:
    raise TypeError(f"{type(self).__name__} does not change: make a copy with ether.thaw(value) and change that.")


class FrozenDict(dict[str, Any]):
    """A dict that refuses every change; made by `freeze`, which freezes what is inside too."""

    __slots__ = ()

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        """By content, so that equal values have equal hashes."""
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copying and pickling make another frozen one."""
        return FrozenDict, (dict(self),)


class FrozenList(list[Any]):
    """A list that refuses every change; made by `freeze`, which freezes what is inside too."""

    __slots__ = ()

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        """By content, so that equal values have equal hashes."""
        return hash(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copying and pickling make another frozen one."""
        return FrozenList, (list(self),)


_SCALARS = frozenset({str, int, float, bool, type(None), bytes})
"""Types whose values never change; looked up first, as most of what is frozen is of them."""


def freeze(value: Any, depth: int = MAX_DEPTH) -> Any:
    """Return the value with every container in it, at any depth, replaced by one that does not change.

    A mapping becomes a `FrozenDict`, a list or tuple a `FrozenList`, a set a frozenset, a bytearray bytes. Anything
    else is returned as it is: an object of a class of the caller's own is not frozen.

    Raises:
        InvalidEnvelope: there are more than `depth` containers within each other.
    """
    kind = type(value)
    if kind in _SCALARS:
        return value
    if not depth:
        raise InvalidEnvelope(f"There are more than {MAX_DEPTH} maps and lists within each other.")
    if kind is dict or isinstance(value, Mapping):
        return FrozenDict({k: v if type(v) in _SCALARS else freeze(v, depth - 1) for k, v in value.items()})
    if isinstance(value, (list, tuple)):
        return FrozenList([v if type(v) in _SCALARS else freeze(v, depth - 1) for v in value])
    if isinstance(value, (set, frozenset)):
        return frozenset(freeze(v) for v in value)
    return bytes(value) if isinstance(value, bytearray) else value


def thaw(value: Any) -> Any:
    """Return a copy with every frozen container in it, at any depth, replaced by a plain one."""
    if isinstance(value, dict):
        return {k: thaw(v) for k, v in value.items()}
    if isinstance(value, list):
        return [thaw(v) for v in value]
    return value
