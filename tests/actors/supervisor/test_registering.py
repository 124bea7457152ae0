"""REGISTER: one agent or many of one manifest, all or none, told to the journal once, and counted while they are there."""

from __future__ import annotations

import itertools
import sys
from typing import Any

import pytest

from ether_actors.supervisor.journal.history import History
from ether_actors.supervisor.membership import registering
from ether_actors.supervisor.registry.quota import MOST_AGENTS, MOST_AT_A_TIME, MOST_MANIFESTS
from ether_actors.supervisor.registry.registration import Condition
from ether_broker.envelope.manifest.manifest import Capability, Manifest
from ether_broker.envelope.payload import pack, unpack
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.security.access_list import Access, RegisterRule
from ether_broker.transport.sessions.cost import CAPABILITY, MANIFEST_SHIFT
from ether_broker.wire.frame import Kind
from tests.actors.peers import Bus, Peer, request_id
from tests.actors.stored_journal import Disk, StoredJournal

MANIFEST = pack({"capabilities": [{"name": "x.y", "description": "d" * 1_000}]})


def register(peer: Peer, names: Any, manifest: Any = MANIFEST, number: int = 1) -> None:
    peer.send(Kind.REGISTER, request_id=request_id(number), body={"agents": names, "manifest": manifest})


def up(bus: Bus) -> list[str]:
    return sorted(agent.manifest.agent for agent in bus.state.registry.agents)


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


def test_those_come_in_that_may_where_their_node_says_so_and_it_is_told_of_the_others():
    bus = Bus()
    bus.node("other", "taken", "taken-too")
    peer = bus.node("n")
    body = {"agents": ["taken", "a1", "taken-too", "a2"], "manifest": MANIFEST, "partial": True}
    peer.send(Kind.REGISTER, request_id=request_id(1), body=body)
    bus.step()

    refused = peer.refusal()
    assert (refused.header.request_id, refused.code) == (request_id(1), "duplicate_agent")
    assert refused.body["agents"] == ["taken", "taken-too"]
    assert len(peer.took(Kind.REGISTERED)) == 1
    assert up(bus) == ["a1", "a2", "taken", "taken-too"]
    assert peer.session.agents.keys() == {b"a1", b"a2"}
    told = [event for event in bus.events("agent_up") if event["node"] == "n"]
    assert [(event["agent"], "manifest" in event) for event in told] == [("a1", True), ("a2", False)]


@pytest.mark.parametrize("name", ["no name", "ether", "node:n", ""])
def test_a_name_that_is_none_refuses_all_also_where_those_may_come_in_that_may(name: str):
    bus = Bus()
    peer = bus.node("n")
    body = {"agents": ["a1", name, "a2"], "manifest": MANIFEST, "partial": True}
    peer.send(Kind.REGISTER, request_id=request_id(1), body=body)
    bus.step()

    assert peer.refusal().code == "invalid_manifest"
    assert up(bus) == []


def test_where_none_may_come_in_nothing_is_said_but_that():
    bus = Bus()
    bus.node("other", "t1", "t2")
    peer = bus.node("n")
    body = {"agents": ["t1", "t2"], "manifest": MANIFEST, "partial": True}
    peer.send(Kind.REGISTER, request_id=request_id(1), body=body)
    bus.step()

    [refused] = peer.took(Kind.ERROR)
    assert refused.body["agents"] == ["t1", "t2"]
    assert peer.took(Kind.REGISTERED) == []
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
    assert min(MOST_AGENTS, Limits().most_agents // 2) >= 100_000 + 1_000


def test_a_broker_with_little_memory_has_fewer_agents_and_a_node_half_of_them():
    bus = Bus(limits=Limits(memory_bytes=64 << 14))
    peers = [bus.node(f"n{number}") for number in range(3)]
    names = [[f"a{node}-{number}" for number in range(30)] for node in range(3)]
    for peer, of_node in zip(peers, names, strict=True):
        register(peer, of_node)
    register(peers[0], ["b1", "b2", "b3"], number=2)
    bus.step()

    assert [peer.refusal().code for peer in (peers[0], peers[2])] == ["too_much", "too_much"]
    assert up(bus) == sorted(names[0] + names[1])


def test_the_nodes_of_a_key_have_half_of_what_the_bus_may_have():
    bus = Bus(limits=Limits(memory_bytes=64 << 14))
    one, two, other = (bus.node(f"n{number}") for number in range(3))
    one.session.owner = two.session.owner = "k"
    other.session.owner = "another"
    register(one, [f"a{number}" for number in range(20)])
    register(two, [f"b{number}" for number in range(12)])
    register(two, ["b12"], number=2)
    register(other, [f"c{number}" for number in range(20)])
    bus.step()

    refusal = two.refusal()
    assert (
        "take 32 places (one with a large manifest takes several), 0 of them down; 1 more would be above 32"
        in refusal.body["message"]
    )
    assert (refusal.code, len(up(bus))) == ("too_much", 52)


def lost(bus: Bus, names: list[str], *, after: float, owner: str = "") -> None:
    """Let a node with these agents be lost that was there for so many seconds."""
    peer = bus.node(f"lost-{names[0]}")
    peer.session.owner = owner
    register(peer, names)
    bus.step()
    bus.pass_time(after)
    peer.die()
    bus.pass_time(5.0)


def test_names_of_the_dead_make_room_for_the_living_the_first_to_be_forgotten_first_and_no_more_than_have_to():
    bus = Bus(limits=Limits(memory_bytes=64 << 14))
    lost(bus, [f"old{number}" for number in range(10)], after=300.0)
    lost(bus, [f"new{number}" for number in range(10)], after=30.0)
    peer, other = bus.node("n"), bus.node("m")
    register(peer, [f"a{number}" for number in range(32)])
    register(other, [f"b{number}" for number in range(18)])
    bus.step()

    assert not peer.took(Kind.ERROR) + other.took(Kind.ERROR)
    assert len(up(bus)) == 64
    assert [name for name in up(bus) if name.startswith(("old", "new"))] == [
        *(f"new{number}" for number in range(6, 10)), *(f"old{number}" for number in range(10)),
    ]  # fmt: skip


def test_names_of_a_keys_dead_make_room_for_its_living_and_those_of_another_stay():
    bus = Bus(limits=Limits(memory_bytes=64 << 14))
    lost(bus, [f"old{number}" for number in range(20)], after=300.0, owner="k")
    lost(bus, [f"other{number}" for number in range(10)], after=20.0, owner="another")
    peer = bus.node("n")
    peer.session.owner = "k"
    register(peer, [f"a{number}" for number in range(20)])
    bus.step()

    assert not peer.took(Kind.ERROR)
    assert len([name for name in up(bus) if name.startswith("other")]) == 10
    assert len([name for name in up(bus) if name.startswith("old")]) == 12
    assert bus.state.registry.of_key == {"another": 10, "k": 32}


def test_a_node_that_crashed_comes_back_at_once_with_as_many_other_names():
    bus = Bus(limits=Limits(memory_bytes=1_024 << 14))
    peer = bus.node("n")
    for life in range(3):
        peer.session.owner = "k"
        for first in range(0, 384, MOST_AT_A_TIME):
            register(peer, [f"life{life}-{number}" for number in range(first, first + MOST_AT_A_TIME)])
        bus.step()
        assert (peer.took(Kind.ERROR), len(peer.session.agents)) == ([], 384)
        bus.state.session_table.unreachable(peer.session.receiver)
        bus.supervisor.step([], bus.now, bus.now)
        peer.die()
        peer = Peer(bus, "n")
        bus.peers.append(peer)
        peer.hello()
        bus.supervisor.step(bus.take_arrivals(), bus.now, bus.now)

    assert bus.state.registry.of_key == {"k": 512}


def test_a_name_that_another_keys_node_takes_makes_room_among_its_own():
    bus = Bus(limits=Limits(memory_bytes=64 << 14))
    lost(bus, ["other0"], after=300.0, owner="another")
    lost(bus, [f"old{number}" for number in range(32)], after=300.0, owner="k")
    peer = bus.node("n")
    peer.session.owner = "k"
    register(peer, ["other0", "old7"])
    bus.step()

    assert not peer.took(Kind.ERROR)
    assert bus.state.registry.of_key == {"k": 32}
    assert len(bus.state.registry) == 32
    assert bus.agent("old7").session is bus.agent("other0").session is peer.session


def test_agents_that_are_down_and_have_work_make_no_room_and_the_refusal_says_how_many_are_down():
    bus = Bus(limits=Limits(memory_bytes=32 << 14))
    d, waiting = bus.delegator("d"), bus.node("w", *(f"w{number}" for number in range(10)), idempotent=True)
    bus.pass_time(20.0)
    numbers = [d.delegate("d", to=f"w{number}", timeout=50.0) for number in range(10)]
    bus.step()
    waiting.die()
    bus.pass_time(5.0)
    lost(bus, ["idle0", "idle1"], after=20.0)
    one, two = bus.node("n"), bus.node("m")
    register(one, [f"a{number}" for number in range(16)])
    bus.step()
    register(two, [f"b{number}" for number in range(6)])
    bus.step()
    refusal = two.refusal()
    assert (
        "take 29 places (one with a large manifest takes several), 12 of them down; 6 more would be above 32"
        in refusal.body["message"]
    )
    register(two, [f"b{number}" for number in range(5)])
    bus.step()

    assert not [name for name in up(bus) if name.startswith("idle")]
    assert all(bus.entry(number) for number in numbers)
    bus.pass_time(30.0)  # their deadlines
    register(two, ["b5", "b6", "b7"])
    bus.step()
    assert not two.took(Kind.ERROR)
    assert not [number for number in numbers if bus.entry(number)]


def test_who_is_refused_makes_nobody_forgotten():
    bus = Bus(limits=Limits(memory_bytes=32 << 14))
    lost(bus, [f"old{number}" for number in range(8)], after=300.0)
    peer, _taken = (
        bus.node("n", *(f"a{number}" for number in range(12))),
        bus.node("m", *(f"b{number}" for number in range(12))),
    )
    other = bus.node("o")
    before = up(bus)
    register(peer, ["c", "b1"])
    register(other, [f"c{number}" for number in range(9)])
    bus.step()

    assert (peer.refusal().code, other.refusal().code) == ("duplicate_agent", "too_much")
    assert up(bus) == before


def test_those_that_come_back_are_not_those_that_make_room():
    bus = Bus(limits=Limits(memory_bytes=32 << 14))
    lost(bus, [f"old{number}" for number in range(8)], after=300.0)
    names = [f"b{number}" for number in range(16)], [f"c{number}" for number in range(8)]
    peer, _other, another = bus.node("n"), bus.node("m", *names[0]), bus.node("o", *names[1])
    register(peer, ["d", *(f"old{number}" for number in range(8))])
    bus.step()
    register(another, ["d"], number=2)
    bus.step()
    assert (peer.refusal().code, another.took(Kind.ERROR)) == ("too_much", [])

    back = [f"old{number}" for number in range(1, 8)]
    register(peer, back)
    bus.step()

    assert not peer.took(Kind.ERROR)
    assert up(bus) == sorted(["d", *names[0], *names[1], *back])


def calls_of_a_step(bus: Bus) -> int:
    """How many functions are called in the step that takes what has arrived."""
    arrivals = bus.take_arrivals()
    calls = 0

    def count(*_args: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        bus.supervisor.step(arrivals, bus.now, bus.now)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("half", [256, 2_048])
@pytest.mark.parametrize("is_dead", [True, False])
def test_making_room_takes_what_is_forgotten_and_a_refusal_nothing_however_many_there_are(half: int, is_dead: bool):
    bus = Bus(limits=Limits(memory_bytes=2 * half << 14))
    peer, living, n = bus.node("lost"), bus.node("living"), bus.node("n")
    for of, name in ((peer, "d"), (living, "a")):
        for first in range(0, half, MOST_AT_A_TIME):
            register(of, [f"{name}{number}" for number in range(first, first + MOST_AT_A_TIME)])
    bus.step()
    peer.is_dead = is_dead
    bus.pass_time(5.0)
    assert len(bus.state.registry) == 2 * half
    register(n, ["b1", "b2", "b3"])

    assert calls_of_a_step(bus) < 3_000
    assert len(bus.state.registry) == 2 * half
    assert n.session.agents.keys() == ({b"b1", b"b2", b"b3"} if is_dead else set())


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


def test_a_manifest_is_charged_once_for_all_agents_of_its_class_also_after_very_many_others():
    bus = Bus()
    peer = bus.node("n")
    for number in range(1_100):
        peer.register("other", f"c.v{number}")
    bus.step()
    spent = []
    for name in ("a1", "a2"):
        before = peer.session.input.tag
        register(peer, [name])
        bus.step()
        spent.append(peer.session.input.tag - before)

    assert spent[0] - spent[1] == (len(MANIFEST) >> MANIFEST_SHIFT) + CAPABILITY
    assert len(bus.supervisor._membership.registering._manifests) == 1_000


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


def of_many(count: int, mark: str = "m") -> bytes:
    return pack({"capabilities": [{"name": f"{mark}.c{number}"} for number in range(count)]})


def test_an_agent_of_many_capabilities_counts_as_several():
    bus = Bus(limits=Limits(memory_bytes=700 << 14))  # of 512 capabilities of two words it counts as 113
    peers = [bus.node(f"n{number}") for number in range(3)]
    for number in range(8):
        register(peers[number % 3], [f"a{number}"], of_many(512), number=number + 1)
        bus.step()

    assert up(bus) == [f"a{number}" for number in range(6)]
    refusals = [refusal for peer in peers for refusal in peer.took(Kind.ERROR)]
    assert {refusal.code for refusal in refusals} == {"too_much"}
    assert "one with a large manifest takes several" in refusals[0].body["message"]

    bus.pass_time(100.0)
    peers[0].die()
    bus.pass_time(5.0)
    register(peers[1], ["b"], of_many(512), number=20)
    bus.step()
    assert bus.agent("b").condition is Condition.UP, "a dead one made room"
    register(peers[1], ["b"], of_many(1), number=21)
    register(peers[1], [f"c{number}" for number in range(60)], of_many(1), number=22)
    bus.step()
    assert len(up(bus)) == 66, "who declares less makes room too"


def test_the_names_under_which_capabilities_can_be_asked_for_count_and_those_of_the_dead_make_room():
    bus = Bus(limits=Limits(memory_bytes=64 << 14))
    peers = [bus.node(f"n{number}") for number in range(4)]
    deep = [
        pack({"capabilities": [{"name": f"a.b.c.d.e.f.g.h.c{number}"} for number in range(first, first + 4)]})
        for first in range(0, 400, 4)
    ]  # 17 names each, so each agent counts as three
    for number in range(30):
        register(peers[number % 2], [f"a{number}"], deep[number], number=number + 1)
    bus.step()
    assert len(up(bus)) == 21

    bus.pass_time(100.0)
    peers[0].die()
    peers[1].die()
    bus.pass_time(5.0)
    for number in range(8):
        register(peers[2], [f"b{number}"], deep[40 + number], number=number + 1)
    bus.step()
    assert {bus.agent(f"b{number}").condition for number in range(8)} == {Condition.UP}


def test_what_many_capabilities_cost_is_paid_by_who_registers_and_shared_out_when_they_leave():
    bus = Bus()
    peer = bus.node("n")
    for number in range(12):
        register(peer, [f"a{number}"], of_many(512), number=number + 1)
        bus.step()
    before = peer.session.input.tag
    register(peer, ["b"], of_many(512), number=90)
    bus.step()
    assert peer.session.input.tag - before > 1_024

    peer.send(Kind.BYE)
    left, arrivals = [len(up(bus))], bus.take_arrivals()
    while left[-1]:
        bus.supervisor.step(arrivals, bus.now, bus.now)
        left.append(len(up(bus)))
        arrivals = []
    assert len(left) > 6
    assert max(before - after for before, after in itertools.pairwise(left)) <= 2


# -- schemas -----------------------------------------------------------------------------------------------------

LARGE = pack({
    "capabilities": [{
        "name": "x.y",
        "params_schema": {"properties": {f"p{number}": {"type": "string"} for number in range(4_000)}},
        "result_schema": {"type": "integer"},
    }]
})  # fmt: skip


def test_schemas_are_kept_packed_and_shown_to_who_asks_for_the_manifest():
    bus = Bus()
    peer, d = bus.node("n"), bus.delegator("d")
    register(peer, ["a"], LARGE)
    bus.step()
    assert bus.agent("a").manifest.capabilities == (Capability(name="x.y"),)

    d.delegate("d", capability="ether.manifests", params={"agents": ["a"]})
    bus.step()

    (row,) = unpack(d.outcome().body["data"])["items"]
    assert row["capabilities"] == unpack(LARGE)["capabilities"]


def test_the_manifest_of_an_agent_that_has_not_registered_since_a_restart_is_shown_without_schemas():
    # Given an agent that a broker knows from its journal
    bus, journal = Bus(), StoredJournal(Disk())
    bus.state.journal = journal
    register(bus.node("n"), ["a"], LARGE)
    bus.step()
    bus.restart(journal.crash())
    d = bus.delegator("d")

    d.delegate("d", capability="ether.manifests", params={"agents": ["a"]})
    bus.step()

    (row,) = unpack(d.outcome().body["data"])["items"]
    assert row["capabilities"] == [{"name": "x.y"}]


def test_a_page_of_manifests_ends_when_reading_their_schemas_has_cost_much():
    bus = Bus()
    peer, d = bus.node("n"), bus.delegator("d")
    lists = {"capabilities": [{"name": "x.y", "params_schema": {"enum": [[]] * 3_000}}]}
    register(peer, [f"a{number:02}" for number in range(20)], pack(lists))
    bus.step()
    before = d.session.input.tag

    d.delegate("d", capability="ether.manifests")
    bus.step()

    answer = unpack(d.outcome().body["data"])
    shown = [row["agent"] for row in answer["items"]]
    assert shown == [f"a{number:02}" for number in range(len(shown))]
    assert 0 < len(shown) < 4
    assert answer["next"] == shown[-1]
    assert d.session.input.tag - before > 512


def test_an_agent_of_a_large_manifest_counts_as_several():
    bus = Bus(Limits(memory_bytes=32 << 14))
    peer = bus.node("n")
    for number in range(10):
        register(peer, [f"a{number}"], LARGE, number)
    bus.step()

    assert bus.agent("a0").places == 1 + (len(LARGE) >> 13) > 5
    assert bus.state.registry.places <= 32
    assert [error.body["code"] for error in peer.took(Kind.ERROR)] != []
    assert {error.body["code"] for error in peer.took(Kind.ERROR)} <= {"too_much"}


@pytest.mark.parametrize("schema", [5, ["x"], {5: "x"}])
def test_what_is_no_schema_is_refused(schema: Any):
    bus = Bus()
    peer = bus.node("n")
    register(peer, ["a"], pack({"capabilities": [{"name": "x.y", "params_schema": schema}]}))
    bus.step()

    assert [error.body["code"] for error in peer.took(Kind.ERROR)] != []
    assert "a" not in up(bus)


def test_a_manifest_of_who_may_not_register_is_not_read(monkeypatch: pytest.MonkeyPatch):
    bus = Bus(access=Access(register=[RegisterRule("n", "main")]))
    peer = bus.node("n")
    monkeypatch.setattr(registering, "read_map", lambda *_: pytest.fail("it was read"))

    peer.send(Kind.REGISTER, request_id=request_id(1), source=b"a", body=unpack(LARGE))
    bus.step()

    assert [error.body["code"] for error in peer.took(Kind.ERROR)] == ["access_denied"]
