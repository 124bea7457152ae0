"""msgpack in ormsgpack's place: the same bytes for the same values, and the same values for the same bytes."""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from enum import Enum, IntEnum, StrEnum
from pathlib import PurePosixPath
from typing import Any, ClassVar
from uuid import UUID

import ormsgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether_broker.encoding import msgpack_fallback as fallback
from tests.broker.strategies import bodies

OPTIONS = ormsgpack.OPT_NON_STR_KEYS
OURS = fallback.OPT_NON_STR_KEYS


class Colour(Enum):
    RED = "red"
    PAIR = (1, 2)


class Level(IntEnum):
    HIGH = 3


class Word(StrEnum):
    ONE = "one"


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Real(float):
    pass


@dataclasses.dataclass
class Point:
    x: int
    y: dict[str, Any] = dataclasses.field(default_factory=dict)
    _hidden: int = 2
    kind: ClassVar[int] = 4
    later: int = dataclasses.field(default=5, init=False)


Pair = namedtuple("Pair", "a b")  # noqa: PYI024  a plain one
VALUES = [
    Point(1, {"k": Colour.RED}), Colour.PAIR, Level.HIGH, Word.ONE, Text("t"),
    Number(4), Real(1.5), Pair(1, 2), (1, (2,)), [Point(1)], bytearray(b"ab"), memoryview(b"ab"), 2**64 - 1, 2**64,
    -(2**63), -(2**63) - 1, float("nan"), "\ud800", 1j, {1, 2}, frozenset([1]), timedelta(1), object(), Point,
    datetime(2020, 1, 2, 3, 4, 5),  # noqa: DTZ001  one without a zone travels too
    datetime(1, 1, 2, 3, 4, 5, 600, tzinfo=UTC), date(7, 1, 2), time(1, 2, 3, 4),
    datetime(2020, 1, 2, tzinfo=timezone(timedelta(hours=-5, minutes=-30, seconds=-20))), time(1, tzinfo=UTC),
    UUID(int=5), PurePosixPath("/a"), {"a": {b"b": [None, True, 1.5]}},
]  # fmt: skip
KEYS = [
    1, 1.5, True, None, b"k", (1, (2,)), Colour.RED, Colour.PAIR, Level.HIGH, Word.ONE, Text("s"), Number(2), UUID(int=1),
    datetime(2020, 1, 1, tzinfo=UTC), date(2020, 1, 1), time(1), PurePosixPath("/a"), frozenset([1]), 2**64, Pair(1, 2),
]  # fmt: skip


def either(call: Callable[[], object]) -> object:
    """What it gives, or that it raises."""
    try:
        return call()
    except (TypeError, ValueError):
        return "refused"


def named(value: object) -> str:
    """Its `repr`, without an address: each worker of a test run has to give a test the same name."""
    return repr(value).partition(" at 0x")[0]


def as_text(value: object) -> object:
    return str(value) if isinstance(value, (complex, PurePosixPath)) else pytest.fail("only what is unknown comes here")


@pytest.mark.parametrize("value", [*VALUES, *({key: 1} for key in KEYS)], ids=named)
@pytest.mark.parametrize("has_options", [True, False])
def test_each_kind_of_value_becomes_the_same_bytes_or_is_refused_by_both(value: Any, *, has_options: bool):
    theirs = either(lambda: ormsgpack.packb(value, None, OPTIONS if has_options else None))
    ours = either(lambda: fallback.packb(value, None, OURS if has_options else None))

    assert ours == theirs


def test_what_is_unknown_is_asked_for():
    value = [1j, {"path": PurePosixPath("/a")}]

    assert fallback.packb(value, as_text, OURS) == ormsgpack.packb(value, as_text, OPTIONS)


@given(bodies)
def test_any_body_becomes_the_same_bytes_and_is_read_the_same(value: Any):
    packed = ormsgpack.packb(value, None, OPTIONS)

    assert fallback.packb(value, None, OURS) == packed
    assert fallback.unpackb(packed) == ormsgpack.unpackb(packed, option=ormsgpack.OPT_NON_STR_KEYS)


@pytest.mark.parametrize("depth", [254, 255, 256, 400])
def test_what_is_nested_too_deeply_is_refused_by_both(depth: int):
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {"k": value}

    assert either(lambda: fallback.packb(value, None, OURS)) == either(lambda: ormsgpack.packb(value, None, OPTIONS))


@given(st.binary(max_size=24))
def test_any_bytes_are_read_the_same_or_refused_by_both(data: bytes):
    theirs = either(lambda: ormsgpack.unpackb(data, option=ormsgpack.OPT_NON_STR_KEYS))
    ours = either(lambda: fallback.unpackb(data))

    assert repr(ours) == repr(theirs)  # NaN is not equal to itself


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\xc1", b"\xa2\xff\xfe", b"\xd4\x01a", b"\xd6\xff\0\0\0\0", b"\xc7\x00\x05", b"\x82\x01\x02\x01\x03",
        b"\x01\x02", b"\x81\x91\x01\x02", b"\x81\x80\x02", b"\x81\x92\x01\x91\x02\x02", b"\xdd\xff\xff\xff\xff",
        b"\x91" * 2_000,
    ],
)  # fmt: skip
def test_what_is_odd_is_read_the_same_or_refused_by_both(data: bytes):
    theirs = either(lambda: ormsgpack.unpackb(data, option=ormsgpack.OPT_NON_STR_KEYS))

    assert either(lambda: fallback.unpackb(data)) == theirs
