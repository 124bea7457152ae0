"""The choice among known names, and the nearest one to an unknown name as the end of an error message."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from ether_broker.errors import InvalidSpec, UsageError

__all__ = ["choice", "hint_fields", "is_typo", "misses", "nearest"]

_SHOWN: Final = 8
_MOST_NAMES: Final = 1_000
_LONGEST: Final = 200
_NEAR: Final = 0.6
_T = TypeVar("_T")


def choice(name: str, known: Mapping[str, _T], what: str) -> _T:
    """What goes by this name.

    Raises:
        UsageError: nothing does; the message has the nearest name.
    """
    if name not in known:
        raise UsageError(f"There is no {what} {name!r}.{nearest(name, known)}")
    return known[name]


def hint_fields(cls: type[_T]) -> type[_T]:
    """Have a dataclass raise InvalidSpec with the nearest field for a keyword that it does not have; a decorator."""
    init: Callable[..., None] = vars(cls)["__init__"]
    fields: Mapping[str, object] = vars(cls)["__dataclass_fields__"]

    @functools.wraps(init)
    def checked(self: _T, *args: Any, **kwargs: Any) -> None:
        try:
            init(self, *args, **kwargs)
        except TypeError:
            unknown = next((name for name in kwargs if name not in fields), None)
            if unknown is None:
                raise
            raise InvalidSpec(f"{cls.__name__} has no field {unknown!r}.{nearest(unknown, fields)}") from None

    setattr(cls, "__init__", checked)  # noqa: B010  a checker is to see the fields
    return cls


def is_typo(name: str, meant: str) -> bool:
    """Whether a name differs from the one that is meant by one letter, or by two that have changed places."""
    pairs = enumerate(zip(name, meant, strict=False))
    same = next((at for at, (one, other) in pairs if one != other), min(len(name), len(meant)))
    typed, rest = name[same:], meant[same:]
    is_swapped = typed[:2] == rest[1::-1] and typed[2:] == rest[2:]
    return typed[1:] in {rest, rest[1:]} or typed == rest[1:] or is_swapped


def misses(owner: object, name: str, elsewhere: Mapping[str, str]) -> AttributeError:
    """The error for an attribute that an object does not have, with what to write instead where that is known."""
    instead = f": {elsewhere[name]}" if name in elsewhere else ""
    return AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}{instead}", name=name, obj=owner)


def nearest(name: str, known: Iterable[str], shown: int = _SHOWN) -> str:
    """Say which known name is meant, for the end of an error message.

    It is the one with which it has most in common: twice the letters that both have in the same order, by those that they
    have together, and 0.6 at least; or else the only one that begins so. A letter of a known name takes some 0.15 µs, so it
    matters not what the names are. The dashes before an option do not count.

    Args:
        name: what was asked for.
        known: what there is. The first 1,000 are looked at, and of each name, as of what was asked for, 200 letters.
        shown: known names that are listed at most.

    Returns:
        `" Did you mean 'x'?"`, or the known names when none is near, or "" when there are none.
    """
    places: dict[str, int] = {}
    name = name.lstrip("-")
    for place, letter in enumerate(name[:_LONGEST]):
        places[letter] = places.get(letter, 0) | 1 << place
    names = sorted(set(itertools.islice(known, _MOST_NAMES)))
    likeness = [_likeness(min(len(name), _LONGEST), places, other.lstrip("-")[:_LONGEST]) for other in names]
    best = max(likeness, default=0.0)
    if best >= _NEAR:
        return f" Did you mean {names[likeness.index(best)]!r}?"
    begun = [other for other in names if name and other.lstrip("-").startswith(name)]
    if len(begun) == 1:
        return f" Did you mean {begun[0]!r}?"
    if not names:
        return ""
    return f" Known: {', '.join(names[:shown])}{', …' if len(names) > shown else ''}."


def _likeness(size: int, places: dict[str, int], other: str) -> float:
    """How much a name of that size, whose letters' places are given as bits, has in common with another.

    The longest common subsequence is found for all places at once (Hyyrö, 2004), where difflib needs the square of the
    size, or its cube.
    """
    every = rest = (1 << size) - 1
    places_of = places.get
    for letter in other:
        match = rest & places_of(letter, 0)
        if match:
            rest = ((rest + match) | (rest - match)) & every
    return 2 * (size - rest.bit_count()) / (size + len(other) or 1)
