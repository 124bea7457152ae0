"""Bodies of strangers: within the bounds they are read as any other, over them refused before they cost anything."""

from __future__ import annotations

import contextlib
import struct
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether_broker.encoding.bounded import CONTROL, MANIFEST, MOST_CONTAINERS, QUESTION, Bounds, check_shape, read
from ether_broker.envelope.payload import Payload, pack, unpack
from ether_broker.errors import InvalidEnvelope
from tests.broker.strategies import json_values

ROOMY = Bounds(1 << 20, 1 << 20, 1_000)
MIB = 1 << 20
BOMBS = {
    "a million lists": b"\xdd" + struct.pack(">I", MIB - 5) + b"\x90" * (MIB - 5),
    "a million maps": b"\xdd" + struct.pack(">I", MIB - 5) + b"\x80" * (MIB - 5),
    "a million levels": b"\x91" * MIB,
    "lists that say they are long": b"\xdd\x00\x00\xff\xff" * (MIB // 5),
    "a million numbers": b"\x9f" + (b"\xdc\xff\xff" + b"\x01" * 65_535) * 15,
    "lists of fifteen": b"\xdc\xff\xff" + (b"\x9f" + b"\x01" * 15) * 65_534 + b"\x90",
}


@given(json_values)
def test_within_the_bounds_it_is_read_as_any_other(value: Any):
    assert read(pack(value), ROOMY) == value == unpack(pack(value))


@pytest.mark.parametrize("bounds", [CONTROL, MANIFEST, QUESTION])
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_refused_for_the_bound_that_it_is_over(bomb: str, bounds: Bounds):
    body = BOMBS[bomb]
    tracemalloc.start()
    try:
        with pytest.raises(InvalidEnvelope, match=r"bytes, and|max_array_len|values, each|within each other"):
            read(body, bounds)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most < 16 * MIB


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_costs_less_than_20_ms(bomb: str):
    def cost() -> float:
        before = time.thread_time()
        with pytest.raises(InvalidEnvelope):
            read(BOMBS[bomb], CONTROL)
        return time.thread_time() - before

    assert min(cost() for _ in range(5)) < 0.02


@pytest.mark.parametrize("count", [0, 1, 5])
def test_a_map_or_a_list_counts_for_two_values(count: int):
    body = pack([[]] * count)

    assert read(body, Bounds(100, 2 + 3 * count, 9)) == [[]] * count
    with pytest.raises(InvalidEnvelope, match="values, each map and list for 2"):
        read(body, Bounds(100, 1 + 3 * count, 9)) if count else read(pack([1]), Bounds(100, 2, 9))


@pytest.mark.parametrize("make", [lambda inner: [1, inner], lambda inner: {"a": 1, "b": inner}])
@pytest.mark.parametrize("read_by", [read, lambda body, bounds: check_shape(unpack(body), bounds)])
def test_what_is_just_deep_enough_is_read_and_one_deeper_is_not(make: Any, read_by: Any):
    value: Any = [[], {}]
    for _ in range(8):
        value = make(value)
    body = pack(value)

    read_by(body, Bounds(1000, 1000, 10))
    with pytest.raises(InvalidEnvelope, match="more than 9 maps and lists within each other"):
        read_by(body, Bounds(1000, 1000, 9))


def test_a_shape_of_too_many_values_is_refused():
    check_shape([[1, 2], 3], Bounds(0, 8, 2))
    with pytest.raises(InvalidEnvelope, match="more than 7 values"):
        check_shape([[1, 2], 3], Bounds(0, 7, 2))


def test_a_scalar_is_read():
    assert read(b"\x07", Bounds(1, 0, 0)) == 7
    check_shape(7, Bounds(1, 0, 0))


@pytest.mark.parametrize(
    "body",
    [b"", b"\xc1", b"\xa1", b"\xa2\xff\xfe", b"\x81\x01\x02", b"\x81\x91\x01\x02", b"\xd4\x01a", b"\xc7\x00\x05"],
)
def test_what_is_no_msgpack_that_we_take_is_refused(body: bytes):
    with pytest.raises(InvalidEnvelope):
        read(body, ROOMY)


@given(st.binary(max_size=64))
def test_any_bytes_are_read_or_refused_with_our_own_error(body: bytes):
    with contextlib.suppress(InvalidEnvelope):
        read(body, QUESTION)


def test_a_body_has_so_many_maps_and_lists_at_most_whoever_made_it():
    Payload.of([[]] * (MOST_CONTAINERS - 1))
    with pytest.raises(InvalidEnvelope, match="65,536 maps and lists"):
        Payload.of([[]] * MOST_CONTAINERS)
    foreign = Payload(pack([{}] * MOST_CONTAINERS))
    with pytest.raises(InvalidEnvelope, match="65,536 maps and lists"):
        _ = foreign.value
    with pytest.raises(InvalidEnvelope, match="65,536 maps and lists"):
        foreign.thawed()


@pytest.mark.parametrize(
    "value",
    [["漢字" * 100_000], [1] * 500_000, {"b": bytes(range(0x80, 0xA0)) * 10_000}, dict.fromkeys(range(90000), -1)],
)
def test_text_numbers_and_bytes_are_no_maps_and_lists_whatever_bytes_they_have(value: Any):
    assert Payload.of(value).thawed() == value
