"""The decoder of untrusted msgpack: bounded in bytes, in values and in depth before memory is taken for any of it."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, NoReturn

import msgpack

from ether_broker.encoding.frozen import MAX_DEPTH
from ether_broker.errors import InvalidEnvelope

__all__ = [
    "CONTROL",
    "EVENT_CONTAINERS",
    "MANIFEST",
    "MOST_CONTAINERS",
    "MOST_STATE",
    "OURS",
    "QUESTION",
    "STATE",
    "Bounds",
    "check_containers",
    "check_shape",
    "count_containers",
    "possible_containers",
    "read",
    "read_map",
]


class Bounds(NamedTuple):
    """The bounds of one body."""

    size: int
    """Bytes."""
    values: int
    """Values in all; a map or a list counts as two more."""
    depth: int
    """Maps and lists within each other."""


CONTROL: Final = Bounds(384 << 10, 1 << 14, 8)
"""A control envelope: a RESUME says four values for each of 1,000 delegations, a HEARTBEAT nine for each of 500 agents; a name
has up to 200 bytes."""
MANIFEST: Final = Bounds(256 << 10, 1 << 16, 64)
"""A REGISTER: the schemas of an agent's capabilities."""
MOST_STATE: Final = 64 << 10
"""Bytes of the packed state of one agent."""
STATE: Final = Bounds(2 * MOST_STATE, 32, 4)
"""A STATE: what is saved of an agent, whose data is bytes."""
QUESTION: Final = Bounds(64 << 10, 1 << 12, 32)
"""A delegation to the bus itself, and its params."""
OURS: Final = Bounds(1 << 20, 1 << 18, MAX_DEPTH)
"""What one agent sends another, apart from its params and data; `payload.pack` makes nothing deeper."""
MOST_CONTAINERS: Final = 1 << 16
"""Maps and lists of any body: a MiB of empty ones would take 68 MiB and hold up its whole process for 0.1 s."""
MOST_EVENT: Final = QUESTION.size - (4 << 10)
"""Bytes of the packed data of an event, which is published by a question."""
EVENT_CONTAINERS: Final = 1 << 12
"""Maps and lists of the data of an event: each of its subscribers makes them."""
_CONTAINER_BYTES: Final = bytes([*range(0x80, 0xA0), *range(0xDC, 0xE0)])
"""The bytes with which a map or a list of msgpack begins."""
_CONTAINER: Final = 2
_CONTAINERS: Final = frozenset({dict, list})


def read(body: bytes, bounds: Bounds) -> Any:
    """Read msgpack within bounds; maps have text or bytes as keys.

    A bomb costs no more than to look through its bytes once (4 ms for a MiB), and to make what the bounds allow.

    Raises:
        InvalidEnvelope: the body is over a bound, which is named, or does not begin with a msgpack value.
    """
    if len(body) > bounds.size:
        raise InvalidEnvelope(f"The body has {len(body):,} bytes, and {bounds.size:,} is the most here.")
    tally = _Tally(bounds.values)
    try:
        _unpacker(body, bounds, tally).skip()  # makes nothing: what a list says of its length need not be true
        value = _unpacker(body, bounds, tally).unpack()
    except msgpack.exceptions.StackError:
        raise InvalidEnvelope(_too_deep(bounds.depth)) from None
    except (ValueError, msgpack.exceptions.UnpackException) as error:
        why = str(error) or type(error).__name__
        raise InvalidEnvelope(f"The body is no msgpack that is read here: {why}") from error
    if tally.containers > bounds.depth:
        check_shape(value, bounds)
    return value


def read_map(body: bytes, bounds: Bounds) -> dict[str, Any]:
    """Read a map within bounds; an empty body is an empty one.

    Raises:
        InvalidEnvelope: as of `read`, or it is no map.
    """
    value = read(body, bounds) if body else {}
    if not isinstance(value, dict):
        raise InvalidEnvelope(f"The body is a map, and this one is a {type(value).__name__}.")
    return value


def check_containers(body: bytes, most: int = MOST_CONTAINERS, what: str = "body") -> None:
    """Check how many maps and lists a body has, before any is made; one of no more bytes has no more, also if it is no msgpack.

    Raises:
        InvalidEnvelope: it has more than `most`.
    """
    if possible_containers(body) > most and count_containers(body, most) > most:
        raise InvalidEnvelope(
            f"The {what} has more than {most:,} maps and lists: say it in several smaller ones, as columns, or in an artifact."
        )


def possible_containers(body: bytes) -> int:
    """How many maps and lists a body has at most: the bytes with which one may begin, of which text and numbers have some too.

    Of Chinese text it is every third byte.
    """
    return len(body) - len(body.translate(None, _CONTAINER_BYTES))


def count_containers(body: bytes, most: int) -> int:
    """How many maps and lists a body has; `most` + 1 if it has more, or is no msgpack and may have more.

    No more than `most` of them are made, and none is kept. It takes a fifth of the time of `read`.
    """
    left = most

    def count(_container: object) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise _TooManyError

    try:
        _bare_unpacker(body).skip()  # makes nothing: what a list says of its length need not be true
        _bare_unpacker(body, list_hook=count, object_hook=count).unpack()
    except _TooManyError:
        return most + 1
    except (ValueError, TypeError, msgpack.exceptions.UnpackException):
        return min(possible_containers(body), most + 1)
    return most - left


class _TooManyError(Exception):
    """A body has more maps and lists than are counted."""


def _bare_unpacker(body: bytes, **hooks: Any) -> Any:
    size = len(body) or 1
    unpacker = msgpack.Unpacker(read_size=size, max_buffer_size=size, strict_map_key=False, raw=True, **hooks)
    unpacker.feed(body)
    return unpacker


def check_shape(value: Any, bounds: Bounds) -> None:
    """Check what was read already, before anything goes through it that takes longer, or calls itself for each level.

    Raises:
        InvalidEnvelope: it has too many values, or too many maps and lists within each other.
    """
    level, left = [value] if type(value) in _CONTAINERS else [], bounds.values
    for _ in range(bounds.depth):
        if not level:
            return
        left -= sum(map(len, level)) + _CONTAINER * len(level)
        if left < 0:
            raise InvalidEnvelope(_too_many(bounds.values))
        items = (container.values() if type(container) is dict else container for container in level)
        deeper = [values for values in items if not _CONTAINERS.isdisjoint(map(type, values))]
        level = [item for values in deeper for item in values if type(item) in _CONTAINERS]
    if level:
        raise InvalidEnvelope(_too_deep(bounds.depth))


def _unpacker(body: bytes, bounds: Bounds, tally: _Tally) -> Any:
    unpacker = msgpack.Unpacker(
        read_size=len(body) or 1,  # else a buffer of 1 MiB is taken for each
        max_buffer_size=bounds.size, max_array_len=bounds.values, max_map_len=bounds.values, max_ext_len=0,
        max_str_len=bounds.size, max_bin_len=bounds.size, ext_hook=_refuse, list_hook=tally, object_hook=tally,
    )  # fmt: skip
    unpacker.feed(body)
    return unpacker


class _Tally:
    """Is called with each map and list that was made."""

    __slots__ = ("_most", "containers", "values")

    def __init__(self, most: int) -> None:
        self._most = most
        self.containers = 0
        self.values = 0

    def __call__(self, container: Any) -> Any:
        self.containers += 1
        self.values += _CONTAINER + len(container)
        if self.values > self._most:
            raise InvalidEnvelope(_too_many(self._most))
        return container


def _refuse(number: int, _data: bytes) -> NoReturn:
    raise InvalidEnvelope(f"The body has an extension of msgpack ({number}), and none is known here.")


def _too_many(most: int) -> str:
    return (
        f"The body has more than {most:,} values, each map and list for {_CONTAINER}: say it in several smaller ones."
    )


def _too_deep(most: int) -> str:
    return f"The body has more than {most} maps and lists within each other."
