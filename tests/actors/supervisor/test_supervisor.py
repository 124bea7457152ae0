"""One step as a whole: what arrives is taken, refused or counted, and the observers see what passed."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ether_actors.supervisor.state.ledger import State
from ether_broker.envelope.status import Status
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.tap import read_batch
from ether_broker.wire.frame import Kind, join_frame, pack_envelope, read_header
from tests.actors.peers import Bus, Peer, request_id


def test_nobody_but_a_newcomer_with_hello_is_listened_to():
    bus = Bus()
    stranger = Peer(bus, "stranger")
    bus.peers.append(stranger)

    stranger.delegate("d")
    bus.step()

    assert stranger.refusal().code == "no_session"
    assert (bus.state.session_table.refused, bus.state.accepted) == (1, 0)


def test_several_envelopes_of_one_frame_are_taken_in_their_order():
    bus = Bus()
    d, a = bus.delegator("d"), bus.node("na", "a")
    envelopes = [
        pack_envelope(
            Kind.DELEGATION, request_id=request_id(900 + n), source=b"d", target=b"a", capability=b"x.y", body=b"\x80"
        )
        for n in range(5)
    ]

    d.raw(join_frame(envelopes))
    bus.step()

    assert a.work() == [900, 901, 902, 903, 904]


def test_one_bad_envelope_of_a_frame_does_not_cost_the_others():
    bus = Bus()
    d, a = bus.delegator("d"), bus.node("na", "a")
    good = pack_envelope(Kind.DELEGATION, request_id=request_id(900), source=b"d", capability=b"x.y", body=b"\x80")

    d.raw(join_frame([b"short", good, pack_envelope(99)]))
    bus.step()

    assert a.work() == [900]
    assert (d.refusal().code, bus.state.session_table.refused) == ("malformed_frame", 2)


def test_a_newer_protocol_is_refused_with_the_fix():
    bus = Bus()
    peer = bus.node("n")

    peer.raw(struct.pack(">4sBBH", b"ETHR", 3, 0, 0))
    bus.step()

    refusal = peer.refusal()
    assert refusal.code == "incompatible_version"
    assert "upgrade" in refusal.body["message"]


def test_an_envelope_over_the_limit_of_the_bus_is_passed_on_to_nobody():
    bus = Bus()
    d, a = bus.delegator("d"), bus.node("na", "a")

    number = d.delegate("d", params=bytes(1 << 20))
    bus.step()

    refusal = d.refusal()
    assert (refusal.code, refusal.number) == ("payload_too_large", number)
    assert (a.work(), bus.state.accepted) == ([], 0)


def test_an_accepted_delegation_and_its_outcome_pass_the_tap_once_and_in_order():
    bus = Bus()
    d, a = bus.delegator("d"), bus.node("na", "a")
    number = d.delegate("d")
    bus.step()
    a.respond("a", number, Status.PROGRESS)
    a.respond("a", number)
    a.respond("a", number)
    bus.step()

    seen = [(seen.kind, seen.header.status and seen.status) for seen in bus.tapped if seen.number == number]

    assert seen == [(Kind.DELEGATION, 0), (Kind.RESPONSE, Status.PROGRESS), (Kind.RESPONSE, Status.COMPLETED)]
    assert [event["reason"] for event in bus.events("dead_letter")] == ["duplicate"]


def test_an_observer_gets_numbered_batches_and_no_more_than_it_acknowledges():
    bus = Bus()
    watcher, d = bus.node("w"), bus.delegator("d")
    bus.node("na", "a")
    watcher.send(Kind.OBSERVE, request_id=request_id(5), body={"from": 1})
    bus.step()

    batches, position = [], 1
    for _ in range(200):
        d.delegate("d")
        bus.step()
        batches += watcher.took(Kind.TAP)
    under_way = len(batches)
    assert under_way < 200
    while batches:
        for received in batches:
            batch = read_batch(received.envelope[received.header.body :])
            assert batch.first == position
            position = batch.next
        watcher.send(Kind.TAP_ACK, request_id=request_id(5), body=position.to_bytes(8))
        bus.step()
        batches = watcher.took(Kind.TAP)

    assert position == bus.state.tap.next


def test_an_observer_of_some_capabilities_sees_those():
    bus = Bus()
    watcher, d = bus.node("w"), bus.delegator("d")
    bus.node("na").register("a", "x.y", "z")
    watcher.send(Kind.OBSERVE, request_id=request_id(5), body={"topics": ["x"]})
    bus.step()
    for capability in ("x.y", "z"):
        d.delegate("d", capability)
    bus.step()
    bus.step()

    batches = [read_batch(received.envelope[received.header.body :]) for received in watcher.took(Kind.TAP)]

    assert [read_header(envelope).capability for batch in batches for _, _, envelope in batch.envelopes] == [b"x.y"]
    assert batches[-1].next == bus.state.tap.next


def test_it_wakes_for_deadlines_and_signs_of_life_and_for_nothing_else():
    bus = Bus()
    d = bus.delegator("d")
    bus.node("na", "a")
    d.delegate("d", timeout=0.15)
    bus.step()

    assert bus.now < bus.supervisor.next_wake() <= bus.now + 0.25


# -- anything may arrive -----------------------------------------------------------------------------------------


def busy_bus() -> tuple[Bus, Peer]:
    """A bus with work queued, sent and running, and a peer that may say anything."""
    bus = Bus(Limits(mailbox_count=4, window=2))
    d = bus.delegator("d")
    a = bus.node("na", "a")
    numbers = [d.delegate("d", timeout=50.0, number=100 + n) for n in range(4)]
    bus.step()
    a.respond("a", numbers[0], Status.ACCEPTED)
    evil = bus.delegator("evil")
    bus.step()
    return bus, evil


def state_of(bus: Bus) -> object:
    """What must not change by what is refused."""
    state = bus.state
    return (
        [(entry.request_id, entry.state, entry.agent.name, entry.attempt) for entry in state.ledger.running],
        [
            (a.name, a.session.node, a.condition, a.mailbox.waiting_count, a.mailbox.in_flight)
            for a in state.registry.agents
        ],
        [session.node for session in state.session_table.sessions],
        state.accepted,
        state.tap.next,
        len(state.dead_letters),
    )


@settings(max_examples=150)
@given(st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=120)), max_size=4))
def test_any_bytes_from_anybody_are_refused_and_counted_and_change_nothing(messages):
    bus, evil = busy_bus()
    before, refused = state_of(bus), bus.state.session_table.refused

    for routing_id, message in messages:
        bus.arrive(routing_id, message)
        evil.raw(message)
    bus.step()

    assert bus.state.session_table.refused == refused + 2 * len(messages)
    assert state_of(bus) == before


names = st.sampled_from([b"d", b"a", b"evil", b"ether", b"nobody", b"", b"\xff"])
headers = st.fixed_dictionaries(
    {
        "kind": st.integers(0, 30) | st.sampled_from(Kind).map(int),
        "status": st.integers(0, 12) | st.integers(0, 255),
        "flags": st.integers(0, 3) | st.integers(0, 65535),
        "source": names,
        "target": names | st.just(b"node:na"),
        "capability": st.sampled_from([b"x.y", b"y", b"x", b"*", b"ether.agents", b"ether.", b"", b"\xff"]),
        "attempt": st.integers(0, 255),
        "deadline": st.floats(),
        "request_id": st.sampled_from([request_id(n) for n in (0, 100, 101, 102, 103, 104)]),
        "parent": st.sampled_from([request_id(n) for n in (0, 100, 103, 999)]),
        "body": st.sampled_from(
            [b"", b"\x80", b"\xc1", b"\x90", b"\x81\xa9condition\xa4gone", b"\x81\xa4from\x01", b"\xc0"]
        )
        | st.binary(max_size=20),
    }
)


@settings(max_examples=200)
@given(st.lists(headers, min_size=1, max_size=6), st.booleans())
def test_no_well_formed_envelope_whatever_it_says_raises_or_touches_the_work_of_others(fields, reverse):
    bus, evil = busy_bus()
    work = {entry.request_id: entry.agent.name for entry in bus.state.ledger.running}
    envelopes = [pack_envelope(**header) for header in fields]

    for envelope in envelopes[:: -1 if reverse else 1]:
        evil.raw(join_frame([envelope]))
        evil.raw(join_frame([envelope]), b"r")
    bus.step()
    bus.pass_time(0.5)

    for number, agent in work.items():
        entry = bus.state.ledger.get(number)
        assert entry is not None
        assert entry.agent.name == agent or entry.state is State.QUEUED
    assert bus.agent("a").session.node == "na"
    assert bus.agent("a").mailbox.in_flight == 2
    first = bus.entry(100)
    assert first is not None
    assert first.state is State.RUNNING


@settings(max_examples=100)
@given(st.data())
def test_a_mutated_frame_of_a_real_peer_does_not_raise(data):
    bus, _ = busy_bus()
    a, d = bus.peers[1], bus.peers[0]
    answer = pack_envelope(Kind.RESPONSE, status=2, request_id=request_id(100), source=b"a", target=b"d", body=b"\x80")
    ask = pack_envelope(
        Kind.DELEGATION, request_id=request_id(500), source=b"d", capability=b"x.y", deadline=2000.0, body=b"\x80"
    )
    for peer, frame in ((a, join_frame([answer])), (d, join_frame([ask]))):
        mutated = bytearray(frame)
        for _ in range(data.draw(st.integers(1, 3))):
            mutated[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
        peer.raw(bytes(mutated))

    bus.step()
    bus.pass_time(1.0)

    assert all(entry.deadline > bus.now - 0.25 for entry in bus.state.ledger.running)


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind not in (Kind.EVENT, Kind.TAP, Kind.WELCOME)])
def test_a_bare_envelope_of_each_kind_does_not_raise(kind: Kind):
    bus, evil = busy_bus()

    evil.send(kind)
    bus.step()
