"""Parameters that do not fit their capability: which are missing, and which were given and are wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

if TYPE_CHECKING:
    from pydantic import ValidationError

__all__ = ["ParameterError"]

_TOLD: Final = 64
"""Places that are told; a list may have 100,000 wrong items, of which nobody could be told at once."""
_LONGEST: Final = 200
"""Characters that are told of a name that is not known."""
_UNKNOWN: Final = "Extra inputs are not permitted"
"""pydantic's words."""


class ParameterError(Exception):
    """The error that parameters do not fit their capability's schema.

    Attributes:
        missing: dotted paths of what is required and was not given.
        unexpected: dotted paths of what was given and does not fit; the first 64 of both are told.
    """

    def __init__(self, message: str, *, missing: tuple[str, ...] = (), unexpected: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.missing = missing
        self.unexpected = unexpected

    @classmethod
    def of(
        cls, capability: str, params: Any, error: ValidationError | None, unknown: Iterable[str] = (), fix: str = ""
    ) -> Self:  # fmt: skip
        """What pydantic found, by paths of what was given, and what else is wrong.

        Args:
            capability: its name.
            params: what was given.
            error: what pydantic found.
            unknown: names of what was given, and which the capability does not have.
            fix: what would be right.
        """
        problems = [] if error is None else error.errors(include_url=False)
        places = list(_places([(problem["loc"], problem) for problem in problems], params))
        places += [_Place((name[:_LONGEST],), _UNKNOWN) for name in unknown]
        message = f"{capability} does not take these params: {_text(places)}{fix}"
        missing = dict.fromkeys(place.name for place in places[:_TOLD] if place.is_missing)
        unexpected = dict.fromkeys(place.name for place in places[:_TOLD] if not place.is_missing)
        return cls(message, missing=tuple(missing), unexpected=tuple(unexpected))

    @property
    def fields(self) -> dict[str, tuple[str, ...]]:
        """The same by the names that a response has for them."""
        return {"required_fields": self.missing, "unexpected_fields": self.unexpected}


class _Place(NamedTuple):
    path: tuple[Any, ...]
    words: str
    is_missing: bool = False

    @property
    def name(self) -> str:
        return ".".join(map(str, self.path)) or "params"


_Located = tuple[tuple[Any, ...], Any]
"""Where a problem is, as pydantic says it from some value on, and the problem."""


def _places(located: Iterable[_Located], value: Any, path: tuple[Any, ...] = ()) -> Iterator[_Place]:
    """Where in what was given the problems of a value are.

    pydantic's locations name more than was given: each alternative of a union, and the key of a dict. That a value fits none of
    several alternatives is one problem, of the value itself.
    """
    inside: dict[Any, list[_Located]] = {}
    alternatives: dict[Any, list[_Located]] = {}
    for location, problem in located:
        if not location:
            yield _Place(path, _words(problem, path))
        elif _has(value, location[0]):
            inside.setdefault(location[0], []).append((location[1:], problem))
        elif problem["type"] == "missing" and len(location) == 1:
            yield _Place((*path, *location), _words(problem, path), is_missing=True)
        else:
            alternatives.setdefault(location[0], []).append((location[1:], problem))
    for part, problems in inside.items():
        yield from _places(problems, value[part], (*path, part))
    if len(alternatives) == 1:  # the one that a tag in the value says, or the key of a dict
        ((_, problems),) = alternatives.items()
        yield from _places(problems, value, path)
    elif alternatives:
        tried = " or ".join(f"{name} ({_text(list(_places(group, value)))})" for name, group in alternatives.items())
        yield _Place(path, f"Input should be {tried}")


def _text(places: list[_Place]) -> str:
    told = "; ".join(f"{place.name}: {place.words}" if place.path else place.words for place in places[:_TOLD])
    return f"{told}; and {len(places) - _TOLD:,} more" if places[_TOLD:] else told


def _has(value: Any, part: Any) -> bool:
    if isinstance(value, Mapping):
        return part in value
    return isinstance(value, list) and isinstance(part, int) and part < len(value)


def _words(problem: Any, path: tuple[Any, ...]) -> str:
    if problem["type"] in {"model_type", "dict_type"} and not path:
        return f"a dict of the parameters by their names is wanted, and this is a {type(problem['input']).__name__}"
    return f"its key: {problem['msg']}" if problem["loc"][-1:] == ("[key]",) else str(problem["msg"])
