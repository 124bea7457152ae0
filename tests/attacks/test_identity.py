"""Forged senders, routing ids, names, numbers, and requests: nobody speaks for another, and nobody gets what is another's."""

from __future__ import annotations

import pytest

from ether_actors.supervisor.membership import outcome_replay
from ether_actors.supervisor.membership.outcome_replay import LOOK_UPS_PER_STEP
from ether_actors.supervisor.registry.quota import (
    MOST_AGENTS,
    MOST_MONITORS,
    MOST_OBSERVERS,
)
from ether_actors.supervisor.state.ledger import State
from ether_broker.envelope.manifest.manifest import Manifest
from ether_broker.envelope.payload import pack
from ether_broker.envelope.status import Status
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.observer_cursor import OBSERVER_WINDOW_BYTES
from ether_broker.transport.sessions import backlog, session_table
from ether_broker.transport.sessions.account import Account
from ether_broker.transport.sessions.admission_control import MOST_SESSIONS
from ether_broker.transport.sessions.memory_quota import MemoryQuota
from ether_broker.wire.frame import MAX_FRAME_BYTES, Kind, join_frame, pack_envelope, read_frame
from tests.actors.peers import Bus, Peer, request_id
from tests.actors.recovery_world import World


def trio(limits: Limits | None = None) -> tuple[Bus, Peer, Peer, Peer]:
    """A bus on which alice waits for bob, who works on request 1; and mallory."""
    bus = Bus(limits)
    alice, bob, mallory = bus.delegator("alice"), bus.node("nbob", "bob"), bus.node("nmallory", "mallory")
    alice.delegate("alice", to="bob", number=1, timeout=1000.0)
    bus.step()
    bob.respond("bob", 1, Status.ACCEPTED)
    bus.step()
    for peer in bus.peers:
        peer.inbox.clear()
    return bus, alice, bob, mallory


def refused(bus: Bus) -> dict[str, int]:
    return dict(bus.state.session_table.refusals.by_reason)


# -- who speaks --------------------------------------------------------------------------------------------------


def test_a_forged_sender_is_answered_and_changes_nothing():
    bus, alice, bob, mallory = trio()
    mallory.delegate("alice", to="bob")
    mallory.respond("bob", 1, Status.COMPLETED)
    mallory.cancel("alice", 1)
    mallory.send(Kind.UNREGISTER, source=b"bob", body={"condition": "gone"})
    mallory.send(Kind.HEARTBEAT, body={"agents": {"bob": {"running": 99}}})
    bus.step()

    assert mallory.outcome().code == "forged_sender"
    assert bus.reasons() == ["forged", "forged", "forged"]
    assert not alice.took(Kind.RESPONSE)
    assert not bob.took(Kind.CANCEL)
    assert not bob.work()
    assert bus.agent("bob").load == {}
    entry = bus.entry(1)
    assert entry is not None
    assert entry.state is State.RUNNING


def test_a_routing_id_made_of_anothers_incarnation_reaches_neither_its_session_nor_its_socket():
    bus, alice, _, _ = trio()
    stranger = b"x" + alice.incarnation
    bus.arrive(stranger, join_frame([pack_envelope(Kind.BYE)]))
    bus.arrive(stranger, b"garbage")
    bus.supervisor.step([(stranger, b"garbage")], bus.now, 0.0)

    sent = [routing_id for routing_id, _ in bus.state.session_table.outgoing()]

    assert sent == [stranger]  # the refusal; the one whose incarnation it is hears nothing
    assert alice.session.lost == ""


def test_an_incarnation_is_told_to_nobody():
    bus, alice, bob, mallory = trio()

    told = [seen.envelope for seen in bus.tapped if seen.kind is Kind.EVENT]

    assert all(peer.incarnation not in envelope for peer in (alice, bob, mallory) for envelope in told)


@pytest.mark.parametrize("name", ["nalice", "nbob"])
def test_a_taken_name_is_refused_counted_and_takes_nothing(name: str):
    bus, alice, _, _ = trio()
    thief = Peer(bus, name)
    bus.peers.append(thief)
    thief.hello()
    bus.step()

    assert thief.refusal().code == "name_taken"
    assert refused(bus)["name_taken"] == 1
    assert alice.session.incarnation == alice.incarnation
    thief.register("alice")
    bus.step()
    assert "HELLO" in thief.refusal().body["message"]


def test_a_living_agents_name_is_refused_and_counted():
    bus, _, bob, mallory = trio()
    mallory.register("bob")
    bus.step()

    assert mallory.refusal().code == "duplicate_agent"
    assert bus.agent("bob").session is bob.session
    assert refused(bus)["duplicate_agent"] == 1


# -- what was said before ----------------------------------------------------------------------------------------


def test_a_replayed_frame_counts_once_and_one_of_an_earlier_session_never():
    bus, alice, _, _ = trio()
    channel = alice.session.channel
    envelope = pack_envelope(Kind.DELEGATION, request_id=request_id(50), source=b"alice", capability=b"x.y")
    frame = join_frame([envelope], channel.session, 1)
    other = join_frame([envelope[:16] + request_id(51) + envelope[32:]], channel.session ^ 1, 2)
    for _ in range(5):
        alice.raw(frame)
        alice.raw(other)
    bus.step()

    assert bus.state.accepted == 2
    assert bus.entry(50) is not None
    assert bus.entry(51) is None


def test_the_same_request_id_with_another_body_is_the_same_request():
    bus, alice, bob, mallory = trio()
    mallory.delegate("mallory", "x.y", to="bob", number=1, params={"other": True})
    alice.delegate("alice", to="bob", number=1, params={"other": True})
    bus.step()

    assert not bob.work()
    assert bus.reasons() == ["duplicate", "duplicate"]
    entry = bus.entry(1)
    assert entry is not None
    assert entry.asking_session is alice.session


# -- numbers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [2, 1 << 32, (1 << 64) - 99])
def test_an_acknowledgement_of_what_was_never_sent_is_counted_and_frees_nothing(number: int):
    bus, alice, _, _ = trio()
    channel = alice.session.channel
    kept, number = channel.retained_bytes, channel.last + number
    alice.raw(join_frame([], channel.session, 0, number))
    bus.step()

    assert channel.retained_bytes == kept
    assert refused(bus) == {"forged_acknowledgement": 1}


def test_who_asks_again_and_again_is_not_sent_everything_each_time():
    bus, alice, bob, _ = trio()
    for _ in range(50):
        alice.delegate("alice", to="bob")
    bus.step()
    session_table, session = bus.state.session_table, bob.session
    sizes = []
    for _ in range(1_000):  # 10 s
        bus.now += 0.01
        bus.supervisor.step([(b"t" + bob.incarnation, join_frame([pack_envelope(Kind.RESEND)], 0, 0))], bus.now, 0.0)
        sizes.append(sum(len(frame) for _, frame in session_table.outgoing() if read_frame(frame).number))

    assert session.channel.retained_bytes > 3_000
    assert sum(sizes) < 8 * session.channel.retained_bytes


def test_who_has_taken_what_was_sent_again_is_sent_again_at_once_next_time():
    bus, alice, bob, _ = trio()
    channel = bob.session.channel
    for _ in range(3):
        alice.delegate("alice", to="bob")
        bus.pass_time(1.0)
        assert channel.may_rewind(bus.now)
        assert not channel.may_rewind(bus.now)
        channel.acknowledge(channel.last)


# -- what one may have -------------------------------------------------------------------------------------------


def test_a_node_has_so_many_agents_and_no_more():
    bus = Bus()
    peer = bus.node("n")
    session = peer.session
    session.agents |= {b"a%d" % number: None for number in range(MOST_AGENTS)}

    peer.register("one-too-many")
    bus.step()

    assert peer.refusal().code == "too_much"
    assert bus.state.registry.get(b"one-too-many") is None
    assert refused(bus) == {"too_much": 1}


def test_a_manifest_has_a_bound_and_so_have_those_of_a_node_together():
    bus = Bus()
    peer = bus.node("n")
    peer.register_manifest(Manifest(agent="large", notes="n" * (257 << 10)))
    peer.session.manifest_bytes = 64 << 20
    peer.register_manifest(Manifest(agent="last"))
    bus.step()

    assert [received.code for received in peer.took(Kind.ERROR)] == ["too_much", "too_much"]


def test_a_node_has_so_many_observers_and_prefixes_and_monitors():
    bus = Bus()
    peer = bus.node("n", "a")
    for number in range(MOST_OBSERVERS + 10):
        peer.send(Kind.OBSERVE, request_id=request_id(1000 + number), body={"from": 0})
    peer.send(Kind.OBSERVE, request_id=request_id(1000), body={"from": 0, "topics": ["t"] * 300})
    bus.step()
    assert len(peer.session.cursors) == MOST_OBSERVERS
    assert refused(bus) == {"too_much": 11}

    peer.session.monitors.update({b"%16d" % number: b"a" for number in range(MOST_MONITORS)})
    peer.send(Kind.MONITOR, request_id=request_id(7), target=b"a")
    bus.step()
    assert refused(bus) == {"too_much": 12}
    assert [(down.number, down.body["reason"]) for down in peer.took(Kind.DOWN)] == [(7, "too_much")]


def test_monitors_observers_and_leases_have_a_bound_for_all_nodes_of_a_key_and_leave_room_for_others():
    bus = Bus(Limits(memory_bytes=32 << 20))
    worker = bus.node("n", "a")
    peers = [bus.node(f"m{number}") for number in range(4)]
    for peer in peers[1:]:
        peer.session.account = peers[0].session.account  # as of one key
    topics = [f"{number:0>190}" for number in range(256)]
    for number in range(MOST_OBSERVERS):
        peers[0].send(Kind.OBSERVE, request_id=request_id(1000 + number), body={"from": 0, "topics": topics})
    bus.step()
    observers = len(peers[0].session.cursors)
    assert 10 < observers < MOST_OBSERVERS
    assert {error.code for error in peers[0].took(Kind.ERROR)} == {"too_much"}
    peers[0].send(Kind.OBSERVE, request_id=request_id(1000), body={"stop": True})
    for peer in peers[1:]:
        for number in range(500):
            peer.send(Kind.MONITOR, request_id=request_id(2000 + number), target=b"a")
    bus.step()
    assert 50 < sum(len(peer.session.monitors) for peer in peers) < 300
    assert bus.state.memory.size <= 2 << 20

    worker.send(Kind.OBSERVE, request_id=request_id(7), body={"from": 0, "topics": topics})
    worker.send(Kind.MONITOR, request_id=request_id(8), target=b"a")
    bus.step()
    assert worker.took(Kind.ERROR) == worker.took(Kind.DOWN) == []

    peers[0].send(Kind.BYE)
    for peer in peers[1:]:
        peer.die()
    bus.pass_time(30.0)
    worker.send(Kind.OBSERVE, request_id=request_id(7), body={"stop": True})
    worker.send(Kind.UNREGISTER, source=b"a", body={"condition": "gone"})
    bus.step()
    assert (bus.state.memory.size, worker.session.account.kept) == (0, 0)


def test_outcomes_that_are_asked_for_again_take_of_that_memory_too_until_they_were_looked_up():
    bus = Bus(Limits(memory_bytes=32 << 20))
    peer = bus.node("n")
    for first in range(0, 60_000, 1_000):
        awaiting = [request_id(10**6 + first + number) for number in range(1_000)]
        peer.send(Kind.RESUME, request_id=request_id(1 + first), body={"awaiting": awaiting})
    bus.step()

    assert {error.code for error in peer.took(Kind.ERROR)} == {"too_much"}
    assert 1 << 20 < bus.state.memory.size <= 2 << 20
    peer.send(Kind.BYE)
    bus.step()
    bus.pass_time(1.0)
    assert bus.state.memory.size == 0


def test_a_node_hears_what_it_is_owed_also_when_others_have_taken_all_memory():
    bus = Bus(Limits(memory_bytes=32 << 20))
    asker, worker = bus.delegator("asker"), bus.node("w", "worker")
    numbers = [asker.delegate("asker", number=1_000 + number, timeout=100.0) for number in range(200)]
    bus.step()
    while worker_has := worker.work():
        for number in worker_has:
            worker.respond("worker", number)
        bus.step()
    bus.pass_time(0.1)
    assert set(asker.outcomes()) == set(numbers)
    bus.state.memory.add(Account(), 1 << 30)

    awaiting = [request_id(number) for number in numbers]
    asker.send(Kind.RESUME, request_id=request_id(5), body={"awaiting": awaiting})
    bus.step()
    for _ in range(20):
        bus.pass_time(0.2)

    assert asker.took(Kind.ERROR) == []
    assert set(asker.outcomes()) == set(numbers)


def test_an_observer_that_asks_again_takes_no_more_room_and_keeps_what_it_had_if_it_is_refused():
    bus = Bus()
    peer = bus.node("n")
    sizes = []
    for topics in (["a"], ["a", "b"], ["no capability!"], ["t"] * 300, ["a"]):
        peer.send(Kind.OBSERVE, request_id=request_id(1000), body={"from": 0, "topics": topics})
        bus.step()
        (cursor,) = peer.session.cursors.values()
        sizes.append((len(cursor.capabilities), bus.state.memory.size - cursor.size))

    assert sizes == [(1, 0), (2, 0), (2, 0), (2, 0), (1, 0)]


def test_a_monitor_that_is_taken_back_does_not_fire_and_makes_room():
    bus = Bus()
    peer, other = bus.node("n"), bus.node("o", "a", "b")
    for number in range(2 * MOST_MONITORS):
        peer.send(Kind.MONITOR, request_id=request_id(10 + number), target=b"a")
        peer.send(Kind.MONITOR, request_id=request_id(10 + number), target=b"a", body={"stop": True})
    peer.send(Kind.MONITOR, request_id=request_id(7), target=b"b")
    bus.step()
    other.send(Kind.UNREGISTER, source=b"a", body={"condition": "gone"})
    other.send(Kind.UNREGISTER, source=b"b", body={"condition": "gone"})
    bus.step()

    assert [down.number for down in peer.took(Kind.DOWN)] == [7]
    assert (refused(bus), peer.session.monitors, bus.supervisor._membership.monitors._watched) == ({}, {}, {})


def test_observers_that_acknowledge_nothing_have_a_bound_for_all_of_a_node():
    bus, alice, bob, mallory = trio()
    for number in range(MOST_OBSERVERS):
        mallory.send(Kind.OBSERVE, request_id=request_id(1000 + number), body={"from": 1})
    bus.step()
    for number in range(30):
        alice.delegate("alice", to="bob", number=100 + number, params="x" * 500_000)
        bus.step()

    cursors = mallory.session.cursors.values()
    assert sum(cursor.under_way for cursor in cursors) <= OBSERVER_WINDOW_BYTES + MOST_OBSERVERS * MAX_FRAME_BYTES
    assert mallory.session.channel.retained_bytes + mallory.session.outbox_bytes < 80 << 20
    mallory.inbox.clear()
    mallory.send(Kind.OBSERVE, request_id=request_id(1001), body={"stop": True})
    mallory.send(Kind.TAP_ACK, request_id=request_id(1000), body=bus.state.tap.next.to_bytes(8))
    bus.step()
    assert mallory.took(Kind.TAP), "who acknowledges gets on, whatever the others do"
    assert bob.session.lost == ""


def test_monitors_of_a_lost_node_are_forgotten_without_looking_at_all_others():
    bus = Bus()
    bus.node("n", "a")
    watcher = bus.node("w")
    for number in range(100):
        watcher.send(Kind.MONITOR, request_id=request_id(100 + number), target=b"a")
    bus.step()
    watcher.die()
    bus.pass_time(5.0)

    assert bus.supervisor._membership.monitors._watched == {}


def test_a_bus_lets_so_many_nodes_in_and_of_strangers_so_much_waits():
    bus = Bus()
    session_table = bus.state.session_table
    for number in range(MOST_SESSIONS):
        session_table.open(b"r" + b"%16d" % number, f"n{number}", {}, bus.now)
    peer = Peer(bus, "late")
    peer.incarnation = b"?" * 16
    bus.peers.append(peer)
    for _ in range(2_000):
        peer.hello()
    bus.step()

    counts = refused(bus)
    assert counts["node_refused"] + counts["input_full"] == 2_000
    assert counts["node_refused"] < 1_000
    assert len(session_table.sessions) == MOST_SESSIONS


def test_the_bytes_of_all_delegations_have_a_bound_and_come_back():
    bus, alice, bob, _ = trio(Limits(total_bytes=16_000))
    for number in range(100, 120):
        alice.delegate("alice", to="bob", number=number, params="x" * 400)
    bus.step()
    refusals = [received for received in alice.took(Kind.RESPONSE) if received.status is Status.REJECTED_OVERLOAD]
    assert {received.code for received in refusals} == {"broker_full"}
    ledger, account = bus.state.ledger, bus.state.session_table.account("nalice")
    assert 16_000 < ledger.size + account.size <= 16_000 + 2_000  # as much as is free, and what the last one takes

    for number in [1, *bob.work()]:
        bob.respond("bob", number)
    bus.step()
    assert ledger.size == account.size == 0


def test_who_fills_the_broker_leaves_room_for_others():
    bus, alice, bob, _ = trio(Limits(total_bytes=64_000))
    for number in range(100, 180):
        alice.delegate("alice", to="bob", number=number, params="x" * 400)
    bus.step()
    assert any(received.status is Status.REJECTED_OVERLOAD for received in alice.took(Kind.RESPONSE))
    alice.inbox.clear()
    alice.delegate("alice", capability="ether.statistics")
    bus.step()
    assert [received.status for received in alice.took(Kind.RESPONSE)] == [Status.COMPLETED], "she may ask why"
    carol = bus.delegator("carol")
    number = carol.delegate("carol", to="bob", params="x" * 400)
    bus.step()
    assert number in bob.work()

    alice.die()
    bus.pass_time(4.0)
    again = bus.delegator("alice")  # a name that comes back has what it had
    again.delegate("alice", to="bob", number=200, params="x" * 400)
    bus.step()
    assert [received.code for received in again.took(Kind.RESPONSE)] == ["broker_full"]


def test_the_account_of_a_node_that_left_is_kept_while_its_leases_are():
    table = Bus().state.session_table
    kept, empty = table.account("holds"), table.account("nothing")
    MemoryQuota().add(kept, 1)
    table._most_accounts = 0
    table._account_of("", "comes")

    assert table.account("holds") is kept
    assert table.account("nothing") is not empty


def test_accounts_of_nodes_that_left_are_forgotten_once_nothing_is_kept_for_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(session_table, "_FEW_ACCOUNTS", 8)
    bus, alice, bob, _ = trio()
    alice.die()
    bus.pass_time(4.0)
    for number in range(40):
        bus.delegator(f"d{number}").die()
        bus.pass_time(4.0)
    accounts = bus.state.session_table._accounts
    assert len(accounts) <= 2 * 4 + 8
    assert accounts["nalice", False].size > 0
    assert accounts["nbob", False] is bob.session.account


# -- resuming ----------------------------------------------------------------------------------------------------


def test_resume_gives_nobody_what_is_anothers():
    bus, alice, bob, mallory = trio()
    bob.respond("bob", 1, Status.COMPLETED)
    alice.die()
    bus.pass_time(4.0)
    alice.delegate("alice", to="bob", number=2)
    mallory.inbox.clear()
    mallory.send(
        Kind.RESUME, body={"awaiting": [request_id(1), request_id(2)], "holding": {"bob": [[request_id(1), 1]]}}
    )
    bus.step()

    assert {received.status for received in mallory.took(Kind.RESPONSE)} <= {Status.FAILED_EXECUTION}
    assert not bob.took(Kind.CANCEL)
    assert bus.agent("bob").session is bob.session


@pytest.mark.parametrize(
    "body",
    [
        {"holding": {"mallory": [[1 << 40, 1]]}},
        {"holding": {"mallory": [[b"x" * 16, float("inf")]]}},
        {"holding": {"mallory": [[b"x", 1]]}},
        {"holding": {"mallory": {"a": 1}}},
        {"holding": [1]},
        {"awaiting": [b"x"]},
        {"awaiting": {"a": 1}},
    ],
)
def test_a_resume_that_is_none_is_refused(body: dict[str, object]):
    bus, _, _, mallory = trio()
    mallory.send(Kind.RESUME, body=body)
    bus.step()

    assert mallory.refusal().code == "invalid_envelope"
    assert mallory.session.holding == {}


def test_a_resume_of_many_ids_is_answered_over_many_steps_and_has_a_bound(monkeypatch: pytest.MonkeyPatch):
    bus, _, _, mallory = trio()
    mallory.send(Kind.RESUME, body={"awaiting": [request_id(5000 + number) for number in range(1_000)]})
    bus.step()
    assert len(mallory.took(Kind.RESPONSE)) == LOOK_UPS_PER_STEP
    assert bus.supervisor.next_wake() == bus.now
    for _ in range(1_000 // LOOK_UPS_PER_STEP):
        bus.step()
    assert len(mallory.took(Kind.RESPONSE)) == 1_000 - LOOK_UPS_PER_STEP

    monkeypatch.setattr(outcome_replay, "MOST_AWAITED", 1_500)
    for token in (7, 8):
        awaiting = [request_id(9000 + 1_000 * token + number) for number in range(1_000)]
        mallory.send(Kind.RESUME, request_id=request_id(token), body={"awaiting": awaiting})
    bus.step()
    (refused,) = mallory.took(Kind.ERROR)
    assert (refused.header.request_id, refused.code) == (request_id(8), "too_much")
    for _ in range(2_000 // LOOK_UPS_PER_STEP):
        bus.step()
    assert len(mallory.took(Kind.RESPONSE)) == 1_000


def test_what_a_node_says_it_holds_and_was_not_given_is_cancelled_at_once_at_its_cost_and_not_kept():
    bus, _, _, mallory = trio()
    session = mallory.session
    for chunk in range(5):
        before = session.input.tag
        held = [[request_id(1_000 * chunk + number + 1), 1] for number in range(1_000)]
        mallory.send(Kind.RESUME, body={"holding": {"bob": held, "x": []} if chunk else {"x": held}})
        bus.step()
        assert len(mallory.took(Kind.CANCEL)) == 1_000
        assert session.input.tag - before > 700
    assert not session.holding

    mallory.send(Kind.REGISTER, request_id=request_id(6), source=b"x", body={"capabilities": []})
    bus.step()
    assert not mallory.took(Kind.CANCEL)


def test_what_a_node_was_given_in_its_session_is_not_kept_as_held_either():
    bus, alice, _, mallory = trio()
    for number in range(10, 60):
        alice.delegate("alice", to="mallory", number=number, timeout=1000.0)
    bus.step()
    given = [[work.header.request_id, work.header.attempt] for work in mallory.took(Kind.DELEGATION)]
    assert len(given) > 20
    mallory.send(Kind.RESUME, body={"holding": {"mallory": given}})
    bus.step()

    assert not mallory.took(Kind.CANCEL)
    assert not mallory.session.holding
    mallory.respond("mallory", 10, Status.COMPLETED)
    bus.step()
    assert [received.status for received in alice.took(Kind.RESPONSE)] == [Status.COMPLETED]


def test_a_node_that_sends_and_acknowledges_nothing_is_cut_off_at_its_bound(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(backlog, "_OUTBOX", 1 << 20)
    world = World()
    deaf = world.life("deaf")
    world.settle()
    session = world.supervisor.state.session_table.find("deaf")
    assert session is not None
    for step in range(60):
        held = [[request_id(1_000 * step + number + 1), 1] for number in range(1_000)]
        deaf.say(pack_envelope(Kind.RESUME, body=pack({"holding": {"x": held}})))
        world.journal.sync()
        world.step()
        deaf.inbound.clear()
        if session.lost:
            break

    assert "does not read" in session.lost
    assert step < 40


@pytest.mark.parametrize("body", [
    {"holding": {"mallory": [[request_id(number), 1] for number in range(1_001)]}},
    {"holding": {f"a{number}": [] for number in range(1_001)}},
    {"awaiting": [request_id(number) for number in range(1_001)]},
    {"awaiting": [request_id(number) for number in range(501)], "holding": {"x": [[request_id(n), 1] for n in range(500)]}},
])  # fmt: skip
def test_a_resume_of_more_than_it_may_name_is_refused_whole(body: dict[str, object]):
    bus, _, _, mallory = trio()
    mallory.send(Kind.RESUME, body=body)
    bus.step()

    assert mallory.refusal().code == "too_much"
    assert not mallory.took(Kind.CANCEL)
    assert not mallory.took(Kind.RESPONSE)


@pytest.mark.parametrize("name", ["a" * 201, "", "\x1b[2J", "a b"])
def test_a_resume_of_an_agent_that_can_have_no_such_name_is_none(name: str):
    bus, _, _, mallory = trio()
    mallory.send(Kind.RESUME, body={"holding": {name: []}})
    bus.step()

    assert mallory.refusal().code == "invalid_envelope"
