"""What a peer that is in can say to the supervisor at little cost, and what the others must not pay for it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from ether_actors.supervisor.delegations.delivery import ENDED_PER_STEP as CHILDREN
from ether_actors.supervisor.journal.history import History
from ether_actors.supervisor.membership.departures import POINTS_PER_STEP
from ether_actors.supervisor.registry.holders import MOST_PASSED
from ether_actors.supervisor.registry.quota import at_a_time
from ether_actors.supervisor.registry.registration import Condition
from ether_actors.supervisor.state.ended import REMEMBERED, Ended
from ether_actors.supervisor.state.timing_wheel import SLOT
from ether_broker.envelope.manifest.manifest import Capability, Manifest
from ether_broker.envelope.payload import pack
from ether_broker.envelope.status import Status
from ether_broker.journal.journal import Journal
from ether_broker.journal.null import NullJournal
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.security.access_list import Access, DelegateRule, RegisterRule
from ether_broker.transport.sessions import backlog as backlog_module
from ether_broker.transport.sessions.cost import HOLDERS_SHIFT
from ether_broker.wire.frame import DRAINS, MAX_FRAME_ENVELOPES, Flag, Kind, join_frame, pack_envelope, read_header
from tests.actors.fold import differences
from tests.actors.peers import Bus, Peer, request_id, uncollected
from tests.actors.work_counter import WorkCounter


class Held(NullJournal):
    """Commits nothing while it is held."""

    def __init__(self, before: Journal) -> None:
        super().__init__()
        self.next, self.committed = before.next, before.committed
        self._tickets, self._is_held = before.committed, False

    def append(self, first: int, _time: float, _wall: float, envelopes: Sequence[bytes]) -> int:
        self.next = first + len(envelopes)
        self._tickets += 1
        if not self._is_held:
            self.committed = self._tickets
        return self._tickets

    def hold(self) -> None:
        self._is_held = True

    def let_go(self) -> None:
        self._is_held, self.committed = False, self._tickets


def test_the_reason_of_an_agents_end_is_cut_before_each_monitor_is_told_it() -> None:
    bus = Bus()
    peer = bus.node("n", "a")
    for number in range(50):
        peer.send(Kind.MONITOR, request_id=request_id(9_000 + number), target=b"a")
    bus.step()

    peer.send(Kind.UNREGISTER, source=b"a", body={"reason": "x" * 300_000})
    bus.step()

    downs = peer.took(Kind.DOWN)
    assert len(downs) == 50
    assert {len(down.body["reason"]) for down in downs} == {200}


def test_two_nodes_may_have_one_token_for_their_monitors() -> None:
    bus = Bus()
    worker, *watchers = bus.node("nw", "w"), bus.node("n1"), bus.node("n2")
    for watcher in watchers:
        watcher.send(Kind.MONITOR, request_id=request_id(1), target=b"w")
        bus.step()

    worker.send(Kind.UNREGISTER, source=b"w", body={"condition": "gone"})
    bus.step()

    assert [len(watcher.took(Kind.DOWN)) for watcher in watchers] == [1, 1]


@pytest.mark.parametrize("item", [{"name": "x.y"}, "x.y", 7, [[]]], ids=repr)
@pytest.mark.parametrize(("name", "most"), [("capabilities", 512), ("exclusions", 512), ("subscriptions", 64)])
def test_a_manifest_has_so_many_items_at_most_whatever_they_are(name: str, most: int, item: object) -> None:
    bus = Bus()
    peer = bus.node("n")
    for number, others in enumerate(({"capabilities": []}, {}, {"capabilities": {}})):
        peer.send(Kind.REGISTER, request_id=request_id(number), source=b"a", body={**others, name: [item] * (most + 1)})
        bus.step()

        (error,) = peer.took(Kind.ERROR)
        assert error.code == "invalid_manifest"
        assert error.body["message"] == f"A manifest has {most + 1:,} {name}, and {most} is the most."


@pytest.mark.parametrize(
    "manifest",
    [
        {f"field{number}": 1 for number in range(32)},  # and its name
        {"capabilities": [{"name": "x.y", **{f"field{number}": 1 for number in range(32)}}]},
        {"subscriptions": [{"topic": "x.y", **{f"field{number}": 1 for number in range(32)}}]},
    ],
)
def test_a_part_of_a_manifest_has_so_many_fields_at_most(manifest: dict[str, object]) -> None:
    bus = Bus()
    peer = bus.node("n")
    peer.send(Kind.REGISTER, request_id=request_id(5), source=b"a", body=manifest)
    bus.step()

    (error,) = peer.took(Kind.ERROR)
    assert error.body["message"] == "A part of a manifest has 33 fields, and 32 is the most."


def test_agents_of_many_capabilities_are_registered_a_few_at_a_time() -> None:
    bus = Bus()
    peer = bus.node("n")
    manifest = pack({"capabilities": [{"name": f"c{number}"} for number in range(100)]})
    most = at_a_time(100)

    for count in (most, most + 1):
        names = [f"{count}-{number}" for number in range(count)]
        peer.send(Kind.REGISTER, request_id=request_id(count), body={"agents": names, "manifest": manifest})
        bus.step()

    (error,) = peer.took(Kind.ERROR)
    assert (len(bus.state.registry), error.code) == (most, "too_much")


def test_who_acknowledges_nothing_is_cut_off_whatever_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog_module, "_OUTBOX", 100_000)
    bus = Bus()
    peer = bus.node("n", "a")
    session = peer.session

    peer.send(Kind.RESUME, body={"awaiting": [request_id(10_000 + number) for number in range(1_000)]})
    for _ in range(100):
        bus.step()

    assert "does not read" in session.lost


def test_who_asks_under_anothers_request_id_does_not_hide_the_outcome_from_it() -> None:
    bus = Bus()
    worker, a, b = bus.node("nw", "w"), bus.delegator("a"), bus.delegator("b")
    a.delegate("a", to="w", number=777, timeout=300.0)
    bus.step()
    a.die()
    bus.pass_time(5.0)
    worker.respond("w", 777)
    bus.step()

    b.delegate("b", to="w", number=777)
    bus.step()
    assert b.took(Kind.RESPONSE)[0].code == "duplicate_request"
    b.die()
    bus.pass_time(5.0)

    assert uncollected(bus.state.ended, b"a") == [request_id(777)]
    again = bus.node("again")
    again.register_manifest(Manifest(agent="a"))
    bus.step()
    again.send(Kind.RESUME, body={"awaiting": [request_id(777)], "holding": {}})
    bus.step()
    bus.step()
    assert [outcome.status for outcome in again.took(Kind.RESPONSE)] == [Status.COMPLETED]


def test_work_is_ended_before_another_node_takes_the_name_of_an_agent_whose_node_is_gone() -> None:
    bus = Bus()
    worker, standby, d = bus.node("n1", "w"), bus.node("n2"), bus.delegator("d")
    number = d.delegate("d", timeout=60.0)
    bus.step()
    session = worker.session
    worker.is_dead = True
    bus.state.session_table.unreachable(session.receiver)

    standby.register("w")
    bus.step()

    assert (d.outcome().number, d.outcomes()) == (number, {})
    assert bus.agent("w").session.node == "n2"


def test_a_sub_delegation_that_its_own_agent_had_is_not_kept_when_its_node_is_lost() -> None:
    bus = Bus()
    worker, d = bus.node("nw"), bus.delegator("d")
    worker.register("w", "x.y", max_concurrency=2)
    bus.step()
    parent = d.delegate("d", to="w")
    bus.step()
    worker.respond("w", parent, Status.ACCEPTED)
    bus.step()
    worker.delegate("w", to="w", parent=parent, params={"x": "z" * 5_000})
    bus.step()

    worker.die()
    bus.pass_time(5.0)

    assert (len(bus.state.ledger), bus.state.ledger.size, bus.agent("w").ended_at_node) == (0, 0, {})


def test_work_is_not_given_to_an_agent_that_waits_for_it_when_its_own_is_lost() -> None:
    bus = Bus()
    one, other, d = bus.node("na"), bus.node("nb"), bus.delegator("d")
    one.register("a", "x.y", idempotent=True)
    other.register("b", "x.y", idempotent=True)
    bus.step()
    parent = d.delegate("d", to="a", timeout=60.0)
    bus.step()
    one.respond("a", parent, Status.ACCEPTED)
    bus.step()
    child = one.delegate("a", parent=parent, timeout=50.0)
    bus.step()
    assert bus.entry(child).agent.name == b"b"

    other.die()
    bus.pass_time(5.0)

    assert bus.entry(child).agent.name == b"b"


@pytest.mark.parametrize("header", [{"attempt": 7}, *({"flags": 1 << bit, "to": "w"} for bit in (0, 1, 4, 5, 7))])
def test_what_only_the_broker_says_is_not_believed_of_a_delegation(header: dict[str, object]) -> None:
    bus = Bus()
    bus.node("nw", "w")
    d = bus.delegator("d")

    number = d.delegate("d", **header)
    bus.step()

    assert (bus.entry(number).attempt, bus.entry(number).pinned) == (1, "to" in header)
    flags = read_header(bus.entry(number).envelope).flags
    assert flags & ~Flag.ROUTED == 0
    assert differences(bus.supervisor, bus.history) == []


def test_an_attempt_that_is_none_is_refused() -> None:
    bus = Bus()
    peer = bus.node("nw")

    peer.send(Kind.RESUME, body={"awaiting": [], "holding": {"w": [[request_id(4), 300]]}})
    bus.step()

    assert [error.code for error in peer.took(Kind.ERROR)] == ["invalid_envelope"]


def test_who_sends_again_what_ended_long_ago_is_told_that_its_outcome_is_not_kept() -> None:
    bus = Bus(tap_count=16)
    worker, d = bus.node("nw", "w"), bus.delegator("d")
    numbers = []
    for _ in range(20):
        numbers.append(d.delegate("d"))
        bus.step()
        worker.respond("w", numbers[-1])
        bus.step()
    d.inbox.clear()

    d.delegate("d", number=numbers[0])
    bus.step()

    assert [outcome.code for outcome in d.took(Kind.RESPONSE)] == ["outcome_removed"]


def paid(bus: Bus, peer: Peer, *asked: str, **named: str) -> int:
    """The points that a delegation costs its node, whose turn comes at once."""
    peer.delegate("d", "warm.up")  # brings its clock up to that of the others
    bus.step()
    peer.inbox.clear()
    before = peer.session.input.tag
    peer.delegate("d", *asked, **named)
    bus.step()
    return peer.session.input.tag - before


def test_holders_that_do_not_take_such_work_cost_nothing() -> None:
    bus = Bus()
    peer, d = bus.node("n"), bus.delegator("d")
    declared = pack({"capabilities": [{"name": "x.y"}], "interface": ["chained"]})
    for first in range(0, 4_096, 64):
        names = [f"c{number}" for number in range(first, first + 64)]
        peer.send(Kind.REGISTER, request_id=request_id(9_000 + first), body={"agents": names, "manifest": declared})
    peer.register("free", "x.y")
    bus.step()
    assert paid(bus, d) < 8

    with WorkCounter() as counter:
        d.delegate("d")
        bus.step()

    assert counter.work < 10_000
    assert len(bus.agent("free").work) == 2


def test_what_a_hand_back_looks_at_is_paid_by_the_node_that_hands_back() -> None:
    bus = Bus()
    peer, others, d = bus.node("n"), bus.node("others"), bus.delegator("d")
    peer.register("main", "q")
    for number in range(400):
        declared = (Capability(name=f"q.n{number}"),)
        others.register_manifest(Manifest(agent=f"a{number}", capabilities=declared, interface=("chained",)))
    number = d.delegate("d", "q")
    bus.step()
    peer.send(Kind.HEARTBEAT, body={})  # brings its clock up to that of the others
    bus.step()
    before = peer.session.input.tag

    peer.hand_back("main", number)
    bus.step()

    assert peer.session.input.tag - before >= 400 >> HOLDERS_SHIFT
    assert bus.state.registry.index.looked == 0


def test_a_holder_that_only_the_second_look_finds_is_given_the_work() -> None:
    access = Access(delegate=[DelegateRule("d", to="ok")], register=[RegisterRule("*", "*")])
    bus = Bus(access=access)
    peer, d = bus.node("n"), bus.delegator("d")
    for number in range(1_030):
        peer.register(f"a{number}", f"people.c{number:04}")
    peer.register("ok", "people.zz")
    bus.step()

    for _ in range(4):
        d.delegate("d", "people")
        bus.step()

    assert len(bus.agent("ok").work) == 4


@pytest.mark.parametrize("excluding", [200, 1_000])
def test_of_fallback_agents_that_exclude_a_capability_so_many_kinds_are_passed_over_and_paid_for(
    excluding: int,
) -> None:
    bus = Bus()
    peer, d = bus.node("n"), bus.delegator("d")
    for number in range(excluding):
        peer.send(
            Kind.REGISTER, request_id=request_id(9_000 + number), source=b"c%d" % number,
            body={"capabilities": [{"name": "*"}], "exclusions": ["no", f"no{number}"]},
        )  # fmt: skip
    peer.send(
        Kind.REGISTER, request_id=request_id(1), source=b"last",
        body={"capabilities": [{"name": "*", "latency_weight": 2.0}]},
    )  # fmt: skip
    bus.step()

    with WorkCounter() as counter:
        points = paid(bus, d, "no.such")

    assert 200 >> HOLDERS_SHIFT < points < 300
    assert counter.work < 150_000
    assert len(bus.agent("last").work) == (1 if excluding <= MOST_PASSED else 0)


def test_an_unknown_name_is_paid_for_by_the_names_that_it_is_compared_with() -> None:
    bus = Bus()
    peer, d = bus.node("n"), bus.delegator("d")
    declared = pack({"capabilities": [{"name": "x.y"}]})
    for first in range(0, 4_096, 64):
        names = [f"c{number}" for number in range(first, first + 64)]
        peer.send(Kind.REGISTER, request_id=request_id(9_000 + first), body={"agents": names, "manifest": declared})
    bus.step()

    assert paid(bus, d, to="nobody") < 100
    assert d.outcome().code == "unknown_agent"


def test_after_a_restart_what_nobody_collected_stays_longer_than_what_may_have_been() -> None:
    ended = Ended(most=8)
    ended.keep(bytes(16), b"gone")
    ended.note(bytes(16), b"a", b"gone", 1)
    for number in range(1, 12):
        ended.note(number.to_bytes(16), b"a", b"d", 1 + number)

    ended.restarted()

    assert uncollected(ended, b"gone") == [bytes(16)]
    assert len(uncollected(ended, b"d")) == 7


def test_a_manifest_that_many_agents_have_is_in_a_checkpoint_once() -> None:
    bus = Bus()
    peer = bus.node("n")
    manifest = pack({"capabilities": [{"name": "x.y", "description": "z" * 10_000}]})
    peer.send(
        Kind.REGISTER, request_id=request_id(5), body={"agents": [f"a{n}" for n in range(64)], "manifest": manifest}
    )
    bus.step()

    packed = bus.history.pack()

    assert len(packed) < 2 * len(manifest)
    assert History.of(packed).agents == bus.history.agents


def test_an_id_from_the_future_stands_only_for_those_to_come_that_end_alike() -> None:
    ended = Ended(most=2)
    for seconds in (999_990, 2_000_000, 999_991, 999_992, 999_993, 999_994):
        ended.note(timed(seconds), b"a", b"d", 1)

    assert ended.has_dropped
    assert not ended.may_know(timed(999_995)), "this process has made no such id that is forgotten"
    assert not ended.may_know(timed(999_980, process=3)), "nor has this one, whose clock is behind"
    assert ended.may_know(timed(999_991))
    assert ended.may_know(timed(999_970)), "it may be any of those that it made before"
    assert ended.may_know(timed(2_000_000))
    assert ended.may_know(timed(999_995, process=2)), "the one from the future was of this process"
    assert ended.may_know(bytes(16)), "no UUIDv7 tells when it was made"


def test_an_id_from_the_future_among_those_of_very_many_processes_does_not_stand_for_the_others() -> None:
    ended, most = Ended(most=20_000), 20_000
    ended.note(timed(2_000_000), b"a", b"d", 1)
    for number in range(2 * most):
        ended.note(timed(1_000_000 + number, process=3 + number), b"a", b"d", 1)

    assert ended.may_know(timed(1_000_000, process=3))
    assert all(ended.may_know(timed(1_000_000 + number, process=3 + number)) for number in range(0, 2 * most, 100))
    assert ended.may_know(timed(1_000_000, process=1)), "of a process that may be any of those"
    assert not ended.may_know(timed(1_000_000 + 2 * most, process=1))
    assert ended.may_know(timed(1_000_000 + 2 * most, process=2)), "the one from the future was of this process"
    assert len(ended.pack()["highest"]) <= 16_385


def test_what_is_to_be_forgotten_is_looked_at_a_share_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    ended, drop, looked_at = Ended(), Ended._drop, list[int]()
    monkeypatch.setattr(Ended, "_drop", lambda self, endings: (looked_at.append(len(endings)), drop(self, endings)))
    ids = [timed(1_000_000 + number, process=3 + number) for number in range(4 * REMEMBERED)]
    left = [len(ended._forgotten) for id_ in ids if ended.note(id_, b"a", b"d", 1) is None]

    assert looked_at == [0] * 16 + [4_096] * 48
    assert max(one - other for one, other in itertools.pairwise(left)) == 4_096
    assert [id_ in ended for id_ in ids] == [False] * 3 * REMEMBERED + [True] * REMEMBERED
    assert all(ended.may_know(id_) for id_ in ids)


@pytest.mark.parametrize("has_looked", [True, False], ids=["as it does", "as one that looked at all of them at once"])
def test_a_broker_goes_on_with_what_the_one_before_it_was_to_forget(has_looked: bool) -> None:
    most = 3 * REMEMBERED
    ended, ids = Ended(), [timed(3_000_000 + number * 7_919 % most, process=3 + number) for number in range(most)]
    for id_ in ids[: 5 * REMEMBERED // 2 + 100]:
        ended.note(id_, b"a", b"d", 1)
    state = ended.pack()
    if not has_looked:
        rising = sorted(ids[:REMEMBERED])
        state["highest"] = [rising[-8_193], *rising[-8_192:]]

    again = Ended.of(state)
    assert not has_looked or again.pack() == state
    for id_ in ids[5 * REMEMBERED // 2 + 100 :]:
        again.note(id_, b"a", b"d", 1)

    assert all(again.may_know(id_) for id_ in ids)
    assert sum(id_ in again for id_ in ids) == REMEMBERED


def test_a_broker_that_remembers_fewer_than_the_one_before_it_knows_what_may_have_ended() -> None:
    ended, ids = Ended(most=64), [timed(1_000_000 - number, process=3 + number) for number in range(200)]
    for id_ in ids[:180]:
        ended.note(id_, b"a", b"d", 1)

    again = Ended.of(ended.pack(), most=4)
    for id_ in ids[180:]:
        again.note(id_, b"a", b"d", 1)

    assert all(again.may_know(id_) for id_ in ids)
    assert not again.may_know(timed(1_000_001, process=1))


def timed(seconds: int, process: int = 1) -> bytes:
    """A UUIDv7 of that Unix time and process; the one from the year after next is not of the first."""
    process = 2 if seconds == 2_000_000 else process
    return (seconds * 1000).to_bytes(6) + b"\x70" + process.to_bytes(9)


def test_many_deadlines_at_once_are_ended_over_several_steps() -> None:
    bus = Bus(Limits(window=5_000))
    bus.node("n", "a")
    d = bus.delegator("d")
    for _ in range(1_500):
        d.delegate("d", timeout=1.0)
    bus.step()
    assert len(bus.state.ledger) == 1_500

    bus.now += 1.2
    bus.supervisor.step((), bus.now, bus.now)
    assert len(bus.state.ledger) == 1_500 - 8
    assert bus.supervisor.next_wake() == bus.now

    for _ in range(1_500 // 8):
        bus.step()

    assert len(bus.state.ledger) == 0


def test_a_deadline_is_kept_however_many_of_others_have_passed_before_it() -> None:
    bus = Bus(Limits(window=50_000))
    bus.node("n", "a")
    many, one = bus.delegator("many"), bus.delegator("one")
    for _ in range(5_000):
        many.delegate("many", timeout=1.0)
    number = one.delegate("one", timeout=1.0 + SLOT)
    bus.step()

    bus.now += 1.2 + SLOT
    for _ in range(3):  # so many deadlines are noticed in two of them
        bus.step()

    assert one.outcomes() == {number: Status.TIMEOUT}
    assert len(bus.state.ledger) > 4_900


def test_who_has_few_deadlines_that_have_passed_comes_before_hundreds_of_others_who_had_them_before() -> None:
    bus = Bus(Limits(window=50_000))
    bus.node("n", "a")
    for index in range(300):
        d = bus.delegator(f"d{index}")
        for _ in range(3):
            d.delegate(f"d{index}", timeout=1.0)
    one = bus.delegator("one")
    number = one.delegate("one", timeout=1.0 + 2 * SLOT)
    bus.step()

    bus.now += 1.0 + SLOT
    bus.step()
    bus.now += 2 * SLOT
    bus.step()

    assert one.outcomes() == {number: Status.TIMEOUT}
    assert len(bus.state.ledger) > 600


def test_many_delegators_deadlines_are_ended_as_many_at_once_as_few_delegators_are_not() -> None:
    bus = Bus(Limits(window=50_000))
    bus.node("n", "a")
    for index in range(40):
        d = bus.delegator(f"d{index}")
        for _ in range(20):
            d.delegate(f"d{index}", timeout=1.0)
    bus.step()

    bus.now += 1.2
    bus.step()

    assert len(bus.state.ledger) == 40 * 20 - 128


def test_what_the_broker_does_of_its_own_accord_waits_for_the_commits_of_what_it_has_done() -> None:
    bus = Bus(Limits(window=5_000))
    journal = bus.state.journal = Held(bus.state.journal)
    bus.node("n", "a")
    d = bus.delegator("d")
    for _ in range(400):
        d.delegate("d", timeout=1.0)
    bus.step()
    journal.hold()
    bus.now += 1.2
    for _ in range(40):
        bus.step()
    left = len(bus.state.ledger)
    assert left == 400 - 25 * 8 - 15 * 4  # 192 may be unwritten; then 4 a step, for whoever has few
    assert bus.supervisor.next_wake() > bus.now

    journal.let_go()
    bus.step()
    bus.step()

    assert len(bus.state.ledger) < left
    assert bus.supervisor.next_wake() == bus.now


def test_delegators_that_are_back_are_served_in_turn_however_often_one_asks() -> None:
    bus = Bus()
    many, one = bus.delegator("many"), bus.delegator("one")
    for start in range(0, 2_000, 100):
        many.send(Kind.RESUME, body={"awaiting": [request_id(10_000 + start + number) for number in range(100)]})
    one.send(Kind.RESUME, body={"awaiting": [request_id(77)]})
    for _ in range(4):
        bus.step()

    assert [received.number for received in one.took(Kind.RESPONSE)] == [77]


@pytest.mark.parametrize("kind", [Kind.HEARTBEAT, Kind.RESUME, Kind.OBSERVE, Kind.UNREGISTER, Kind.MONITOR])
def test_maps_and_lists_cost_the_session_before_they_are_read_and_too_many_are_refused(kind: Kind) -> None:
    bus = Bus()
    peer = bus.node("n", "a")
    session = bus.agent("a").session

    before = session.input.tag
    peer.send(kind, body=[{}] * 160)
    bus.step()
    assert session.input.tag - before >= 10

    before = session.input.tag
    peer.send(kind, body=[{}] * 20_000)
    bus.step()
    assert session.input.tag - before > 1_024
    assert "too_much" in [error.code for error in peer.took(Kind.ERROR)]


def test_maps_and_lists_cost_in_a_question_to_the_bus_and_in_no_other_delegation() -> None:
    bus = Bus()
    worker, asker = bus.node("nw", "w"), bus.delegator("d")
    session = bus.agent("d").session

    costs = []
    for number, capability in enumerate(("ether.agents", "x.y")):
        before = session.input.tag
        asker.send(
            Kind.DELEGATION,
            request_id=request_id(number),
            source=b"d",
            capability=capability.encode(),
            body=[{}] * 1_600,
        )
        bus.step()
        costs.append(session.input.tag - before)

    assert costs[0] >= 100
    assert costs[1] < 10
    assert len(worker.work()) == 1


WORDS = ".".join(f"word{number}" for number in range(15))
MANIFEST = {
    "capabilities": [{"name": f"w{number}.{WORDS}"} for number in range(512)],
    "exclusions": [f"not.{number}" for number in range(512)],
}
DEAR = {
    "a heartbeat of names": (Kind.HEARTBEAT, {"agents": {f"{number:05}": None for number in range(10_000)}}),
    "a heartbeat of numbers": (Kind.HEARTBEAT, {"agents": {}, "x": [1] * 50_000}),
    "many topics": (Kind.OBSERVE, {"topics": ["abcd"] * 50_000}),
    "long topics": (Kind.OBSERVE, {"topics": ["abcd." * 40] * 256}),
    "awaiting": (Kind.RESUME, {"awaiting": [request_id(number) for number in range(1_000)], "holding": {}}),
    "holding": (Kind.RESUME, {"awaiting": [], "holding": {"w": [[request_id(n), 1] for n in range(1_000)]}}),
    "awaiting nothing": (Kind.RESUME, {"awaiting": [1] * 50_000}),
    "many names": (Kind.REGISTER, {"agents": ["abcd"] * 40_000, "manifest": b""}),
    "many agents": (Kind.REGISTER, {"agents": [f"a{n}" for n in range(64)], "manifest": pack({"tools": ["x"]})}),
    "many words": (Kind.REGISTER, {"agents": ["a"], "manifest": pack(MANIFEST)}),
    "many tools": (Kind.REGISTER, {"agents": ["a"], "manifest": pack({"tools": ["x"] * 50_000})}),
    "many subscriptions": (
        Kind.REGISTER,
        {"agents": ["a"], "manifest": pack({"capabilities": [], "subscriptions": [7] * 60_000})},
    ),
    "many exclusions": (
        Kind.REGISTER,
        {"agents": ["a"], "manifest": pack({"capabilities": [], "exclusions": [7] * 60_000})},
    ),
    "a monitor with a body": (Kind.MONITOR, {"x": [1] * 50_000}),
    "an end with a body": (Kind.UNREGISTER, {"reason": "x", "y": [1] * 50_000}),
    "a question of many names": (Kind.DELEGATION, {"params": pack({"agents": ["abc"] * 4_000})}),
}
A_POINT = 400
"""Units of work that 10 µs are, on a machine as `ether_broker.transport.sessions.cost` has it in mind."""


@pytest.mark.parametrize(("kind", "body"), DEAR.values(), ids=DEAR)
def test_what_reading_a_body_takes_is_charged_to_who_sends_it(kind: Kind, body: object) -> None:
    bus = Bus()
    peer = bus.node("n", "w")
    bus.step()
    header = {"source": b"w", "capability": b"ether.agents"} if kind is Kind.DELEGATION else {}
    peer.send(kind, request_id=request_id(5), target=b"w" if kind is Kind.MONITOR else b"", body=body, **header)
    if kind is Kind.UNREGISTER:
        peer.send(kind, source=b"w", body=body)
    spent = peer.session.input.tag

    with WorkCounter() as counter:
        bus.step()

    assert counter.work < 5 * A_POINT * (peer.session.input.tag - spent)


@pytest.mark.parametrize("kind", [Kind.TAP, Kind.DOWN, Kind.WELCOME, Kind.EVENT, 0, 99, 255])
def test_what_is_not_for_the_broker_is_answered_once_for_many_and_costs_little_more_than_a_cancel(kind: int) -> None:
    work = {}
    for sent in (Kind.CANCEL, kind):
        bus = Bus()
        peer = bus.node("n", "a")
        peer.raw(
            join_frame([pack_envelope(sent, request_id=request_id(number)) for number in range(MAX_FRAME_ENVELOPES)])
        )
        with WorkCounter() as counter:
            bus.step()
        work[sent] = counter.work

    assert peer.refusal().code == "malformed_frame"
    assert bus.state.session_table.refused == MAX_FRAME_ENVELOPES
    assert work[kind] < 2.5 * work[Kind.CANCEL]


@pytest.mark.parametrize("header", [{"to": "nobody"}, {"capability": "no.such"}, {"to": "w", "parent": 4_711}])
def test_of_what_is_refused_the_tap_and_the_journal_have_no_body(header: dict[str, object]) -> None:
    bus = Bus()
    bus.node("nw", "w")
    d = bus.delegator("d")
    written = sum(len(seen.envelope) for seen in bus.tapped)

    number = d.delegate("d", params={"x": "z" * 500_000}, **header)
    bus.step()

    assert d.outcome().number == number
    assert sum(len(seen.envelope) for seen in bus.tapped) - written < 2_000
    (delegation,) = [seen for seen in bus.tapped if seen.kind is Kind.DELEGATION]
    assert (delegation.number, delegation.body) == (number, {})
    assert differences(bus.supervisor, bus.history) == []


def test_a_dead_letter_of_what_is_refused_has_the_body_so_that_it_can_be_sent_again() -> None:
    bus = Bus()
    d = bus.delegator("d")

    d.delegate("d", to="nobody", params={"x": "z" * 5_000})
    bus.step()

    ((_, letter),) = bus.state.dead_letters.below()
    assert letter is not None
    assert len(letter.envelope) > 5_000


def test_an_outcome_that_is_asked_for_once_more_costs_who_asks_what_it_weighs() -> None:
    bus = Bus()
    worker, d = bus.node("nw", "w"), bus.delegator("d")
    session = bus.agent("d").session
    number = d.delegate("d")
    bus.step()
    worker.respond("w", number, data="z" * 1_000_000)
    bus.step()

    before = session.input.tag
    d.delegate("d", number=number, flags=int(Flag.RESENT))
    bus.step()
    assert session.input.tag - before >= 450

    before = session.input.tag
    session.channel.acknowledge(session.channel.last)
    d.send(Kind.RESUME, body={"awaiting": [request_id(number)], "holding": {}})
    bus.step()
    bus.step()
    assert session.input.tag - before >= 450
    assert len(d.took(Kind.RESPONSE)) == 3


def test_outcomes_that_are_asked_for_again_are_given_at_a_rate_and_to_everybody_in_turn() -> None:
    bus = Bus()
    worker, greedy, other = bus.node("nw", "w"), bus.delegator("d"), bus.delegator("e")
    numbers = [greedy.delegate("d"), other.delegate("e")]
    bus.step()
    for number in numbers:
        worker.respond("w", number, data="z" * 1_000_000)
        bus.step()
    greedy.inbox.clear()
    other.inbox.clear()

    for _ in range(60):
        greedy.delegate("d", number=numbers[0], flags=int(Flag.RESENT))
    other.delegate("e", number=numbers[1], flags=int(Flag.RESENT))
    bus.step()
    assert len(greedy.inbox) <= 3

    bus.pass_time(0.2)
    assert len(other.took(Kind.RESPONSE)) == 1
    bus.pass_time(0.8)
    assert 10 <= len(greedy.took(Kind.RESPONSE)) <= 20
    bus.pass_time(4.0)
    assert len(greedy.took(Kind.RESPONSE)) >= 40
    assert not bus.supervisor._replay.asked


def test_of_a_lost_node_whose_agents_are_still_known_nothing_is_kept_that_was_under_way() -> None:
    bus = Bus()
    worker, d = bus.node("nw", "w"), bus.delegator("d")
    for _ in range(20):
        d.delegate("d", to="w", params={"x": "z" * 500_000})
        bus.step()
    kept = tracked(bus)

    worker.die()
    bus.pass_time(5.0)

    session = bus.agent("w").session
    assert session.lost
    assert (session.channel.retained_bytes, session.unacknowledged()) == (0, [])
    assert tracked(bus) < kept - 9_000_000


def tracked(bus: Bus) -> int:
    """Bytes of the frames that the broker keeps for its nodes, lost ones included."""
    sessions = {id(agent.session): agent.session for agent in bus.state.registry.agents}
    return sum(len(envelope) for session in sessions.values() for envelope in session.unacknowledged())


def lost_crowd() -> tuple[Bus, Peer, list[int]]:
    """A node that was just lost with three times as much work as one step rules on, and who asked for it."""
    bus = Bus()
    d = bus.delegator("d")
    worker = bus.node("nw", *(f"w{number}" for number in range(2 * POINTS_PER_STEP // 100 + 10)))
    numbers = []
    for agent in sorted(bus.agent(f"w{number}").manifest.agent for number in range(2 * POINTS_PER_STEP // 100 + 10)):
        numbers += [d.delegate("d", to=agent, timeout=60.0) for _ in range(100)]
    bus.step()
    assert len(worker.work()) == len(numbers) > 2 * POINTS_PER_STEP
    session = worker.session
    worker.is_dead = True
    bus.state.session_table.unreachable(session.receiver)
    bus.supervisor.step([], bus.now, bus.now + 1e9)
    return bus, d, numbers


def test_the_work_of_a_lost_node_is_ended_a_share_a_step_and_nobody_else_waits_for_it() -> None:
    bus, d, numbers = lost_crowd()
    steps = 1
    while bus.state.ledger:
        before = len(bus.state.ledger)
        assert differences(bus.supervisor, bus.history) == []
        assert bus.supervisor.next_wake() <= bus.now
        bus.supervisor.step([], bus.now, bus.now + 1e9)
        assert before - len(bus.state.ledger) <= POINTS_PER_STEP + 100
        steps += 1

    bus.step()
    assert steps > 2
    assert [outcome.code for outcome in d.took(Kind.RESPONSE)] == ["node_lost"] * len(numbers)
    assert differences(bus.supervisor, bus.history) == []


def test_work_of_a_lost_node_that_waits_for_its_ruling_is_ended_before_its_agents_name_is_taken() -> None:
    bus, d, numbers = lost_crowd()
    name = list(bus.supervisor._membership.departures.waiting)[-1].manifest.agent
    asked = {number for number in numbers if (entry := bus.entry(number)) and entry.agent.manifest.agent == name}

    standby = Peer(bus, "standby")
    bus.peers.append(standby)
    standby.hello()
    bus.supervisor.step(bus._arrivals, bus.now, bus.now + 1e9)
    bus._arrivals.clear()
    standby.register(name)
    bus.step()

    assert bus.agent(name).session.node == "standby"
    assert not any(bus.entry(number) for number in asked)
    assert standby.work() == []
    assert asked <= {outcome.number for outcome in d.took(Kind.RESPONSE)}
    assert differences(bus.supervisor, bus.history) == []


def test_a_broker_that_dies_while_the_work_of_a_lost_node_waits_for_its_ruling_leaves_it_to_the_next() -> None:
    bus, _, _ = lost_crowd()
    waiting = {agent.manifest.agent for agent in bus.supervisor._membership.departures.waiting}

    assert waiting
    assert {name for name, agent in bus.history.agents.items() if not agent.is_down} == waiting | {"d"}
    assert all(bus.history.agents[name].node == "nw" for name in waiting)


def test_the_children_of_what_has_ended_are_called_off_a_share_a_step_and_none_is_made_meanwhile() -> None:
    bus = Bus(Limits(window=5_000))
    d = bus.node("n", "a")
    worker = bus.node("nw", "w")
    parent = d.delegate("a", to="a", timeout=60.0)
    bus.step()
    numbers = [d.delegate("a", to="w", timeout=60.0, parent=parent) for _ in range(8 * CHILDREN)]
    bus.step()
    assert len(worker.work()) == len(numbers)
    d.took(Kind.DELEGATION)

    d.send(Kind.CANCEL, request_id=request_id(parent), source=b"a")
    numbers.append(d.delegate("a", to="w", parent=parent))
    steps = 0
    while not steps or bus.supervisor.next_wake() <= bus.now:
        before = len(bus.state.ledger)
        bus.step()
        assert before - len(bus.state.ledger) <= 4 * CHILDREN
        assert differences(bus.supervisor, bus.history) == []
        steps += 1

    assert steps > 3
    ended = {outcome.number: outcome.code for outcome in d.took(Kind.RESPONSE)}
    assert ended == {parent: "cancelled", **dict.fromkeys(numbers, "parent_ended")}
    assert len(worker.took(Kind.CANCEL)) == len(numbers) - 1


def test_a_node_that_leaves_is_out_of_every_choice_at_once_and_told_bye_when_its_last_agent_has_left() -> None:
    bus = Bus()
    d, stays = bus.delegator("d"), bus.node("ns", "s")
    leaves = bus.node("nl", *(f"l{number}" for number in range(3 * POINTS_PER_STEP)))
    waiting = d.delegate("d", to="l0", timeout=60.0)
    bus.step()
    leaves.took(Kind.DELEGATION)

    leaves.send(Kind.BYE)
    bus.supervisor.step(bus.take_arrivals(), bus.now, bus.now)
    assert POINTS_PER_STEP < len(bus.state.registry) - 2 < 3 * POINTS_PER_STEP
    assert differences(bus.supervisor, bus.history) == []
    numbers = [d.delegate("d", timeout=60.0) for _ in range(20)]
    by_name = d.delegate("d", to=f"l{3 * POINTS_PER_STEP - 1}", timeout=60.0)
    bus.step()
    assert stays.work() == numbers
    while bus.supervisor.next_wake() <= bus.now:
        assert leaves.took(Kind.BYE) == []
        bus.step()
        assert differences(bus.supervisor, bus.history) == []

    assert [event["reason"] for event in bus.events("agent_down")] == ["left"] * 3 * POINTS_PER_STEP
    assert len(leaves.took(Kind.BYE)) == 1
    codes = {outcome.number: outcome.code for outcome in d.took(Kind.RESPONSE)}
    assert codes == {waiting: "node_lost", by_name: "agent_down"}
    assert len(bus.state.registry) == 2


def test_a_node_that_is_lost_while_its_agents_leave_has_left() -> None:
    bus = Bus()
    watcher = bus.node("nw")
    leaves = bus.node("nl", *(f"l{number}" for number in range(3 * POINTS_PER_STEP)))
    watcher.send(Kind.MONITOR, request_id=request_id(9_000), target=b"node:nl")
    bus.step()

    leaves.send(Kind.BYE)
    bus.supervisor.step(bus.take_arrivals(), bus.now, bus.now)
    session = leaves.session
    leaves.is_dead = True
    bus.state.session_table.unreachable(session.receiver)
    while bus.supervisor.next_wake() <= bus.now:
        bus.step()
        assert differences(bus.supervisor, bus.history) == []

    assert {event["reason"] for event in bus.events("agent_down")} == {"left"}
    assert len(bus.events("agent_down")) == 3 * POINTS_PER_STEP
    assert len(watcher.took(Kind.DOWN)) == 1
    assert len(bus.state.registry) == 0


def test_who_monitors_a_node_that_is_back_is_not_told_of_its_earlier_loss() -> None:
    bus = Bus()
    watcher = bus.node("nw")
    earlier = bus.node("nl", *(f"l{number}" for number in range(3 * POINTS_PER_STEP)))
    earlier.is_dead = True
    bus.state.session_table.close(earlier.session, "gone")
    bus.supervisor.step([], bus.now, bus.now)

    bus.node("nl")
    watcher.send(Kind.MONITOR, request_id=request_id(9_000), target=b"node:nl")
    _through(bus)

    assert watcher.took(Kind.DOWN) == []


def test_what_many_agents_that_drain_have_waiting_goes_to_others_over_several_steps_and_never_to_one_of_them() -> None:
    bus = Bus(Limits(window=1))
    d, stays = bus.delegator("d"), bus.node("ns", "s")
    drains = bus.node("nl", *(f"l{number}" for number in range(2 * POINTS_PER_STEP)))
    for _ in range(3 * POINTS_PER_STEP):
        d.delegate("d", timeout=60.0)
    bus.step()
    given = drains.work()
    stays.took(Kind.DELEGATION)

    drains.send(Kind.UNREGISTER, flags=DRAINS)
    steps = 0
    while not steps or bus.supervisor.next_wake() <= bus.now:
        bus.step()
        assert differences(bus.supervisor, bus.history) == []
        steps += 1

    assert steps > 2
    assert drains.work() == []
    assert len(given) == 2 * POINTS_PER_STEP
    assert len(bus.events("agent_draining")) == 2 * POINTS_PER_STEP
    assert bus.agent("s").mailbox.outstanding == POINTS_PER_STEP


def test_what_the_access_list_does_not_have_costs_who_asks_as_much_as_any_dead_letter() -> None:
    costs = []
    for who in ("other*", "*"):
        bus = Bus(
            access=Access.of({"delegate": [{"who": who, "what": "x.*"}], "register": [{"node": "*", "agents": "*"}]})
        )
        bus.node("nw", "w")
        d = bus.delegator("d")
        spent = d.session.input.tag
        d.delegate("d", to="nobody")
        bus.step()
        costs.append((d.outcome().code, d.session.input.tag - spent))

    (denied, points), (unknown, others) = costs
    assert (denied, unknown) == ("access_denied", "unknown_agent")
    assert 26 <= points <= others


def test_the_successor_of_a_node_that_said_bye_need_not_wait_for_what_that_leaves() -> None:
    bus = Bus()
    leaves = bus.node("nl", *(f"l{number}" for number in range(3 * POINTS_PER_STEP)))
    leaves.send(Kind.BYE)
    bus.supervisor.step(bus.take_arrivals(), bus.now, bus.now)

    bus.node("nl", "l0")
    while bus.supervisor.next_wake() <= bus.now:
        bus.step()
        assert differences(bus.supervisor, bus.history) == []

    assert [agent.manifest.agent for agent in bus.state.registry.agents] == ["l0"]
    assert bus.agent("l0").condition is Condition.UP


def test_an_agent_that_came_back_and_is_lost_again_is_kept_from_that_on() -> None:
    bus = Bus()
    bus.node("n1", "a", "z").die()
    bus.pass_time(4.0)
    n2 = bus.node("n2", *(f"b{number}" for number in range(3 * POINTS_PER_STEP)), "z")
    bus.pass_time(597.0)

    n2.is_dead = True
    bus.state.session_table.close(n2.session, "gone")
    for _ in range(2):
        bus.now += 1.5
        bus.supervisor.step([], bus.now, bus.now)

    assert bus.state.registry.get(b"a") is None
    assert bus.state.registry.get(b"z") is not None
    _through(bus)
    assert bus.agent("z").condition is Condition.DOWN
    assert differences(bus.supervisor, bus.history) == []


def _through(bus: Bus) -> None:
    bus.step()
    while bus.supervisor.next_wake() <= bus.now:
        bus.step()


def test_what_has_expired_in_one_mailbox_is_ended_a_share_a_step_and_what_is_behind_it_is_sent() -> None:
    bus = Bus(Limits(window=1))
    d, worker = bus.delegator("d"), bus.node("nw", "w")
    first = d.delegate("d", to="w", timeout=100.0)
    for _ in range(1_000):
        d.delegate("d", to="w", timeout=10.0)
    last = d.delegate("d", to="w", timeout=100.0)
    bus.step()
    assert worker.work() == [first]

    bus.now += 10.0
    worker.respond("w", first)
    bus.supervisor.step(bus.take_arrivals(), bus.now, bus.now)
    assert len(bus.state.ledger) > 1_000 - 4 * CHILDREN
    _through(bus)

    assert worker.work() == [last]
    assert list(d.outcomes().values()).count(Status.TIMEOUT) == 1_000
