"""What an envelope costs, and that it is no less than what reading it takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether_broker.cost import DEAREST, cost_of
from ether_broker.payload import pack
from ether_broker.wire import Kind, pack_envelope


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
    assert cost_of(pack_envelope(kind)) == points


@given(st.binary(max_size=80))
def test_whatever_it_is_it_costs_something(envelope: bytes):
    assert 1 <= cost_of(envelope) <= DEAREST + 1


def test_bytes_count_whoever_sends_them():
    assert cost_of(pack_envelope(Kind.RESPONSE, body=bytes(1 << 20))) == 2 + 128
    assert cost_of(pack_envelope(Kind.CANCEL, body=bytes(1 << 20))) == 1 + 128


@pytest.mark.parametrize(
    "kind", [Kind.REGISTER, Kind.HEARTBEAT, Kind.RESUME, Kind.OBSERVE, Kind.UNREGISTER, Kind.MONITOR]
)
def test_maps_and_lists_count_where_the_broker_reads_them(kind: Kind):
    bomb = b"\xdc\x4e\x20" + b"\x80" * 20_000
    assert cost_of(pack_envelope(kind, body=bomb)) == DEAREST + 1
    assert cost_of(pack_envelope(kind, body=pack([{}] * 160))) - cost_of(pack_envelope(kind)) == 10


def test_maps_and_lists_count_of_a_question_to_the_bus_and_of_no_other_delegation():
    body = pack([{}] * 1_600)
    names = {"source": b"s", "target": b"t" * 255}
    assert cost_of(pack_envelope(Kind.DELEGATION, **names, capability=b"ether.agents", body=body)) >= 100
    assert cost_of(pack_envelope(Kind.DELEGATION, **names, capability=b"people.greet", body=body)) == 2
    assert cost_of(pack_envelope(Kind.RESPONSE, **names, capability=b"ether.agents", body=body)) == 2
