"""An agent that its node lets go for another node: what waits for it is kept, and what comes meanwhile waits too."""

from __future__ import annotations

from typing import Any

import pytest

from ether_actors.supervisor.journal.history import History
from ether_actors.supervisor.membership import departures
from ether_actors.supervisor.registry.registration import Condition
from ether_broker.envelope.manifest.manifest import Capability, Manifest
from ether_broker.envelope.manifest.subscription import Subscription
from ether_broker.envelope.payload import pack, unpack
from ether_broker.envelope.status import Status
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.security.access_list import Access, DelegateRule, RegisterRule
from ether_broker.wire.frame import DRAINS, Flag, Kind, join_frame, pack_envelope
from ether_broker.wire.saved_state import BroughtState, join_state
from tests.actors.peers import Bus, Peer, request_id
from tests.actors.recovery_world import Life, World
from tests.actors.work_counter import WorkCounter

WHY = "it moves to another node"


def say_moves(peer: Peer, agent: str = "a", **said: Any) -> None:
    body = {"condition": "gone", "reason": WHY, "moves": True, **said}
    peer.send(Kind.UNREGISTER, source=agent.encode(), body=body)


def hear_all(peer: Peer, agent: str = "a") -> list[int]:
    """Take and end all that is given, one after the other."""
    found: list[int] = []
    while numbers := peer.work():
        found += numbers
        for number in numbers:
            peer.respond(agent, number)
        peer.bus.step()
    return found


# -- what waits, and what comes ----------------------------------------------------------------------------------


def test_what_waits_and_what_comes_meanwhile_is_given_to_the_next_node_in_its_order():
    bus = Bus(limits=Limits(window=2))
    old, new, d = bus.node("old", "a"), bus.node("new"), bus.delegator("d")
    asked = [d.delegate("d", to=to, timeout=60.0) for to in ("a", "", "a", "", "a")]
    bus.step()
    given = old.work()
    old.send(Kind.UNREGISTER, source=b"a", body={"condition": "restarting"})
    for number in reversed(given):
        old.hand_back("a", number)
    say_moves(old)
    bus.step()
    asked += [d.delegate("d", to=to, timeout=60.0) for to in ("", "a")]
    bus.step()
    assert (given, d.outcomes(), old.work()) == (asked[:2], {}, [])

    new.register("a")
    bus.step()

    assert hear_all(new) == asked
    assert d.outcomes() == dict.fromkeys(asked, Status.COMPLETED)
    assert [event["reason"] for event in bus.events("agent_down")] == ["moves"]


def test_events_reach_a_subscriber_that_moves_each_once_and_in_order():
    bus = Bus(limits=Limits(window=1))
    manifest = Manifest(agent="a", subscriptions=(Subscription(topic="*"),))
    old, new, desk = bus.node("old"), bus.node("new"), bus.delegator("desk")
    old.register_manifest(manifest)
    bus.step()

    def publish(*words: str) -> None:
        for word in words:
            desk.delegate("desk", "ether.publish", params={"topic": "a.b", "data": pack(word)})
        bus.step()

    def handle(peer: Peer) -> list[str]:
        found: list[str] = []
        while events := peer.took(Kind.DELEGATION):
            found += [unpack(unpack(event.body["params"])["data"]) for event in events]
            for event in events:
                peer.respond("a", event.number)
            bus.step()
        return found

    publish("first", "second", "third")
    (first,) = old.work()
    old.respond("a", first)
    bus.step()
    old.send(Kind.UNREGISTER, source=b"a", body={"condition": "restarting"})
    old.hand_back("a", *old.work())
    say_moves(old)
    publish("fourth")
    new.register_manifest(manifest)
    publish("fifth")

    assert handle(new) == ["second", "third", "fourth", "fifth"]


def test_what_an_agent_that_goes_too_asks_of_one_that_moves_is_refused_at_once():
    bus = Bus()
    old, d = bus.node("old", "a"), bus.delegator("d")
    old.register("asks", "z.z")
    holder = d.delegate("d", "z.z", timeout=60.0)
    bus.step()
    old.respond("asks", holder, Status.ACCEPTED)
    for agent in ("asks", "a"):
        old.send(Kind.UNREGISTER, source=agent.encode(), body={"condition": "restarting"})
    say_moves(old)
    bus.step()
    named = old.delegate("asks", to="a", parent=holder, timeout=30.0)
    to_any = old.delegate("asks", parent=holder, timeout=30.0)
    other = d.delegate("d", to="a", timeout=30.0)
    bus.step()

    told = {received.number: (received.status, received.code) for received in old.took(Kind.RESPONSE)}
    assert told == dict.fromkeys((named, to_any), (Status.REJECTED_CAPABILITY, "agent_down"))
    assert d.outcomes() == {holder: Status.ACCEPTED}, "the other waits"
    assert bus.entry(other) is not None


def test_a_node_pays_for_what_is_looked_at_as_its_agent_moves():
    costs = []
    for waiting in (200, 6_600):
        bus = Bus()
        old, d = bus.node("old", "a"), bus.delegator("d")
        for _ in range(waiting):
            d.delegate("d", to="a", timeout=60.0)
        bus.step()
        old.send(Kind.UNREGISTER, source=b"a", body={"condition": "restarting"})
        for number in old.work():
            old.hand_back("a", number)
        bus.step()
        before = old.session.input.tag
        say_moves(old)
        bus.step()
        costs.append(old.session.input.tag - before)

    assert costs[1] - costs[0] == 6_400 >> 5


def test_others_that_take_work_get_what_comes_meanwhile_but_not_what_waits():
    bus = Bus(limits=Limits(window=1))
    old, new, d = bus.node("old", "a"), bus.node("new"), bus.delegator("d")
    old.send(Kind.UNREGISTER, source=b"a", body={"condition": "restarting"})
    waits = d.delegate("d")
    bus.step()
    other = bus.node("other", "b")
    say_moves(old)
    comes = d.delegate("d")
    bus.step()
    new.register("a")
    bus.step()

    assert (other.work(), new.work()) == ([comes], [waits])


@pytest.mark.parametrize(("idempotent", "outcome"), [(False, "node_lost"), (True, "")])
def test_what_had_begun_and_was_not_handed_back_is_ruled_on_as_that_of_a_lost_node(idempotent: bool, outcome: str):
    bus = Bus(limits=Limits(window=1))
    old, new, d = bus.node("old", "a", idempotent=idempotent), bus.node("new"), bus.delegator("d")
    begun, waits = d.delegate("d", to="a"), d.delegate("d", to="a")
    bus.step()
    old.respond("a", begun, Status.ACCEPTED)
    say_moves(old)
    bus.step()
    new.register("a", idempotent=idempotent)
    bus.step()

    assert hear_all(new) == ([begun, waits] if idempotent else [waits])
    codes = {one.number: one.code for one in d.took(Kind.RESPONSE) if one.status.is_terminal}
    assert codes == {begun: outcome, waits: ""}


@pytest.mark.parametrize("to", ["a", ""])
def test_what_waits_is_refused_when_no_node_has_taken_the_name_in_time(to: str):
    bus = Bus()
    old, d = bus.node("old", "a"), bus.delegator("d")
    say_moves(old)
    bus.step()
    waits = d.delegate("d", to=to, timeout=100_000.0)
    bus.pass_time(9.0)
    assert d.outcomes() == {}
    bus.pass_time(2.0)
    late = d.delegate("d", to="a")
    bus.step()

    told = {one.number: one for one in d.took(Kind.RESPONSE)}
    assert {number: one.code for number, one in told.items()} == {waits: "agent_gone", late: "unknown_agent"}
    assert told[waits].body["error"]["retryable"]
    assert "a moved, and no node has taken it" in told[waits].body["error"]["message"]
    assert [event["reason"] for event in bus.events("agent_down")] == ["moves", "not_taken"]


def test_a_broker_that_is_restarted_goes_on_to_give_up_an_agent_that_no_node_has_taken():
    world, d, a, b = movers()
    a.leave("a", moves=True)
    world.settle()
    asked = [d.ask("once", to="a", timeout=90_000.0) for _ in range(30)]
    world.settle()
    while not world.supervisor._membership.departures.waiting:
        world.wall += 1.0
        for life in (d, a, b):
            life.beat()
        world.step()
    world.journal.sync()
    world.crash()
    back(world, d, a, b)

    assert [one.outcomes for one in asked] == [[(Status.REJECTED_CAPABILITY, "agent_gone")]] * 30


def test_what_waits_goes_to_another_holder_when_no_node_has_taken_the_name_in_time():
    bus = Bus()
    old, d = bus.node("old", "a"), bus.delegator("d")
    say_moves(old)
    any_holder, named = d.delegate("d", timeout=900.0), d.delegate("d", to="a", timeout=900.0)
    bus.step()
    other = bus.node("other", "b")
    bus.step()
    bus.pass_time(11.0)

    assert other.work() == [any_holder]
    assert (refused := d.outcome()).code == "agent_gone"
    assert refused.number == named


def test_work_finds_an_agent_that_moves_behind_any_number_of_lost_holders():
    bus = Bus()
    lost, old, d = bus.node("lost", *(f"b{n:02}" for n in range(40))), bus.node("old", "z"), bus.delegator("d")
    lost.die()
    bus.pass_time(9.0)
    say_moves(old, "z")
    asked = d.delegate("d", timeout=60.0)
    bus.step()

    assert (d.outcomes(), bus.entry(asked).agent.name) == ({}, b"z")


@pytest.mark.parametrize("is_taken", [True, False])
def test_what_waits_for_a_holder_that_leaves_waits_for_one_that_moves(is_taken: bool):
    bus = Bus(limits=Limits(window=1))
    old, other, new, d = bus.node("old", "a"), bus.node("other"), bus.node("new"), bus.delegator("d")
    say_moves(old)
    other.register("b")
    bus.step()
    begun, *waiting = [d.delegate("d", timeout=60.0) for _ in range(3)]
    bus.step()
    assert other.work() == [begun]
    other.send(Kind.UNREGISTER, source=b"b", body={"condition": "gone", "reason": "left"})
    bus.pass_time(9.0)
    assert d.outcomes() == {begun: Status.FAILED_EXECUTION}
    if is_taken:
        new.register("a")
    else:
        bus.pass_time(2.0)
    bus.step()

    assert hear_all(new) == (waiting if is_taken else [])
    told = {one.number: one.code for one in d.took(Kind.RESPONSE)}
    assert told == dict.fromkeys(waiting, "" if is_taken else "agent_gone")


class Asker:
    """A holder of `z.z` that works at a delegation of `d`, and delegates for it, beside an agent "a" that is to move."""

    def __init__(self) -> None:
        self.bus = Bus(limits=Limits(mailbox_count=20_000))
        self.old, self.node, self.d = self.bus.node("old", "a"), self.bus.node("far"), self.bus.delegator("d")
        self.node.register("asks", "z.z")
        self.holder = self.d.delegate("d", "z.z", timeout=600.0)
        self.bus.step()
        self.node.respond("asks", self.holder, Status.ACCEPTED)
        self.bus.step()

    def delegate(self, **to: str) -> int:
        return self.node.delegate("asks", parent=self.holder, timeout=300.0, **to)

    def ends(self, condition: str) -> None:
        """Its node has it end its work."""
        if condition == "restarting":
            self.node.send(Kind.UNREGISTER, source=b"asks", body={"condition": "restarting"})
        else:
            self.node.send(Kind.UNREGISTER, source=b"asks", flags=DRAINS)
        self.bus.step()

    def told(self) -> dict[int, str]:
        return {one.number: one.code for one in self.node.took(Kind.RESPONSE) if one.status.is_terminal}


@pytest.mark.parametrize("condition", ["restarting", "draining"])
@pytest.mark.parametrize("is_early", [True, False])
def test_an_agent_that_has_to_end_its_work_does_not_wait_for_one_that_moves(condition: str, is_early: bool):
    it = Asker()
    say_moves(it.old)
    it.bus.step()
    children = [it.delegate(to="a"), it.delegate()] if is_early else []
    it.bus.step()
    it.ends(condition)
    if not is_early:
        children = [it.delegate(to="a"), it.delegate()]
        it.bus.step()

    assert it.told() == dict.fromkeys(children, "agent_down")


@pytest.mark.parametrize("condition", ["restarting", "draining"])
def test_what_it_waits_for_goes_to_another_holder_or_a_fallback_that_does_not_move(condition: str):
    it = Asker()
    say_moves(it.old)
    it.bus.step()
    waits = it.delegate()
    it.bus.step()
    other, fallback = it.bus.node("other", "b"), it.bus.node("last")
    fallback.register("f", "*")
    it.ends(condition)
    assert other.work() == [waits]
    other.send(Kind.UNREGISTER, source=b"b", flags=DRAINS)
    comes = it.delegate()
    it.bus.step()

    assert fallback.work() == [comes]
    assert it.told() == {}


def test_nor_does_an_agent_that_works_for_it():
    it = Asker()
    between = it.bus.node("between")
    between.register("works", "y.y")
    child = it.node.delegate("asks", "y.y", parent=it.holder, timeout=300.0)
    it.bus.step()
    between.respond("works", child, Status.ACCEPTED)
    say_moves(it.old)
    it.bus.step()
    waits = between.delegate("works", to="a", parent=child, timeout=200.0)
    it.bus.step()
    it.ends("restarting")
    comes = between.delegate("works", to="a", parent=child, timeout=200.0)
    it.bus.step()

    assert {one.number: one.code for one in between.took(Kind.RESPONSE)} == dict.fromkeys((waits, comes), "agent_down")


def test_all_that_go_at_a_time_are_seen_to_however_long_one_takes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(departures, "POINTS_PER_STEP", 64)
    it = Asker()
    it.node.register("also", "y.y")
    second = it.d.delegate("d", "y.y", timeout=600.0)
    it.bus.step()
    say_moves(it.old)
    it.bus.step()
    it.node.respond("also", second, Status.ACCEPTED)
    children = [it.delegate(to="a") for _ in range(60)]
    children.append(it.node.delegate("also", to="a", parent=second, timeout=300.0))
    it.bus.step()
    for agent in (b"asks", b"also"):
        it.node.send(Kind.UNREGISTER, source=agent, body={"condition": "restarting"})
        it.bus.supervisor.step(it.bus.take_arrivals(), it.bus.now, it.bus.wall)
    it.bus.pass_time(1.0)

    assert it.told() == dict.fromkeys(children, "agent_down")


def test_an_agent_that_is_up_again_before_all_is_seen_to_takes_work_and_waits_for_the_rest(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(departures, "POINTS_PER_STEP", 64)
    it = Asker()
    say_moves(it.old)
    it.bus.step()
    children = [it.delegate(to="a") for _ in range(60)]
    it.bus.step()
    it.node.send(Kind.UNREGISTER, source=b"asks", body={"condition": "restarting"})
    it.bus.supervisor.step(it.bus.take_arrivals(), it.bus.now, it.bus.wall)
    it.node.register("asks", "z.z")
    asked = it.d.delegate("d", "z.z", timeout=60.0)
    it.bus.step()
    it.bus.pass_time(1.0)

    assert it.node.work() == [it.holder, asked]
    assert 0 < len(it.told()) < len(children)


def test_an_agent_that_goes_while_what_waited_for_it_is_still_looked_at_is_seen_to(monkeypatch: pytest.MonkeyPatch):
    it = Asker()
    say_moves(it.old)
    it.bus.step()
    child = it.delegate(to="a")
    it.bus.step()
    for _ in range(300):
        it.d.delegate("d", "z.z", timeout=600.0)
    it.bus.step()
    monkeypatch.setattr(departures, "POINTS_PER_STEP", 64)
    it.node.register_manifest(Manifest(agent="asks", version="2.0.0", capabilities=(Capability(name="z.z"),)))
    it.node.send(Kind.UNREGISTER, source=b"asks", body={"condition": "restarting"})
    it.bus.supervisor.step(it.bus.take_arrivals(), it.bus.now, it.bus.wall)
    assert it.bus.supervisor._membership.departures.waiting
    it.bus.pass_time(1.0)

    assert it.told() == {child: "agent_down"}


def test_an_agent_that_goes_costs_what_it_waits_for_and_not_what_others_do():
    costs: list[int] = []
    for waiting in (100, 100, 800, 6_400):  # the first builds what the others find
        it = Asker()
        say_moves(it.old)
        it.bus.step()
        child = it.delegate(to="a")
        for number in range(waiting):
            it.d.delegate("d", to="a", timeout=600.0)
            if number % 500 == 0:
                it.bus.step()
        it.bus.step()
        with WorkCounter() as counter:
            it.ends("restarting")
        costs.append(counter.work)
        assert it.told() == {child: "agent_down"}

    assert costs[3] < 1.2 * costs[1]


@pytest.mark.parametrize("says_first", ["a", "asks"])
def test_what_an_agent_that_goes_too_asked_before_of_one_that_moves_is_refused_as_both_go(says_first: str):
    bus = Bus()
    old, far, d = bus.node("old", "a"), bus.node("far", "asks"), bus.delegator("d")
    holder = d.delegate("d", to="asks", timeout=60.0)
    bus.step()
    far.respond("asks", holder, Status.ACCEPTED)
    old.send(Kind.UNREGISTER, source=b"a", body={"condition": "restarting"})
    bus.step()
    child = far.delegate("asks", to="a", parent=holder, timeout=30.0)
    other = d.delegate("d", to="a", timeout=30.0)
    bus.step()
    if says_first == "a":
        say_moves(old)
        bus.step()
        assert far.took(Kind.RESPONSE) == []
    far.send(Kind.UNREGISTER, source=b"asks", body={"condition": "restarting"})
    bus.step()
    if says_first == "asks":
        assert far.took(Kind.RESPONSE) == [], "an agent that restarts is up soon"
        say_moves(old)
    bus.step()

    told = {received.number: (received.status, received.code) for received in far.took(Kind.RESPONSE)}
    assert told == {child: (Status.REJECTED_CAPABILITY, "agent_down")}
    assert bus.entry(other) is not None
    assert [event["reason"] for event in bus.events("agent_down")] == ["moves"]


def test_what_it_asked_before_it_went_of_one_that_moves_is_refused():
    test_what_an_agent_that_goes_too_asked_before_of_one_that_moves_is_refused_as_both_go("a")


@pytest.mark.parametrize("how", ["progress", "child", "plain"])
def test_a_late_answer_of_before_gives_no_credit_back_to_an_agent_that_was_let_go_and_is_there_again(how: str):
    bus = Bus()
    node, d = bus.node("old"), bus.delegator("d")
    node.register("a", max_concurrency=8)
    bus.step()
    parent = node.delegate("a")
    child = node.delegate("a", to="a", parent=parent)
    bus.step()
    node.work()
    say_moves(node)
    node.register("a", max_concurrency=8)
    bus.step()
    works = d.delegate("d", to="a", timeout=60.0)
    bus.step()
    assert node.work() == [works]
    node.respond("a", child, Status.CANCELLED)
    bus.step()
    assert bus.agent("a").mailbox.in_flight == 1

    if how == "progress":
        node.respond("a", works, Status.PROGRESS)
    elif how == "child":
        node.delegate("a", to="a", parent=works)
    bus.step()
    node.respond("a", works)
    bus.step()
    assert Status.COMPLETED in {one.status for one in d.took(Kind.RESPONSE) if one.number == works}
    assert bus.agent("a").mailbox.in_flight == (how == "child"), "what was made for it is still to be confirmed"


def test_what_it_asked_may_end_with_its_own_work_while_it_is_looked_at(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(departures, "POINTS_PER_STEP", 4)
    it = Asker()
    it.old.send(Kind.UNREGISTER, source=b"a", body={"condition": "restarting"})
    it.bus.step()
    children = [it.delegate(to="a") for _ in range(40)]
    it.bus.step()
    it.ends("restarting")
    say_moves(it.old)
    for _ in range(3):
        it.bus.step()
    told = it.told()
    assert set(told.values()) == {"agent_down"}
    assert len(told) < len(children)

    assert it.d.outcomes() == {it.holder: Status.ACCEPTED}
    it.d.send(Kind.CANCEL, request_id=request_id(it.holder), source=b"d")
    for _ in range(20):
        it.bus.step()

    assert it.d.outcomes() == {it.holder: Status.CANCELLED}
    assert [child for child in children if it.bus.entry(child) is not None] == []


def test_what_it_does_not_declare_any_more_is_refused_and_the_rest_is_done():
    bus = Bus()
    old, new, d = bus.node("old"), bus.node("new"), bus.delegator("d")
    old.register("a", "x.y", "x.z")
    bus.step()
    say_moves(old)
    kept, not_declared = d.delegate("d", "x.y", to="a"), d.delegate("d", "x.z", to="a")
    bus.step()
    new.register("a", "x.y")
    bus.step()

    assert hear_all(new) == [kept]
    assert {one.number: one.code for one in d.took(Kind.RESPONSE)} == {kept: "", not_declared: "not_declared"}


# -- who may, and what is kept -----------------------------------------------------------------------------------


def test_only_its_own_node_says_that_an_agent_moves():
    bus = Bus()
    bus.node("old", "a")
    other = bus.node("other", "b")
    say_moves(other)
    bus.step()

    other.register("a")
    bus.step()

    assert other.refusal().code == "duplicate_agent"
    assert bus.agent("a").condition is Condition.UP


def test_only_a_node_that_may_host_it_takes_the_name():
    access = Access(delegate=[DelegateRule("*")], register=[RegisterRule(["old", "new"], "a")])
    bus = Bus(access=access)
    old, new, other = bus.node("old", "a"), bus.node("new"), bus.node("other")
    say_moves(old)
    for peer in (other, new):
        peer.register("a")
        bus.step()

    assert other.refusal().code == "access_denied"
    assert bus.agent("a").session is new.session


@pytest.mark.parametrize("how", ["left", "lost"])
def test_it_is_kept_when_the_node_that_let_it_go_goes_too(how: str):
    bus = Bus()
    old, new, d = bus.node("old", "a", "c"), bus.node("new"), bus.delegator("d")
    say_moves(old)
    waits = d.delegate("d", to="a", timeout=60.0)
    bus.step()
    if how == "left":
        old.send(Kind.BYE)
        bus.step()
        assert len(old.took(Kind.BYE)) == 1
    else:
        old.die()
        bus.pass_time(5.0)
    new.register("a")
    bus.step()

    assert new.work() == [waits]
    assert bus.state.registry.get(b"c") is None or bus.agent("c").condition is Condition.DOWN


@pytest.mark.parametrize("ended", [0, 1])
def test_the_node_that_let_it_go_may_take_it_back_with_all_its_credit(ended: int):
    bus = Bus(limits=Limits(window=1))
    old, d = bus.node("old", "a"), bus.delegator("d")
    for _ in range(ended):  # the node has not answered it, which it need not any more
        d.cancel("d", d.delegate("d", to="a"))
    bus.step()
    say_moves(old)
    waits = d.delegate("d", to="a")
    bus.step()
    old.inbox.clear()
    old.register("a")
    bus.step()

    assert old.work() == [waits]
    assert (bus.agent("a").condition, bus.agent("a").mailbox.in_flight) == (Condition.UP, 1)


def test_a_manifest_of_an_agent_that_moved_counts_no_more_for_the_node_that_let_it_go():
    bus = Bus()
    old = bus.node("old", "a")
    say_moves(old)
    bus.step()

    assert (old.session.manifest_bytes, old.session.agents) == (0, {})


def test_agents_that_move_make_room_for_living_ones_but_not_while_something_waits_for_them():
    bus = Bus(limits=Limits(memory_bytes=64 << 14))  # 64 agents, and half of them may be down
    names = [f"a{number}" for number in range(20)]
    old, d = bus.node("old", *names), bus.delegator("d")
    for name in names:
        say_moves(old, name)
    bus.step()
    d.delegate("d", to="a7", timeout=60.0)
    bus.step()
    for node in "bc":
        bus.node(node, *(f"{node}{number}" for number in range(31)))

    registry = bus.state.registry
    assert [name for name in names if registry.get(name.encode()) is not None] == ["a7"]
    assert registry.places <= registry.most


def test_a_state_that_comes_late_of_the_node_that_let_it_go_is_not_saved():
    bus = Bus()
    old, d = bus.node("old", "a"), bus.delegator("d")
    begun = d.delegate("d", to="a")
    bus.step()
    old.respond("a", begun, Status.ACCEPTED)
    say_moves(old)
    bus.step()
    answer = pack_envelope(
        Kind.RESPONSE, request_id=request_id(begun), source=b"a", target=b"d", capability=b"x.y", attempt=1,
        status=Status.COMPLETED, body=pack({}),
    )  # fmt: skip
    old.raw(join_frame([join_state(answer, BroughtState(0, b"", b"i" * 16, 1, b"late"))], old.said_session))
    bus.step()

    assert [one.code for one in d.took(Kind.RESPONSE) if one.status.is_terminal] == ["node_lost"]
    assert bus.state.agent_states.get("a") is None


def test_a_state_that_comes_with_an_outcome_that_counts_is_saved(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(departures, "POINTS_PER_STEP", 16)  # one delegation of an agent that goes
    bus = Bus(limits=Limits(window=32))
    old, d = bus.node("old"), bus.delegator("d")
    old.register("a", max_concurrency=32)
    bus.step()
    begun = [d.delegate("d", to="a", timeout=60.0) for _ in range(4)]
    bus.step()
    for number in begun:
        old.respond("a", number, Status.ACCEPTED)
    bus.step()
    say_moves(old)
    answer = pack_envelope(
        Kind.RESPONSE, request_id=request_id(begun[-1]), source=b"a", target=b"d", capability=b"x.y", attempt=1,
        status=Status.COMPLETED, body=pack({}),
    )  # fmt: skip
    old.raw(join_frame([join_state(answer, BroughtState(0, b"", b"i" * 16, 1, b"its own"))], old.said_session))
    bus.step()
    bus.pass_time(1.0)

    codes = [one.code for one in d.took(Kind.RESPONSE) if one.status.is_terminal]
    assert sorted(codes) == ["", "node_lost", "node_lost", "node_lost"]
    assert bus.state.agent_states.get("a").data == b"its own"


# -- brokers that die --------------------------------------------------------------------------------------------


def movers(window: int = 2) -> tuple[World, Life, Life, Life]:
    world = World(window=window)
    lives = world.life("d"), world.life("na", "a"), world.life("nb", "b")
    world.settle()
    return world, *lives


def back(world: World, *lives: Life) -> None:
    for life in lives:
        life.greet()
    world.settle()


@pytest.mark.parametrize("crashes", [[0], [1], [2], [4], [1, 1], [0, 3]])
@pytest.mark.parametrize("is_heard", [True, False])
def test_nothing_that_waits_is_lost_though_brokers_die_while_it_moves(crashes: list[int], is_heard: bool):
    world, d, a, b = movers()
    asked = [d.ask("once", to="a", timeout=900.0) for _ in range(6)]
    world.settle()
    a.say(pack_envelope(Kind.UNREGISTER, source=b"a", body=pack({"condition": "restarting"})))
    if not is_heard:  # what it had is handed back only to the next broker
        world.crash()
    a.leave("a", moves=True)

    for steps in crashes:
        for _ in range(steps):
            world.settle(1)
        world.crash()
        back(world, d, a, b)
    asked.append(d.ask("once", to="a", timeout=900.0))
    world.settle()
    arrive(world, b, len(asked))

    assert [one.outcomes for one in asked] == [[(Status.COMPLETED, "")]] * len(asked)
    assert a.works == {}


def test_what_had_begun_is_lost_once_and_the_rest_is_kept_though_the_broker_dies():
    world, d, a, b = movers()
    asked = [d.ask("once", to="a", timeout=900.0) for _ in range(4)]
    world.settle()
    a.answer(asked[0].number, Status.ACCEPTED)
    world.settle()
    world.crash()
    a.leave("a", moves=True)
    back(world, d, a, b)
    arrive(world, b, 4)

    assert asked[0].outcomes == [(Status.FAILED_EXECUTION, "node_lost")]
    assert [one.outcomes for one in asked[1:]] == [[(Status.COMPLETED, "")]] * 3


def arrive(world: World, to: Life, count: int) -> None:
    """Let the agent be up on that process, and end all that it is given."""
    to.hosted.add("a")
    to.add("a")
    for _ in range(count):
        world.settle()
        for number in list(to.works):
            to.answer(number)
    world.settle()


def test_what_had_not_arrived_at_the_node_that_let_it_go_is_kept_though_the_broker_dies_before_it_hears_that():
    world, d, a, b = movers()
    asked = [d.ask("once", to="a", timeout=900.0) for _ in range(4)]
    world.step()
    world.journal.sync()
    world.step()
    assert a.inbound  # and it is lost with the broker
    world.crash()
    a.leave("a", moves=True)
    back(world, d, a, b)
    arrive(world, b, 4)

    assert [one.outcomes for one in asked] == [[(Status.COMPLETED, "")]] * 4


def test_what_had_begun_and_its_node_knows_nothing_of_runs_again_before_the_rest_if_it_may():
    world, d, a, b = movers(window=1)
    asked = [d.ask("twice", to="a", timeout=900.0) for _ in range(3)]
    world.settle()
    a.answer(asked[0].number, Status.ACCEPTED)
    world.settle()
    world.crash()
    a.works.clear()
    a.leave("a", moves=True)
    back(world, d, a, b)
    arrive(world, b, 3)

    assert [one.outcomes for one in asked] == [[(Status.COMPLETED, "")]] * 3
    assert [one.given for one in asked] == [[1, 2], [1], [1]]


def test_it_is_known_in_the_step_in_which_it_is_said_however_much_others_leave_to_be_ruled_on(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(departures, "POINTS_PER_STEP", 4)  # one delegation of an agent that goes
    world = World(window=2)
    d, a, b = world.life("d"), world.life("na", "a", "c"), world.life("nb")
    world.settle()
    a.say(pack_envelope(Kind.UNREGISTER, source=b"a", body=pack({"condition": "restarting"})))
    asked = [d.ask("once", to="a", timeout=900.0) for _ in range(4)]
    for _ in range(8):
        d.ask("once", to="c", timeout=900.0)
    world.settle()
    a.leave("c")
    a.leave("a", moves=True)
    world.step()
    world.journal.sync()
    a.channel.acknowledge(a.channel.last)  # its node says no more of it
    world.crash()
    back(world, d, a, b)
    arrive(world, b, 4)

    assert [one.outcomes for one in asked] == [[(Status.COMPLETED, "")]] * 4


@pytest.mark.parametrize("steps", [1, 2, 3, 40])
def test_what_had_not_begun_is_kept_though_the_broker_dies_before_it_has_ruled_on_what_had(
    monkeypatch: pytest.MonkeyPatch, steps: int
):
    monkeypatch.setattr(departures, "POINTS_PER_STEP", 32)
    world, d, a, b = movers(window=16)
    asked = [d.ask("once", to="a", timeout=900.0) for _ in range(40)]
    world.settle()
    begun = list(a.works)
    for number in begun[::2]:
        a.answer(number, Status.ACCEPTED)
    world.settle()
    a.leave("a", moves=True)
    for _ in range(steps):
        world.step()
    assert bool(world.supervisor._membership.departures.waiting) is (steps < 40)
    world.journal.sync()
    a.channel.acknowledge(a.channel.last)
    world.crash()
    back(world, d, a, b)
    arrive(world, b, 30)

    outcomes = {one.number: one.outcomes for one in asked}
    lost = {number for number in outcomes if outcomes[number] == [(Status.FAILED_EXECUTION, "node_lost")]}
    assert lost == set(begun)
    assert all(outcomes[number] == [(Status.COMPLETED, "")] for number in outcomes.keys() - lost)


def test_it_is_kept_though_the_broker_dies_while_the_node_that_let_it_go_leaves():
    world = World(window=2)
    d, a, b = world.life("d"), world.life("na", "a", "c"), world.life("nb", "b")
    world.settle()
    a.leave("a", moves=True)
    asked = [d.ask("once", to="a", timeout=900.0) for _ in range(4)]
    for _ in range(8):
        d.ask("once", to="c", timeout=900.0)
    world.settle()
    a.bye()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(departures, "POINTS_PER_STEP", 4)  # one delegation of an agent that goes
        world.step()
    assert world.supervisor._membership.departures.waiting, "the rest of the other agent's is ruled on in later steps"
    world.journal.sync()
    world.crash()
    a.is_dead = True
    back(world, d, b)
    arrive(world, b, 4)

    assert [one.outcomes for one in asked] == [[(Status.COMPLETED, "")]] * 4


def test_what_is_volatile_is_given_as_sent_again_as_a_node_may_have_had_it_before_the_journal_knew_that():
    world, d, a, b = movers()
    a.leave("a", moves=True)
    world.settle()
    d.ask("once", to="a", timeout=900.0, flags=Flag.VOLATILE)
    world.settle()
    world.crash()
    back(world, d, a, b)
    flags: list[int] = []
    b._given = lambda header: flags.append(header.flags)  # type: ignore[method-assign]
    b.add("a")
    world.settle()

    assert [bool(one & Flag.RESENT) for one in flags] == [True]


@pytest.mark.parametrize("is_first", [True, False])
def test_an_agent_whose_node_is_not_back_may_wait_for_one_that_moves(is_first: bool):
    world = World(window=2)
    d, a, b, asks = world.life("d"), world.life("na", "a"), world.life("nb", "b"), world.life("np", "p")
    world.settle()
    root = d.ask("once", to="p", timeout=900.0)
    world.settle()
    asks.answer(root.number, Status.ACCEPTED)
    a.say(pack_envelope(Kind.UNREGISTER, source=b"a", body=pack({"condition": "restarting"})))
    world.settle()
    child = asks.ask("once", to="a", timeout=900.0, source="p", parent=root.number)
    world.settle()
    world.crash()
    a.leave("a", moves=True)
    back(world, *((a, d, asks, b) if is_first else (d, asks, b, a)))
    arrive(world, b, 2)

    assert child.outcomes == [(Status.COMPLETED, "")]


def test_a_checkpoint_knows_who_moves():
    bus = Bus()
    old = bus.node("old", "a", "b")
    say_moves(old)
    bus.step()

    kept = History.of(bus.history.pack())

    assert {name: (one.is_down, one.moves) for name, one in kept.agents.items()} == {
        "a": (True, True), "b": (False, False),
    }  # fmt: skip
