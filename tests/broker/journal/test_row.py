from __future__ import annotations

import hashlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether_broker.journal.body_store import LARGE, payloads
from ether_broker.journal.commit import pack_row, references, restore, unpack_row
from ether_broker.journal.journal import Replayed
from ether_broker.wire.frame import pack_envelope
from tests.broker.journal.support import delegation, response

BODIES = st.one_of(
    st.binary(max_size=200),
    st.sampled_from([LARGE - 1, LARGE, LARGE + 1, 70_000]).map(lambda size: b"p" * size),
)
ENVELOPES = st.one_of(
    st.binary(max_size=100),
    st.builds(delegation, st.integers(0, 9), payload=BODIES),
    st.builds(response, st.integers(0, 9), payload=BODIES),
    st.builds(lambda body: pack_envelope(4, body=body), BODIES),
)
FLOATS = st.floats(allow_nan=False)
BATCHES = st.lists(
    st.builds(Replayed, st.integers(1, 1 << 62), FLOATS, FLOATS, st.lists(ENVELOPES, max_size=5)), max_size=5
)


@given(BATCHES)
def test_a_row_gives_back_what_was_packed(batches: list[Replayed]):
    packed = pack_row(batches)

    assert unpack_row(restore(packed.body, packed.refs, dict(packed.cut))) == batches
    assert all(hashlib.sha256(body).digest() == digest for digest, body in packed.cut)
    assert len(packed.body) + sum(length for _, length, _ in references(packed.refs)) == len(
        pack_row([]).body + b"".join(pack_row([batch._replace(envelopes=[])]).body for batch in batches)
    ) + sum(4 + len(envelope) for batch in batches for envelope in batch.envelopes)


@pytest.mark.parametrize(("size", "cut"), [(LARGE - 1, False), (LARGE, True), (65_535, True), (65_536, True)])
def test_a_payload_is_cut_out_from_4_kib_on(size: int, cut: bool):
    packed = pack_row([Replayed(1, 0.0, 0.0, [delegation(payload=b"x" * size)])])

    assert [body for _, body in packed.cut] == [b"x" * size] * cut


def test_both_payloads_of_an_envelope_are_cut_out():
    body = (
        b"\x83\xa6params\xc5\x10\x00"
        + b"a" * 4096
        + b"\xa1t\xcb"
        + bytes(8)
        + b"\xadcontext_slice\xc5\x20\x00"
        + b"b" * 8192
    )
    envelope = pack_envelope(1, source=b"desk", target=b"scout", capability=b"text.copy", body=body)

    assert [envelope[start:end] for start, end in payloads(envelope)] == [b"a" * 4096, b"b" * 8192]


@pytest.mark.parametrize(
    "body",
    [
        b"x" * 5000,
        b"\x81\xa4data\xc6\xff\xff\xff\xff" + b"x" * 5000,
        b"\x81\xa4data\xdb\x00\x00\x13\x88" + b"x" * 5000,
        b"\xde\xff\xff" + b"\xc0" * 5000,
        b"\x82\xa1a\x92\xc0\x81\xa1b\xd4\x00\x00\xa1c\xdc\x13\x88" + b"\x01" * 5000,
        b"\x81\xa4data\xc5\x20",
    ],
    ids=["no map", "length beyond the end", "text", "too many values", "nested", "torn"],
)
def test_what_is_no_payload_stays(body: bytes):
    assert list(payloads(pack_envelope(1, body=body.ljust(5000, b"\xc0")))) == []


@pytest.mark.parametrize("cut", [1, 20, 30, 40, 60])
def test_a_body_that_ends_early_is_noticed(cut: int):
    body = pack_row([Replayed(1, 0.0, 0.0, [b"one", b"two" * 10])]).body

    with pytest.raises(struct.error):
        unpack_row(body[:cut])


@pytest.mark.parametrize(
    "refs",
    [
        pytest.param(lambda digest: struct.pack(">II32s", 5, 8, digest), id="another length"),
        pytest.param(lambda digest: struct.pack(">II32s", 9, 9, digest), id="beyond the body"),
        pytest.param(lambda digest: 2 * struct.pack(">II32s", 5, 9, digest), id="twice at one place"),
        pytest.param(lambda digest: struct.pack(">II32s", (1 << 30) - 4, 9, digest), id="more than a commit may have"),
    ],
)
def test_references_that_are_not_what_was_written_make_no_body(refs):
    digest = hashlib.sha256(b"a payload").digest()

    with pytest.raises(struct.error, match="a payload of"):
        restore(b"8 bytes.", refs(digest), {digest: b"a payload"})
