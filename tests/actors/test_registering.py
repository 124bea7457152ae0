"""REGISTER: one agent or many of one manifest, all or none, told to the journal once, and counted while they are there."""

from __future__ import annotations

from typing import Any

import pytest

from ether_actors.history import History
from ether_actors.quota import MOST_AGENTS, MOST_AT_A_TIME, MOST_MANIFESTS
from ether_broker.mailbox import Limits
from ether_broker.manifest import Capability, Manifest
from ether_broker.payload import pack, unpack
from ether_broker.wire import Kind
from tests.actors.peers import Bus, Peer, request_id

MANIFEST = pack({"capabilities": [{"name": "x.y", "description": "d" * 1_000}]})


def register(peer: Peer, names: Any, manifest: Any = MANIFEST, number: int = 1) -> None:
    peer.send(Kind.REGISTER, request_id=request_id(number), body={"agents": names, "manifest": manifest})


def up(bus: Bus) -> list[str]:
    return sorted(agent.manifest.agent for agent in bus.records.registry.agents)


def test_many_agents_of_one_manifest_come_in_by_one_word_and_take_work():
    bus = Bus()
    peer, d = bus.node("n"), bus.delegator("d")
    register(peer, ["a1", "a2", "a3"])
    bus.step()
    for agent in ("a1", "a2", "a3"):
        d.delegate("d", to=agent)
    bus.step()

    assert [received.header.request_id for received in peer.took(Kind.REGISTERED)] == [request_id(1)]
    assert len(peer.work()) == 3
    assert peer.session.agents.keys() == {b"a1", b"a2", b"a3"}


def test_their_manifest_is_told_once_and_the_fold_knows_it_of_each():
    bus = Bus()
    peer = bus.node("n")
    register(peer, ["a1", "a2", "a3"])
    bus.step()

    told = [event for event in bus.events("agent_up") if event["agent"].startswith("a")]
    assert [(event["agent"], "manifest" in event, event.get("like")) for event in told] == [
        ("a1", True, None), ("a2", False, "a1"), ("a3", False, "a1"),
    ]  # fmt: skip
    for history in (bus.history, History.of(bus.history.pack())):
        assert {history.agents[name].manifest for name in ("a1", "a2", "a3")} == {MANIFEST}


@pytest.mark.parametrize("name", ["taken", "no name", "ether", "node:n", ""])
def test_all_come_in_or_none(name: str):
    bus = Bus()
    bus.node("other", "taken")
    peer = bus.node("n")
    register(peer, ["a1", name, "a2"])
    bus.step()

    assert peer.refusal().header.request_id == request_id(1)
    assert up(bus) == ["taken"]
    assert not [event for event in bus.events("agent_up") if event["node"] == "n"]
    assert peer.session.manifest_bytes == 0


@pytest.mark.parametrize(
    ("names", "manifest"),
    [
        ([], MANIFEST), ("a", MANIFEST), ([1], MANIFEST), (["a", "a"], MANIFEST), (["a"], {}), (["a"], None),
        ([f"a{number}" for number in range(MOST_AT_A_TIME + 1)], MANIFEST), (["a"], b"\xc1"), (["a"], b"\x90"),
    ],
)  # fmt: skip
def test_what_is_no_list_of_names_and_a_manifest_is_refused(names: Any, manifest: Any):
    bus = Bus()
    peer = bus.node("n")
    register(peer, names, manifest)
    bus.step()

    assert peer.refusal().code in {"invalid_envelope", "invalid_manifest"}
    assert up(bus) == []


def test_a_node_has_so_many_agents_and_more_of_those_it_has_is_no_more():
    bus = Bus()
    peer = bus.node("n")
    register(peer, ["a1", "a2"])
    bus.step()
    session = peer.session
    fill = {b"x%d" % number: None for number in range(MOST_AGENTS - 3)}
    session.agents |= fill
    peer.inbox.clear()
    register(peer, ["a1", "a2"])
    register(peer, ["a2", "a3", "a4"], number=2)
    register(peer, ["a2", "a3"], number=3)
    bus.step()
    for name in fill:
        del session.agents[name]

    assert [received.number for received in peer.took(Kind.REGISTERED)] == [1, 3]
    refusal = peer.refusal()
    assert (refusal.code, up(bus)) == ("too_much", ["a1", "a2", "a3"])
    assert "131,071 agents, its runtime's own among them; 2 more would be above 131,072" in refusal.body["message"]


def test_a_node_may_have_a_hundred_thousand_agents_of_a_user_beside_its_own():
    assert min(MOST_AGENTS, Limits().agents // 2) >= 100_000 + 1_000


def test_a_broker_with_little_memory_has_fewer_agents_and_a_node_half_of_them():
    bus = Bus(limits=Limits(memory=64 << 14))
    peers = [bus.node(f"n{number}") for number in range(3)]
    names = [[f"a{node}-{number}" for number in range(30)] for node in range(3)]
    for peer, of_node in zip(peers, names, strict=True):
        register(peer, of_node)
    register(peers[0], ["b1", "b2", "b3"], number=2)
    bus.step()

    assert [peer.refusal().code for peer in (peers[0], peers[2])] == ["too_much", "too_much"]
    assert up(bus) == sorted(names[0] + names[1])


def test_the_nodes_of_a_key_have_half_of_what_the_bus_may_have_also_when_some_are_lost():
    bus = Bus(limits=Limits(memory=64 << 14))
    one, two, three, other = (bus.node(f"n{number}") for number in range(4))
    for peer in (one, two, three):
        peer.session.owner = "k"
    other.session.owner = "another"
    register(one, [f"a{number}" for number in range(20)])
    register(two, [f"b{number}" for number in range(12)])
    register(two, ["b12"], number=2)
    register(other, [f"c{number}" for number in range(20)])
    bus.step()
    assert (two.refusal().code, len(up(bus))) == ("too_much", 52)

    bus.pass_time(100.0)
    one.die()
    bus.pass_time(5.0)
    register(three, ["d"])
    register(three, ["a0"], number=2)  # a name that the key has, and has it still
    bus.step()

    refusal = three.refusal()
    assert "The nodes of this key have 32 agents; 1 more would be above 32" in refusal.body["message"]
    bus.pass_time(120.0)
    register(three, ["d"], number=3)
    bus.step()
    assert bus.agent("d").session is three.session


def test_manifests_count_once_each_while_an_agent_has_them():
    bus = Bus()
    peer = bus.node("n")
    session = peer.session
    other = Manifest(agent="b", capabilities=(Capability(name="x.z"),))
    register(peer, ["a1", "a2"])
    bus.step()
    assert session.manifest_bytes == len(MANIFEST)
    register(peer, ["a3"])
    peer.register_manifest(other)
    bus.step()
    size = len(pack({"capabilities": [{"name": "x.z"}]}))
    assert session.manifest_bytes == len(MANIFEST) + size

    peer.register_manifest(other.model_copy(update={"agent": "a3"}))
    for agent in (b"a1", b"a2", b"b"):
        peer.send(Kind.UNREGISTER, source=agent, body={"condition": "gone"})
    bus.step()
    assert session.manifest_bytes == size
    peer.send(Kind.UNREGISTER, source=b"a3", body={"condition": "gone"})
    bus.step()
    assert (session.manifest_bytes, dict(session.manifests)) == (0, {})


def test_a_node_may_start_and_stop_agents_for_ever():
    bus = Bus()
    peer = bus.node("n")
    manifest = unpack(MANIFEST)
    passed = number = 0
    while passed < MOST_MANIFESTS + (1 << 20):
        number += 1
        manifest["capabilities"][0]["description"] = f"{number} " + "d" * 250_000
        packed = pack(manifest)
        passed += len(packed)
        register(peer, ["job"], packed)
        peer.send(Kind.UNREGISTER, source=b"job", body={"condition": "gone"})
        bus.step()
        assert not peer.took(Kind.ERROR)
        peer.inbox.clear()
