from __future__ import annotations

import re
import struct
from collections import deque

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ether_broker.errors import IncompatibleVersion, MalformedFrame
from ether_broker.wire.frame import (
    BATCH,
    HEADER,
    MAX_FRAME_BYTES,
    Flag,
    Header,
    Kind,
    join_frame,
    make_next,
    mark,
    pack_envelope,
    read_frame,
    read_header,
    read_number,
)
from tests.support import REPOSITORY

names = st.binary(max_size=255)
fields = st.fixed_dictionaries(
    {"kind": st.integers(0, 255)},
    optional={
        "request_id": st.binary(min_size=16, max_size=16),
        "parent": st.binary(min_size=16, max_size=16),
        "source": names,
        "target": names,
        "capability": names,
        "body": st.binary(max_size=64),
        "status": st.integers(0, 255),
        "flags": st.integers(0, 2**16 - 1),
        "deadline": st.floats(allow_nan=False),
        "attempt": st.integers(0, 255),
    },
)
envelopes = fields.map(lambda given_: pack_envelope(**given_))


def frame_of(
    *parts: bytes, magic: bytes = b"ETHR", major: int = 2, minor: int = 1, count: int | None = None,
    place: tuple[int, int, int] = (0, 0, 0),
) -> bytes:  # fmt: skip
    table = b"".join(struct.pack(">I", len(part)) for part in parts)
    preamble = struct.pack(">4sBBHQQQ", magic, major, minor, len(parts) if count is None else count, *place)
    return b"".join([preamble, table, *parts])


def test_a_delegation_has_the_bytes_that_the_protocol_draws():
    envelope = pack_envelope(
        Kind.DELEGATION,
        request_id=bytes(range(16)),
        source=b"ann",
        target=b"bo",
        capability=b"x.y",
        body=b"\x80",
        flags=Flag.REDELIVERED,
        deadline=1.5,
        parent=bytes(16),
        attempt=2,
    )

    assert HEADER.size == 48
    assert envelope.hex(" ", 1) == (
        "01 00 00 01 03 02 03 02 3f f8 00 00 00 00 00 00 "
        "00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f "
        "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 "
        "61 6e 6e 62 6f 78 2e 79 80"
    )
    assert (
        join_frame([envelope], 0x0102030405060708, 3, 258)
        .hex(" ", 1)
        .startswith(
            "45 54 48 52 02 01 00 01 01 02 03 04 05 06 07 08 "
            "00 00 00 00 00 00 00 03 00 00 00 00 00 00 01 02 "
            "00 00 00 39 01 00"
        )
    )


@given(fields)
def test_a_header_reads_as_it_was_packed(given_):
    envelope = pack_envelope(**given_)

    header = read_header(envelope)

    defaults = Header(0, 0, 0, 0.0, bytes(16), bytes(16), 1, b"", b"", b"", 0)
    for name in Header._fields[:-1]:
        assert getattr(header, name) == given_.get(name, getattr(defaults, name)), name
    assert envelope[header.body :] == given_.get("body", b"")


@given(envelopes, st.data())
def test_an_envelope_cut_short_within_its_names_is_malformed(envelope, data):
    cut = envelope[: data.draw(st.integers(0, max(0, read_header(envelope).body - 1)))]

    with pytest.raises(MalformedFrame, match=r"shorter than its header|announces names"):
        read_header(cut)


@given(st.lists(envelopes, max_size=8), st.tuples(*[st.integers(0, 2**64 - 1)] * 3))
def test_a_frame_splits_into_what_was_joined(parts, place):
    frame = join_frame(parts, *place)

    assert read_frame(frame) == (*place, parts)
    assert read_number(frame) == place[1]
    assert frame == frame_of(*parts, place=place)


@given(fields, st.sampled_from(Flag))
def test_marking_an_envelope_sets_that_flag_and_changes_nothing_else(given_, flag):
    envelope = pack_envelope(**given_)

    assert mark(envelope, flag) == pack_envelope(**{**given_, "flags": given_.get("flags", 0) | flag})


def test_a_frame_has_of_what_stands_first_what_rides_together_and_takes_nothing_out():
    waiting = deque(b"%d" % number for number in range(BATCH + 2))

    frame, size, count = make_next(waiting, 1, 2, 3)
    taken = read_frame(frame).envelopes

    assert taken == [b"%d" % number for number in range(BATCH)]
    assert (count, size, len(waiting)) == (BATCH, sum(map(len, taken)), BATCH + 2)


@pytest.mark.parametrize(
    ("sizes", "together"),
    [
        ([MAX_FRAME_BYTES - 10, 10, 1], 2),
        ([MAX_FRAME_BYTES - 10, 11, 1], 1),
        ([MAX_FRAME_BYTES + 1, 1], 1),
        ([1, MAX_FRAME_BYTES], 1),
        ([1, 1], 2),
    ],
)
def test_a_frame_has_at_most_a_mebibyte_or_one_envelope(sizes: list[int], together: int):
    waiting = deque(bytes(size) for size in sizes)

    frame, size, count = make_next(waiting, 1, 2, 3)
    taken = read_frame(frame).envelopes

    assert [*map(len, taken)] == sizes[:together]
    assert (count, size) == (together, sum(sizes[:together]))


def test_a_name_of_256_bytes_is_refused_where_it_is_packed():
    with pytest.raises(struct.error):
        pack_envelope(Kind.DELEGATION, source=b"x" * 256)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"ETHR\x02\x00\x00",
        frame_of()[:31],
        frame_of(b"", magic=b"HTTP"),
        frame_of(b"abc", count=2),
        frame_of(b"abc", count=0),
        frame_of(b"abc") + b"more",
        frame_of(b"abc")[:-1],
        frame_of(b"abc")[:10],
        frame_of() + struct.pack(">I", 1 << 31),
        frame_of(count=1) + struct.pack(">I", 0xFFFFFFFF),
    ],
    ids=[
        "empty",
        "short",
        "short preamble",
        "magic",
        "too few",
        "too many",
        "surplus",
        "cut",
        "cut length",
        "length only",
        "huge length",
    ],
)
def test_bytes_that_are_no_frame_are_malformed_and_shown(frame):
    with pytest.raises(MalformedFrame) as raised:
        read_frame(frame).envelopes

    assert raised.value.data == frame[:64]


@pytest.mark.parametrize(("major", "where"), [(3, "here"), (1, "there")])
@pytest.mark.parametrize("cut", [None, 5, 8])
def test_another_major_version_is_refused_with_the_fix(major: int, where: str, cut: int | None):
    with pytest.raises(IncompatibleVersion, match=f"upgrade agent-ether {where}"):
        read_frame(frame_of(b"whatever", major=major)[:cut])


def test_a_newer_minor_version_is_taken():
    assert read_frame(frame_of(b"abc", minor=9)).envelopes == [b"abc"]


@given(st.binary(max_size=200))
@example(frame_of(b""))
def test_any_bytes_split_or_are_refused_with_our_own_errors(frame):
    try:
        *place, parts = read_frame(frame)
    except (MalformedFrame, IncompatibleVersion):
        return
    assert frame_of(*parts, minor=frame[5], place=tuple(place)) == frame


@given(st.lists(envelopes, min_size=1, max_size=4), st.data())
def test_a_mutated_frame_splits_or_is_refused_with_our_own_errors(parts, data):
    frame = bytearray(join_frame(parts))
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))

    try:
        for part in read_frame(bytes(frame)).envelopes:
            read_header(part)
    except (MalformedFrame, IncompatibleVersion):
        pass


def test_the_protocol_page_has_every_kind_with_its_number():
    page = (REPOSITORY / "docs" / "protocol.md").read_text()

    table = {int(code): name for code, name in re.findall(r"^\| (\d+) \| ([A-Z_]+) \| [NBtb]", page, re.MULTILINE)}

    assert table == {kind.value: kind.name for kind in Kind}
