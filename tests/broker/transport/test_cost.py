"""What an envelope costs, and that it is no less than what reading it takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether_broker.encoding.bounded import MANIFEST, read
from ether_broker.envelope.payload import pack
from ether_broker.transport.address import INCARNATION
from ether_broker.transport.sessions.cost import DEAREST, PER_8_KIB, PRICES, possible, reading
from ether_broker.transport.sessions.session_table import SessionTable
from ether_broker.wire.frame import Kind, join_frame, pack_envelope
from tests.actors.peers import Bus


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
    session_table = SessionTable()
    session = session_table.open(b"r" + bytes(INCARNATION), "n", {}, 0.0)
    session_table.arrive(session.receiver, join_frame([envelope]), 1.0)
    assert [taken for _, taken in session_table.turns.take()] == [envelope]
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


TEXTS = {
    "Chinese": "这是一个用来研究和总结多个来源的代理能力说明。",
    "Russian": "Эта способность исследует источники. ",
    "Hindi": "यह क्षमता स्रोतों का अध्ययन करती है। ",
    "emoji": "😀😁",
    "look-alikes": "\u00c0\u0700\u07c0",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_text_of_any_script_is_no_maps_and_lists(text: str):
    line = text * (1000 // len(text.encode()))
    capabilities = [{"name": f"work.part{n}", "description": line, "params": {"type": "object"}} for n in range(240)]
    body = pack({"capabilities": capabilities})
    assert len(body) > 220_000

    read(body, MANIFEST)  # it is within the bounds

    assert reading(body) <= DEAREST


def test_text_between_maps_does_not_hide_them():
    assert reading(pack(["一" * 60_000, *([{}] * 17_000)])) == DEAREST + 1
    assert reading(pack(["一" * 60_000, *([[]] * 6_400)])) >= (60_000 * 3 >> 10) + 400


@pytest.mark.parametrize("lead", [b"\xe4", b"\xf1\x80", b"\xc2", b"\xdf\xff"])
def test_maps_that_look_like_letters_count(lead: bytes):
    count = 20_000
    body = b"\xdd" + (count * 3).to_bytes(4) + (lead + b"\x80\x80") * count

    assert reading(body) == DEAREST + 1


def test_a_body_that_is_cut_off_costs_what_it_may_have():
    body = b"\xdd" + (1 << 20).to_bytes(4) + b"\x80" * 20_000

    assert reading(body) == DEAREST + 1


# -- what an envelope may turn out to cost -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Kind.DELEGATION, Kind.RESPONSE, Kind.CANCEL, Kind.TAP_ACK])
def test_work_of_any_size_turns_out_to_cost_what_can_be_seen_of_it(kind: Kind):
    assert possible(pack_envelope(kind, source=b"a", target=b"b", capability=b"etherx.y", body=b"\x90" * 100_000)) == 0


def test_what_is_no_envelope_costs_no_more():
    assert possible(b"") == possible(bytes([Kind.REGISTER]) * 40) == 0


def test_a_question_may_be_answered_a_list():
    envelope = pack_envelope(Kind.DELEGATION, source=b"a", capability=b"ether.agents")

    assert possible(envelope) >= 128


def test_a_claim_of_a_lease_is_work_of_the_bus():
    assert (
        possible(pack_envelope(Kind.DELEGATION, source=b"a", capability=b"ether.lease", body=pack({"resource": "x"})))
        < 8
    )


@given(
    count=st.sampled_from([0, 1, 2, 17, 64]), capabilities=st.integers(0, 24), text=st.sampled_from(["", "name", "x" * 3_000]),
    is_terse=st.booleans(),
)  # fmt: skip
def test_no_register_costs_more_than_it_may(count: int, capabilities: int, text: str, is_terse: bool):
    """With 0 agents it is one of the agent that is its source."""
    bus = Bus()
    peer = bus.node("n", "another")
    names = ["a" * (1 + number) for number in range(count)]
    declared = [{"name": f"c{number}", **({} if is_terse else {"description": text})} for number in range(capabilities)]
    manifest = {"capabilities": declared}
    body = {"agents": names, "manifest": pack(manifest)} if count else manifest
    envelope = pack_envelope(Kind.REGISTER, source=b"" if count else b"only", body=pack(body))
    before = peer.session.input.tag
    peer.raw(join_frame([envelope]))
    bus.step()

    seen = PRICES[Kind.REGISTER] + (len(envelope) >> PER_8_KIB) + 1
    assert peer.session.input.tag - before <= possible(envelope) + seen
