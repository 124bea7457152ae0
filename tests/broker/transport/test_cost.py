"""What an envelope costs, and that it is no less than what reading it takes."""

from __future__ import annotations

import pytest

from ether_broker.envelope.payload import pack
from ether_broker.transport.address import INCARNATION
from ether_broker.transport.cost import DEAREST, PRICES, reading
from ether_broker.transport.session_table import SessionTable
from ether_broker.wire.frame import Kind, join_frame, pack_envelope


@pytest.mark.parametrize(
    ("kind", "points"),
    [
        (Kind.CANCEL, 1),
        (Kind.TAP_ACK, 1),
        (Kind.DELEGATION, 2),
        (Kind.RESPONSE, 2),
        (Kind.REGISTER, 12),
        (Kind.TAP, 4),
        (99, 4),
    ],
)
def test_each_kind_has_its_price(kind: int, points: int):
    assert PRICES[kind] == points


def price(envelope: bytes) -> int:
    """What a session pays when the envelope has its turn, without the point for its frame."""
    router = SessionTable()
    session = router.open(b"r" + bytes(INCARNATION), "n", {}, 0.0)
    router.arrive(session.receiver, join_frame([envelope]), 1.0)
    assert [taken for _, taken in router.turns.take()] == [envelope]
    return session.input.tag - 1


def test_bytes_count_whoever_sends_them():
    assert price(pack_envelope(Kind.RESPONSE, body=bytes(1 << 20))) == 2 + 128
    assert price(pack_envelope(Kind.CANCEL, body=bytes(1 << 20))) == 1 + 128


def test_what_is_no_envelope_costs_something():
    assert (price(b""), price(b"\x01")) == (4, 2)


def test_bytes_and_maps_and_lists_count_in_a_body_that_is_read():
    assert reading(b"\xdc\x4e\x20" + b"\x80" * 20_000) == DEAREST + 1
    assert reading(pack([{}] * 160)) == 10
    assert reading(b"") == 0
    assert reading(pack("x" * (128 << 10))) == 128
