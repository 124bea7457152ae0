"""Bodies and frames that are bombs, and what their senders may cost."""

from __future__ import annotations

import re

import pytest

from ether_broker.envelope.payload import pack
from ether_broker.wire.frame import MAX_FRAME_ENVELOPES, Kind, join_frame, pack_envelope
from tests.actors.peers import Bus, Peer, request_id
from tests.attacks.test_identity import refused, trio

DEEP = b"\x91" * 900 + b"\xc0"
BOMBS = {
    "deep": DEEP,
    "too deep": b"\x91" * 100_000,
    "a list of four billion": b"\xdd\xff\xff\xff\xff",
    "a map of four billion": b"\xdf\xff\xff\xff\xff",
    "bytes of four billion": b"\xc6\xff\xff\xff\xff",
    "a million lists": b"\xdd\x00\x0f\x00\x00" + b"\x90" * 0xF0000,
    "a million maps": b"\xdd\x00\x0f\x00\x00" + b"\x80" * 0xF0000,
    "a deep schema": b"\x81\xaccapabilities\x91\x82\xa4name\xa3x.y\xadparams_schema\x81\xa1a" + DEEP,
    "keys that are lists": b"\x81\x91\x01\x02",
}


@pytest.mark.parametrize(
    "kind", [Kind.HELLO, Kind.HEARTBEAT, Kind.REGISTER, Kind.OBSERVE, Kind.RESUME, Kind.SCALE, Kind.UNREGISTER]
)
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_msgpack_bomb_is_refused_and_no_bug(kind: Kind, bomb: str):
    bus, _, _, mallory = trio()
    mallory.send(kind, source=b"mallory", body=BOMBS[bomb])
    bus.step()

    assert "internal_error" not in refused(bus)
    assert bus.agent("bob").condition == "up"


@pytest.mark.parametrize("bomb", ["deep", "keys that are lists", "a list of four billion"])
@pytest.mark.parametrize("capability", ["ether.agents", "ether.dead-letters", "ether.lease"])
def test_a_bomb_for_the_bus_itself_is_refused_and_no_bug(capability: str, bomb: str):
    bus, _, _, mallory = trio()
    mallory.send(
        Kind.DELEGATION, source=b"mallory", request_id=request_id(70), capability=capability.encode(),
        parent=request_id(1), body=pack({"params": BOMBS[bomb]}),
    )  # fmt: skip
    bus.step()

    assert "internal_error" not in refused(bus)


def test_what_costs_too_much_is_refused_unread():
    bus, _, _, mallory = trio()
    mallory.send(Kind.HEARTBEAT, body=b"\xdd\x00\x0f\x00\x00" + b"\x90" * 0xF0000)
    bus.step()

    assert mallory.refusal().code == "too_much"


def test_a_frame_of_more_envelopes_than_one_may_have_is_refused_unread():
    bus, _, _, mallory = trio()
    mallory.raw(join_frame([pack_envelope(Kind.MONITOR)] * (MAX_FRAME_ENVELOPES + 1)))
    bus.arrive(b"r" + b"?" * 16, join_frame([pack_envelope(Kind.MONITOR)] * 65_535))
    bus.arrive(b"r" + b"!" * 16, join_frame([pack_envelope(Kind.MONITOR)] * MAX_FRAME_ENVELOPES))
    bus.step()

    assert refused(bus) == {"malformed_frame": 2, "no_session": 1}  # of a stranger's, one envelope counts


def test_what_there_is_no_room_for_is_dropped_counted_and_asked_for_again():
    bus, _, _, mallory = trio()
    session = mallory.session
    channel = session.channel
    session.input.limit = 300_000
    frames = [
        join_frame(
            [pack_envelope(Kind.MONITOR, request_id=request_id(1000 + number), target=b"bob")] * 64,
            channel.session,
            number,
        )
        for number in range(1, 101)
    ]  # of 3.6 KB
    for frame in frames:
        mallory.raw(frame)
    bus.step()

    taken = channel.received
    assert 60 <= taken <= 90
    assert session.handled == taken
    assert session.lost == ""
    assert refused(bus) == {"input_full": 100 - taken}
    mallory.raw(frames[-1])
    bus.step()
    assert mallory.took(Kind.RESEND)
    for frame in frames[taken:]:
        mallory.raw(frame)
    bus.step()
    assert session.handled == 100


def test_what_a_node_says_of_itself_is_kept_short():
    bus = Bus()
    peer = Peer(bus, "n")
    bus.peers.append(peer)
    peer.hello(host="h" * 1_000, pid=7, more={"a": 1}, version=["3"] * 100)
    bus.step()
    peer.register("a")
    peer.send(Kind.HEARTBEAT, body={"agents": {"a": {"running": 1, "more": [[]] * 100, "waiting": "w" * 99}}})
    bus.step()

    assert peer.session.info == {"host": "h" * 200, "pid": 7, "version": ""}
    assert bus.agent("a").load == {"running": 1}


LONG = [0.123456789] * 8_000


def register_scaling(peer: Peer) -> None:
    """Register an agent "a" that scales."""
    manifest = pack({"capabilities": [{"name": "x.y"}]})
    peer.send(Kind.REGISTER, request_id=request_id(1), body={"agents": ["a"], "manifest": manifest, "scales": True})
    peer.bus.step()
    assert peer.took(Kind.REGISTERED)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (Kind.OBSERVE, {"from": LONG}),
        (Kind.OBSERVE, {"topics": {"a": LONG}}),
        (Kind.UNREGISTER, {"condition": LONG}),
        (Kind.UNREGISTER, {"condition": {"a": 1}}),
        (Kind.SCALE, {"before": LONG, "instances": 1}),
        (Kind.SCALE, {"before": 1, "instances": LONG}),
    ],
)
def test_of_a_list_that_is_none_of_the_words_wanted_it_is_said_what_it_is(kind: Kind, body: dict[str, object]):
    bus = Bus()
    peer = bus.node("n")
    register_scaling(peer)
    peer.send(kind, source=b"a", request_id=request_id(5), body=body)
    bus.step()

    refusal = peer.refusal()
    assert refusal.code == "invalid_envelope"
    assert re.search(r" is a (list|map) of [\d,]+ and has to be ", refusal.body["message"])


@pytest.mark.parametrize(
    ("kind", "body", "event"),
    [
        (Kind.UNREGISTER, {"condition": "restarting", "reason": LONG}, "agent_restarting"),
        (Kind.UNREGISTER, {"condition": "gone", "reason": LONG}, "agent_down"),
        (Kind.SCALE, {"before": 1, "instances": 2, "why": LONG}, "agent_scaled"),
        (Kind.HEARTBEAT, {"agents": {"a": {"blocking": {"capability": LONG, "at": LONG}}}}, "loop_blocked"),
    ],
)
def test_a_list_in_place_of_a_short_text_is_none(kind: Kind, body: dict[str, object], event: str):
    bus = Bus()
    peer = bus.node("n")
    register_scaling(peer)
    peer.send(kind, source=b"a", body=body)
    bus.step()

    (told,) = [seen.body for seen in bus.tapped if seen.kind is Kind.EVENT and seen.body["event"] == event]
    assert "0.1" not in str(told)
    assert bus.state.session_table.refused == 0


def test_a_refusal_says_no_more_than_fits_a_line(caplog: pytest.LogCaptureFixture):
    bus, _, _, mallory = trio()
    mallory.send(Kind.OBSERVE, body={"from": 0, "topics": "\nWARNING ether: forged\x1b[2J" * 1_000})
    bus.step()

    (record,) = [record for record in caplog.records if "refused" in record.getMessage()]
    assert len(record.getMessage()) < 500
    assert record.getMessage().isprintable()
    assert len(mallory.refusal().body["message"]) < 1_100


def test_a_million_refusals_are_twenty_lines(caplog: pytest.LogCaptureFixture):
    bus, _, _, mallory = trio()
    for _ in range(100):
        for _ in range(100):
            mallory.raw(b"garbage")
        bus.step()

    assert bus.state.session_table.refused == 10_000
    assert len(caplog.records) <= 28
