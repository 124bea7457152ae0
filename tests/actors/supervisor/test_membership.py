"""Who is on the bus: joining, showing life, going, and being told."""

from __future__ import annotations

from typing import Any

import pytest

from ether_actors.supervisor.registry.registration import Condition
from ether_broker.envelope.manifest.manifest import Capability, Manifest
from ether_broker.envelope.payload import unpack
from ether_broker.errors import MalformedFrame
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.timing import DEFAULT_TIMING, Timing
from ether_broker.wire.frame import DRAINS, Kind, join_frame, pack_envelope
from tests.actors.peers import Bus, Peer, request_id


def newcomer(bus: Bus, name: str) -> Peer:
    peer = Peer(bus, name)
    bus.peers.append(peer)
    return peer


# -- nodes -------------------------------------------------------------------------------------------------------


def test_a_node_is_welcomed_with_the_clock_and_the_limits_of_the_bus():
    bus = Bus(now=42.0)
    peer = newcomer(bus, "n")

    peer.hello(host="h", pid=7)
    bus.step()

    (welcome,) = peer.took(Kind.WELCOME)
    assert welcome.body["clock"] == 42.0
    assert {"broker", "heartbeat", "silence", "max_payload", "default_timeout", "protocol"} <= welcome.body.keys()
    assert bus.events("node_up") == [{"event": "node_up", "node": "n"}]


def test_saying_hello_again_is_welcomed_again_but_happens_once():
    bus = Bus()
    peer = newcomer(bus, "n")
    peer.hello()
    peer.hello()
    bus.step()

    assert len(peer.took(Kind.WELCOME)) == 2
    assert len(bus.events("node_up")) == 1


@pytest.mark.parametrize("name", ["", "with space", "x" * 201, "ü", "ether", "node:n", 5, None, b"n"])
def test_a_node_with_an_impossible_name_is_told_why_it_is_not_let_in(name: Any):
    bus = Bus()
    peer = newcomer(bus, name)

    peer.hello()
    bus.step()

    assert peer.refusal().code == "node_refused"
    assert bus.state.session_table.sessions == []


def test_a_node_whose_name_is_taken_is_told_so():
    bus = Bus()
    bus.node("n")
    other = newcomer(bus, "n")

    other.hello()
    bus.step()

    refusal = other.refusal()
    assert refusal.code == "name_taken"
    assert "choose another name" in refusal.body["message"]


def test_a_node_with_the_name_of_an_agent_of_another_is_told_so_before_it_is_let_in():
    bus = Bus()
    bus.node("n", "a")
    late = newcomer(bus, "a")
    late.hello()
    bus.step()

    assert late.refusal().code == "name_taken"
    assert [peer.node for peer in bus.state.session_table.sessions] == ["n"]


def test_a_name_is_free_again_as_soon_as_its_node_has_said_bye():
    bus = Bus()
    peer = bus.node("n", "a")
    peer.send(Kind.BYE)
    bus.step()

    other = newcomer(bus, "n")
    other.hello()
    other.register("a")
    bus.step()

    assert len(other.took(Kind.WELCOME)) == len(other.took(Kind.REGISTERED)) == 1


@pytest.mark.parametrize("how", ["left", "gone"])
def test_observers_hear_that_a_node_has_gone_before_another_of_its_name_has_come(how: str):
    bus = Bus()
    names = [f"a{number}" for number in range(200)]  # more than are ruled on in one step
    peer, other = bus.node("n", *names), newcomer(bus, "n")
    if how == "left":
        peer.send(Kind.BYE)
    else:
        bus.state.session_table.unreachable(peer.session.receiver)
    other.hello()
    other.register("a0")
    bus.step()

    assert len(other.took(Kind.WELCOME)) == len(other.took(Kind.REGISTERED)) == 1
    told = [event["event"] for event in bus.events() if "agent" not in event]
    assert told == ["node_up", *(["node_leaving"] if how == "left" else []), "node_down", "node_up"]
    of_agent = [event["event"] for event in bus.events() if event.get("agent") == "a0"]
    assert of_agent == ["agent_up", "agent_down", "agent_up"]
    assert bus.agent("a0").session is other.session


def test_a_newer_schema_is_refused():
    bus = Bus()
    peer = newcomer(bus, "n")

    peer.hello(schema_version="2.0")
    bus.step()

    assert peer.refusal().code == "incompatible_version"


def test_hello_on_the_talking_side_or_with_a_made_up_routing_id_is_refused():
    bus = Bus()
    hello = join_frame([pack_envelope(Kind.HELLO)])

    bus.arrive(b"t" + bytes(16), hello)
    bus.arrive(b"short", hello)
    bus.arrive(b"", hello)
    bus.step()

    assert bus.state.session_table.sessions == []


def test_a_silent_node_is_lost_and_one_that_only_shows_life_is_not():
    bus = Bus()
    quiet = bus.node("quiet", "q")
    bus.node("alive", "a")
    quiet.die()

    bus.pass_time(DEFAULT_TIMING.silence - 0.1)
    assert bus.events("node_down") == []
    bus.pass_time(0.6)

    assert [event["node"] for event in bus.events("node_down")] == ["quiet"]
    assert [event["agent"] for event in bus.events("agent_down")] == ["q"]
    assert bus.agent("q").condition is Condition.DOWN
    assert bus.agent("a").condition is Condition.UP


def test_a_peer_whose_connection_is_gone_is_lost_at_once():
    bus = Bus()
    bus.node("n", "a")

    bus.state.session_table.unreachable(bus.peers[0].session.receiver)
    assert bus.supervisor.next_wake() <= bus.now
    bus.step()

    assert [event["reason"] for event in bus.events("node_down")] == ["its connection is gone"]


def test_what_a_lost_node_sends_is_answered_with_an_error_until_it_says_hello():
    bus = Bus()
    peer = bus.node("n", "a")
    peer.is_dead = True
    bus.pass_time(DEFAULT_TIMING.silence + 1)
    peer.is_dead = False

    peer.send(Kind.HEARTBEAT, body={})
    bus.step()
    assert "HELLO" in peer.refusal().body["message"]

    peer.hello()
    peer.register("a")
    bus.step()
    assert len(peer.took(Kind.REGISTERED)) == 1


def test_the_broker_shows_life_each_second_to_all_but_those_that_left():
    bus = Bus()
    peer, leaver = bus.node("n"), bus.node("leaver")
    leaver.send(Kind.BYE)
    bus.step()
    assert len(leaver.took(Kind.BYE)) == 1

    bus.pass_time(3.01)

    assert [beat.body["clock"] for beat in peer.took(Kind.HEARTBEAT)] == pytest.approx(
        [1001.0, 1002.0, 1003.0], abs=0.3
    )
    assert leaver.took(Kind.HEARTBEAT) == []


def test_a_node_that_left_is_no_event_of_a_node_going_down():
    bus = Bus()
    peer = bus.node("n", "a")

    peer.send(Kind.BYE)
    bus.pass_time(10.0)

    assert bus.events("node_down") == []
    assert [event["reason"] for event in bus.events("agent_down")] == ["left"]
    assert bus.state.session_table.sessions == []


def test_how_busy_agents_are_is_noted_from_their_own_node_only():
    bus = Bus()
    peer, other = bus.node("n", "a"), bus.node("o", "b")

    other.send(Kind.HEARTBEAT, body={"agents": {"b": {"running": 2}}})
    peer.send(Kind.HEARTBEAT, body={"agents": {"a": {"running": 1}, "b": {"running": 9}, "nobody": {}}})
    bus.step()

    assert (bus.agent("a").load, bus.agent("b").load) == ({"running": 1}, {"running": 2})


# -- agents ------------------------------------------------------------------------------------------------------


def test_an_agent_is_registered_under_the_name_of_the_envelope():
    bus = Bus()
    peer = bus.node("n")

    number = peer.register("a", "x.y")
    bus.step()

    (registered,) = peer.took(Kind.REGISTERED)
    assert registered.number == number
    assert bus.agent("a").manifest.agent == "a"
    (event,) = bus.events("agent_up")
    assert (event["agent"], event["node"], event["version"]) == ("a", "n", "0.1.0")
    assert (event["incarnation"], unpack(event["manifest"])) == (
        peer.session.digest,
        {"capabilities": [{"name": "x.y"}]},
    )


def test_agents_with_the_same_manifest_each_have_their_own_name():
    bus = Bus()
    bus.node("n", "a", "b")

    assert (bus.agent("a").manifest.agent, bus.agent("b").manifest.agent) == ("a", "b")


@pytest.mark.parametrize(
    ("name", "body", "code"),
    [
        (b"ether", {}, "invalid_manifest"),
        (b"node:x", {}, "invalid_manifest"),
        (b"", {}, "invalid_manifest"),
        (b"two words", {}, "invalid_envelope"),
        (b"\xff", {}, "invalid_envelope"),
        (b"x" * 201, {}, "invalid_envelope"),
        (b"a", {"capabilities": [{"name": "no such name!"}]}, "invalid_manifest"),
        (b"a", {"capabilities": [{"name": "x"}, {"name": "x"}]}, "invalid_manifest"),
        (b"a", {"capabilities": [{"name": "x"}], "exclusions": ["x"]}, "invalid_manifest"),
        (b"a", {"capabilites": []}, "invalid_manifest"),
        (b"a", {"schema_version": "2.0"}, "incompatible_version"),
        (b"a", [1], "invalid_envelope"),
        (b"a", b"\xc1", "invalid_envelope"),
    ],
)
def test_a_manifest_that_cannot_be_is_refused_with_its_reason(name: bytes, body: object, code: str):
    bus = Bus()
    peer = bus.node("n")

    peer.send(Kind.REGISTER, request_id=request_id(99), source=name, body=body)
    bus.step()

    refusal = peer.refusal()
    assert (refusal.number, refusal.code) == (99, code)
    assert len(bus.state.registry) == 0


def test_a_name_that_lives_elsewhere_is_refused_and_stays_where_it_is():
    bus = Bus()
    bus.node("n", "a")
    other = bus.node("o")

    other.register("a")
    bus.step()

    assert other.refusal().code == "duplicate_agent"
    assert bus.agent("a").session.node == "n"


def test_only_its_own_node_says_that_an_agent_leaves():
    bus = Bus()
    bus.node("n", "a")
    other = bus.node("o", "b")

    other.send(Kind.UNREGISTER, source=b"a", body={"condition": "gone"})
    other.send(Kind.UNREGISTER, source=b"nobody", body={})
    bus.step()

    assert bus.agent("a").condition is Condition.UP


def test_an_agent_that_restarts_keeps_its_mailbox_which_takes_more():
    bus = Bus()
    peer, d = bus.node("n", "a"), bus.delegator("d")
    peer.send(Kind.UNREGISTER, source=b"a", body={"condition": "restarting", "reason": "boom"})
    bus.step()
    number = d.delegate("d", to="a")
    bus.step()
    assert peer.work() == []
    assert bus.events("agent_restarting")[0]["reason"] == "boom"

    peer.register("a")
    bus.step()

    assert peer.work() == [number]


@pytest.mark.parametrize("who", [b"a", b""])
def test_an_agent_that_drains_takes_no_work_again_because_it_is_restarted(who: bytes):
    bus = Bus()
    peer, d = bus.node("n", "a"), bus.delegator("d")
    peer.send(Kind.UNREGISTER, source=who, flags=DRAINS)
    peer.send(Kind.UNREGISTER, source=b"a", body={"condition": "restarting", "reason": "boom"})
    bus.step()
    d.delegate("d")
    bus.step()
    assert (d.outcome().code, bus.events("agent_restarting")[0]["reason"]) == ("agent_down", "boom")

    peer.register("a")
    d.delegate("d")
    bus.step()

    assert (d.outcome().code, peer.work(), bus.agent("a").condition) == ("agent_down", [], Condition.DRAINING)


def test_a_draining_node_speaks_for_all_of_its_agents():
    bus = Bus()
    peer = bus.node("n", "a", "b")

    peer.send(Kind.UNREGISTER, flags=DRAINS)
    bus.step()

    assert {bus.agent(name).condition for name in "ab"} == {Condition.DRAINING}
    assert sorted(event["agent"] for event in bus.events("agent_draining")) == ["a", "b"]


@pytest.mark.parametrize(("up_for", "remembered"), [(0.0, 10.0), (120.0, 120.0), (5_000.0, 600.0)])
def test_a_lost_agent_is_remembered_as_long_as_it_was_there_and_ten_seconds_to_ten_minutes(up_for, remembered):
    bus = Bus()
    peer, d = bus.node("n", "a"), bus.delegator("d")
    bus.pass_time(up_for)
    peer.die()
    bus.pass_time(remembered - 2.0)
    d.delegate("d", to="a")
    bus.step()
    assert d.outcome().code == "agent_down"

    bus.pass_time(12.0)  # silence is noticed, names are looked at once a second
    d.delegate("d", to="a")
    bus.step()

    assert d.outcome().code == "unknown_agent"


def test_an_agent_that_comes_back_is_remembered_for_all_the_time_since_it_was_there_first():
    bus = Bus()
    peer = bus.node("n", "a")
    bus.pass_time(300.0)
    peer.die()
    bus.pass_time(5.0)
    bus.node("n", "a").die()
    bus.pass_time(290.0)

    assert bus.agent("a").condition is Condition.DOWN


def test_names_that_were_there_for_a_moment_push_out_none_that_were_there_for_long():
    bus = Bus(limits=Limits(memory_bytes=64 << 14))  # 64 agents, and half of them may be down
    peer = bus.node("n", "a")
    bus.pass_time(300.0)
    peer.die()
    bus.pass_time(5.0)
    for number in range(4):
        bus.node(f"m{number}", *(f"m{number}-{agent}" for agent in range(20))).die()
        bus.pass_time(4.0)

    down = [agent for agent in bus.state.registry.agents if agent.condition is Condition.DOWN]
    assert len(down) == 32
    assert bus.agent("a") in down


def test_a_delegator_that_is_lost_is_forgotten_at_once():
    bus = Bus()
    d = bus.delegator("d")
    d.die()
    bus.pass_time(5.0)

    assert bus.state.registry.get(b"d") is None


def test_an_agent_that_was_registered_anew_with_nothing_and_is_lost_is_remembered_with_the_work_that_it_has():
    bus = Bus()
    peer, d = bus.node("n", "a", idempotent=True), bus.delegator("d")
    number = d.delegate("d", to="a", timeout=100.0)
    bus.step()
    assert peer.work() == [number]
    peer.register_manifest(Manifest(agent="a"))
    bus.step()
    peer.die()
    bus.pass_time(5.0)
    assert bus.agent("a").condition is Condition.DOWN

    again = bus.node("m")
    again.register("a", idempotent=True)
    bus.step()

    (received,) = again.took(Kind.DELEGATION)
    assert (received.number, received.header.attempt) == (number, 2)


# -- watchers ----------------------------------------------------------------------------------------------------


def down(peer: Peer) -> list[tuple[int, bytes, str]]:
    return [(told.number, told.header.target, told.body["reason"]) for told in peer.took(Kind.DOWN)]


def test_a_monitor_is_told_once_when_an_agent_leaves_crashes_or_is_lost():
    bus = Bus()
    peer, watcher = bus.node("n", "a", "b", "c"), bus.node("w")
    for number, name in ((11, b"a"), (12, b"b"), (13, b"c"), (14, b"node:n")):
        watcher.send(Kind.MONITOR, request_id=request_id(number), target=name)
    peer.send(Kind.UNREGISTER, source=b"a", body={"condition": "gone"})
    peer.send(Kind.UNREGISTER, source=b"b", body={"condition": "restarting", "reason": "boom"})
    bus.step()
    assert down(watcher) == [(11, b"a", "left"), (12, b"b", "boom")]

    peer.die()
    bus.pass_time(5.0)

    told = down(watcher)
    assert told[0][:2] == (14, b"node:n")
    assert told[1] == (13, b"c", "node_lost")
    assert len(told) == 2


def test_a_monitor_of_what_is_not_there_is_told_at_once():
    bus = Bus()
    watcher = bus.node("w")

    watcher.send(Kind.MONITOR, request_id=request_id(7), target=b"nobody")
    watcher.send(Kind.MONITOR, request_id=request_id(8), target=b"node:nowhere")
    bus.step()

    assert down(watcher) == [(7, b"nobody", "unknown"), (8, b"node:nowhere", "unknown")]


def test_a_watcher_that_is_lost_is_told_nothing_and_forgotten():
    bus = Bus()
    bus.node("n", "a")
    watcher = bus.node("w")
    watcher.send(Kind.MONITOR, request_id=request_id(7), target=b"a")
    bus.step()
    watcher.die()
    bus.pass_time(5.0)

    assert b"a" not in bus.supervisor._membership.monitors._watched


def test_an_observer_is_told_where_it_begins_and_may_stop():
    bus = Bus()
    peer = bus.node("n")
    peer.send(Kind.OBSERVE, request_id=request_id(5), body={"from": 1, "topics": []})
    bus.step()
    (answer,) = peer.took(Kind.OBSERVE)
    assert (answer.number, answer.body["next"]) == (5, 1)
    assert peer.took(Kind.TAP) != []

    peer.send(Kind.OBSERVE, request_id=request_id(5), body={"stop": True})
    peer.register("a")
    bus.step()

    assert peer.took(Kind.TAP) == []


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (Kind.OBSERVE, {"from": "yesterday"}),
        (Kind.OBSERVE, {"from": -1}),
        (Kind.OBSERVE, {"from": float("nan")}),
        (Kind.OBSERVE, {"topics": 7}),
        (Kind.OBSERVE, {"topics": [7]}),
        (Kind.OBSERVE, 7),
        (Kind.HEARTBEAT, {"agents": [1]}),
        (Kind.HEARTBEAT, 7),
        (Kind.UNREGISTER, b"\xc1"),
        (Kind.REGISTER, 7),
        (Kind.WELCOME, {}),
        (Kind.EVENT, {}),
        (0, {}),
        (200, {}),
    ],
)
def test_a_control_envelope_with_a_body_that_its_kind_does_not_have_is_refused_with_the_reason(kind: int, body: object):
    bus = Bus()
    peer = bus.node("n", "a")

    peer.send(kind, request_id=request_id(77), source=b"a", body=body)
    bus.step()

    refusal = peer.refusal()
    assert refusal.code in {"invalid_envelope", "invalid_manifest", MalformedFrame.code}
    assert refusal.number == (0 if refusal.code == MalformedFrame.code else 77)
    assert peer.session.cursors == {}


def test_a_manifest_may_be_as_large_as_many_capabilities_make_it():
    bus = Bus()
    peer = bus.node("n")

    peer.register_manifest(Manifest(agent="a", capabilities=tuple(Capability(name=f"c{n}") for n in range(500))))
    bus.step()

    assert len(bus.agent("a").manifest.capabilities) == 500


def test_what_a_heartbeat_in_parts_has_told_of_agents_that_leave_meanwhile_is_not_kept():
    bus = Bus()
    peer = bus.node("n", "a")
    for number in range(10):
        peer.register(f"b{number}")
        peer.send(Kind.HEARTBEAT, body={"agents": {"a": {"running": 1}, f"b{number}": {"running": 1}}, "more": True})
        peer.send(Kind.UNREGISTER, source=f"b{number}".encode(), body={"condition": "gone"})
    bus.step()

    assert peer.session.reported == {b"a"}


def test_a_heartbeat_in_parts_tells_of_all_and_only_its_last_part_says_who_has_nothing_to_do():
    bus = Bus()
    peer = bus.node("n", "a", "b", "c")
    peer.send(Kind.HEARTBEAT, body={"agents": {"a": {"running": 1}, "b": {"running": 1}, "nobody": {"running": 1}}})
    bus.step()
    peer.send(Kind.HEARTBEAT, body={"agents": {"c": {"running": 2}}, "more": True})
    bus.step()
    loads = [bus.agent(name).load for name in "abc"]
    assert loads == [{"running": 1}, {"running": 1}, {"running": 2}]
    peer.send(Kind.HEARTBEAT, body={"agents": {"b": {"running": 3}}})
    bus.step()

    loads = [bus.agent(name).load for name in "abc"]
    assert loads == [{}, {"running": 3}, {"running": 2}]
    assert peer.session.loaded == {b"b", b"c"}


def test_a_broker_that_stood_still_loses_nobody_for_that_and_those_who_stay_silent_three_seconds_later():
    # Given a node that shows life, one that does not any more, and a broker that does not run for 20 s
    bus = Bus()
    there, gone = bus.node("na", "a"), bus.node("nb", "b")
    bus.pass_time(1.0)
    gone.die()

    # When it runs again
    bus.now += 20.0
    bus.step()
    bus.state.session_table.unreachable(there.session.receiver)  # it is reconnecting
    bus.pass_time(2.5)

    # Then there is time to be heard
    assert bus.events("node_down") == []
    bus.pass_time(1.0)
    assert [event["node"] for event in bus.events("node_down")] == ["nb"]


def test_time_in_which_a_broker_stood_still_does_not_make_it_older() -> None:
    bus = Bus()
    bus.node("na", "a")
    bus.pass_time(1.0)
    assert bus.state.is_young

    bus.now += 90.0
    bus.step()

    assert bus.state.is_young
    bus.pass_time(50.0)
    assert bus.state.is_young
    bus.pass_time(12.0)
    assert not bus.state.is_young


@pytest.mark.parametrize(
    ("heartbeat", "silence", "seconds"), [(0.3, 0.7, 0.9), (0.8, 1.7, 1.9), (1.0, 3.0, 2.9), (0.3, 0.7, 2.5)]
)
def test_a_broker_that_stood_still_for_a_little_longer_than_a_silence_loses_nobody(
    heartbeat: float, silence: float, seconds: float
) -> None:
    bus = Bus(timing=Timing(heartbeat=heartbeat, silence=silence))
    bus.node("na", "a")
    bus.pass_time(0.2)

    bus.now += seconds
    bus.step()

    assert bus.events("node_down") == []
