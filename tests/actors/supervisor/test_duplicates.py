"""One request id, sent more than once."""

from __future__ import annotations

from collections import Counter

import pytest

from ether_broker.envelope.ids import foreign_id
from ether_broker.envelope.manifest.manifest import Manifest
from ether_broker.envelope.payload import unpack
from ether_broker.envelope.status import Status
from ether_broker.wire.frame import Flag, Kind
from tests.actors.fold import differences
from tests.actors.peers import Bus, Peer, request_id, uncollected


def test_the_same_request_of_the_same_delegator_gets_its_outcome_again():
    bus = Bus()
    desk, worker = bus.delegator("desk"), bus.node("w", "w")
    number = desk.delegate("desk")
    bus.step()
    worker.respond("w", number)
    bus.step()
    assert desk.outcomes() == {number: Status.COMPLETED}

    desk.delegate("desk", number=number)
    bus.step()

    assert desk.outcomes() == {number: Status.COMPLETED}
    assert worker.work() == [number]


def test_a_delegator_that_moved_while_its_old_node_lives_finds_its_work_by_collecting():
    bus = Bus()
    here, worker = bus.delegator("desk"), bus.node("w", "w")
    ended, running = here.delegate("desk", timeout=100.0), here.delegate("desk", timeout=100.0)
    bus.step()
    here.send(Kind.UNREGISTER, source=b"desk", body={})
    worker.respond("w", ended)
    bus.step()
    there = bus.node("there")
    there.register_manifest(Manifest(agent="desk"))
    bus.step()
    there.inbox.clear()

    there.delegate("desk", "ether.outcomes", to="ether")
    bus.step()

    (told,) = there.took(Kind.RESPONSE)
    found = {int.from_bytes(item["request_id"]): item["ended"] for item in unpack(told.body["data"])["items"]}
    assert found == {ended: True, running: False}
    assert here.outcomes() == {ended: Status.COMPLETED}, "a handler of the agent that left may still wait there"
    there.send(Kind.RESUME, body={"awaiting": [request_id(ended), request_id(running)]})
    bus.pass_time(1.0)
    worker.work()
    worker.respond("w", running)
    bus.step()
    assert there.outcomes() == {ended: Status.COMPLETED, running: Status.COMPLETED}
    assert (here.outcome().code, here.outcomes()) == ("delegator_gone", {}), "who waits there waits no more"
    assert differences(bus.supervisor, bus.history) == []


@pytest.mark.parametrize("has_ended", [False, True])
@pytest.mark.parametrize("asks", ["delegates", "awaits"])
def test_a_delegator_that_moved_to_another_node_gets_there_what_it_asks_for_again(asks: str, has_ended: bool):
    bus = Bus()
    here, worker = bus.delegator("desk"), bus.node("w", "w")
    number = here.delegate("desk")
    bus.step()
    if has_ended:
        worker.respond("w", number)
        bus.step()
    here.send(Kind.UNREGISTER, source=b"desk", body={"condition": "gone"})
    bus.step()
    there = bus.node("there")
    there.register_manifest(Manifest(agent="desk"))
    bus.step()
    here.inbox.clear()

    if asks == "delegates":
        there.delegate("desk", number=number)
    else:
        there.send(Kind.RESUME, body={"awaiting": [request_id(number)]})
    bus.step()
    if not has_ended:
        worker.respond("w", number)
    bus.step()

    assert there.outcomes() == {number: Status.COMPLETED}
    if not has_ended:
        assert here.outcome().code == "delegator_gone"
    assert here.outcomes() == {}
    assert worker.work() == [number]


@pytest.mark.parametrize("has_ended", [False, True])
@pytest.mark.parametrize("flags", [0, int(Flag.RESENT)])
def test_an_id_that_another_delegator_used_is_refused_at_once_and_tells_nothing_of_the_first(
    has_ended: bool, flags: int
):
    bus = Bus()
    desk, hall, worker = bus.delegator("desk"), bus.delegator("hall"), bus.node("w", "w")
    number = desk.delegate("desk")
    bus.step()
    if has_ended:
        worker.respond("w", number)
        bus.step()

    hall.delegate("hall", number=number, flags=flags)
    bus.step()

    refusal = hall.outcome()
    assert (refusal.number, refusal.status, refusal.code) == (number, Status.REJECTED_CONTEXT, "duplicate_request")
    assert "desk" not in str(refusal.body)
    if not has_ended:
        worker.respond("w", number)
        bus.step()
    assert desk.outcomes() == {number: Status.COMPLETED}


def test_a_forged_request_with_a_known_id_is_answered_nothing():
    bus = Bus()
    desk, hall, _worker = bus.delegator("desk"), bus.delegator("hall"), bus.node("w", "w")
    number = desk.delegate("desk")
    bus.step()

    hall.delegate("desk", number=number)
    bus.step()

    assert hall.took(Kind.RESPONSE) == []


@pytest.mark.parametrize(
    ("source", "capability", "code"),
    [
        ("desk", "no.such.thing", "forged_sender"), ("hall", "no.such.thing", "no_holder"),
        ("hall", "ether.no-such", "no_holder"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("has_left_the_ring", [False, True])
def test_what_was_refused_to_another_stands_in_nobodys_way(
    source: str, capability: str, code: str, *, has_left_the_ring: bool
) -> None:
    bus = Bus(tap_count=16)
    desk, hall, worker = bus.delegator("desk"), bus.delegator("hall"), bus.node("w", "w")
    number = hall.delegate(source, capability)
    bus.step()
    assert hall.outcome().code == code
    hall.acknowledge()
    if has_left_the_ring and capability.startswith("ether."):
        pytest.skip("without a journal nobody knows any more whose it was")
    for _ in range(20 if has_left_the_ring else 0):
        desk.delegate("desk", "no.such.thing")
        bus.step()
    desk.inbox.clear()

    desk.delegate("desk", number=number)
    bus.step()
    worker.respond("w", number)
    bus.step()

    assert desk.outcomes() == {number: Status.COMPLETED}
    assert differences(bus.supervisor, bus.history) == []


def test_a_refusal_that_its_delegator_has_not_heard_is_kept_for_it():
    bus = Bus()
    desk, hall = bus.delegator("desk"), bus.delegator("hall")
    number = hall.delegate("hall")
    bus.step()
    hall.die()
    bus.pass_time(5.0)
    bus.node("w", "w")

    desk.delegate("desk", number=number)
    bus.step()

    assert desk.outcome().code == "duplicate_request"
    assert uncollected(bus.state.ended, b"hall") == [request_id(number)]


def test_a_refusal_on_its_way_stays_its_delegators_though_another_says_the_same_id() -> None:
    # Given a refusal that its delegator, which is in, has not acknowledged
    bus = Bus()
    desk, hall = bus.delegator("desk"), bus.delegator("hall")
    hall.acknowledge()
    numbers = [hall.delegate("hall") for _ in range(256)]
    bus.step()
    bus.node("w", "w")

    # When another says its id
    before = desk.session.input.tag
    desk.delegate("desk", number=numbers[-1])
    bus.step()

    # Then it is refused, pays for the look through all that is on its way, and takes nothing
    assert [told.code for told in desk.took(Kind.RESPONSE)] == ["duplicate_request"]
    assert desk.session.input.tag - before >= 256 >> 6
    hall.die()
    bus.pass_time(5.0)
    back = bus.delegator("hall")
    back.send(Kind.RESUME, body={"awaiting": [request_id(numbers[-1])]})
    bus.pass_time(1.0)
    assert [(told.number, told.code) for told in back.took(Kind.RESPONSE)] == [(numbers[-1], "no_holder")]


@pytest.mark.parametrize("capability", ["x.y", "ether.nothing"])
def test_what_is_refused_to_another_too_changes_nothing_of_the_first_refusal(capability: str):
    bus = Bus()
    desk, hall = bus.delegator("desk"), bus.delegator("hall")
    number = hall.delegate("hall")
    bus.step()
    assert hall.outcome().code == "no_holder"
    hall.acknowledge()
    passed = len(bus.tapped)

    desk.delegate("desk", capability, number=number)
    bus.step()
    assert desk.outcome().code == "no_holder"
    hall.delegate("hall", number=number, flags=int(Flag.RESENT))
    bus.step()

    assert hall.outcome().code == "no_holder"
    assert Kind.DELEGATION not in [seen.kind for seen in bus.tapped[passed:]]
    assert differences(bus.supervisor, bus.history) == []


def test_a_request_that_was_refused_is_refused_again_when_its_own_delegator_sends_it_again():
    bus = Bus()
    desk = bus.delegator("desk")
    number = desk.delegate("desk")
    bus.step()
    assert desk.outcome().code == "no_holder"
    bus.node("w", "w")

    desk.delegate("desk", number=number, flags=int(Flag.RESENT))
    bus.step()

    assert desk.outcome().code == "no_holder"


@pytest.mark.parametrize("has_ended", [False, True])
def test_an_id_that_was_given_to_another_capability_is_refused_and_names_it(has_ended: bool):
    bus = Bus()
    desk, worker = bus.delegator("desk"), bus.node("w", "w")
    number = desk.delegate("desk")
    bus.step()
    if has_ended:
        worker.respond("w", number)
        bus.step()
        bus.step()
    desk.inbox.clear()

    desk.delegate("desk", "x.other", number=number)
    bus.step()

    refusal = desk.outcome()
    assert (refusal.number, refusal.status, refusal.code) == (number, Status.REJECTED_CONTEXT, "duplicate_request")
    assert "your x.y:" in refusal.body["error"]["message"]
    assert bus.state.dead_letters.get(1).detail == "another request came before"
    if not has_ended:
        worker.respond("w", number)
        bus.step()
        assert desk.outcomes()[number] is Status.COMPLETED
    assert differences(bus.supervisor, bus.history) == []


@pytest.mark.parametrize("asked", ["x", "y", "x.y"])
def test_an_id_is_the_same_request_by_whichever_name_its_capability_was_asked_for(asked: str):
    bus = Bus()
    desk, worker = bus.delegator("desk"), bus.node("w", "w")
    number = desk.delegate("desk", asked, to="w")
    bus.step()
    worker.respond("w", number)
    bus.step()
    desk.inbox.clear()

    desk.delegate("desk", asked, to="w", number=number)
    bus.step()

    assert desk.outcome().status is Status.COMPLETED


DAY = 86_400.0


def timed(wall: float, number: int = 0, process: int = 1) -> bytes:
    """A UUIDv7 that a process made when its machine showed that Unix time."""
    return (int(wall * 1000) << 80 | 7 << 76 | 2 << 62 | number << 40 | process).to_bytes(16)


@pytest.mark.parametrize("flags", [0, int(Flag.RESENT)], ids=["new", "resent"])
@pytest.mark.parametrize("later", [1.0, 30.0, 4_000.0])
@pytest.mark.parametrize(("ahead", "others"), [
    (0.0, 0.0), (1.5, 0.0), (10.0, 0.0), (3600.0, 0.0), (0.0, -3600.0), (3600.0, -3600.0), (1e9, 0.0)
])  # fmt: skip
def test_what_ended_and_is_forgotten_does_not_run_again_whatever_the_clocks_show(
    ahead: float, others: float, later: float, flags: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that is ahead; one that is set back while others end, and right again when the first is sent again."""
    bus = Bus(remembered=8)
    worker, desk = bus.node("w", "w"), bus.delegator("desk")
    monkeypatch.setattr(bus.state.journal, "outcome", lambda id_: outcome_of(bus, id_), raising=False)
    desk.send(Kind.REGISTER, request_id=timed(bus.wall), source=b"desk", body={})
    bus.step()
    mine, ran = timed(bus.wall + ahead, 999), Counter[int]()

    def ask(id_: bytes, flags: int = 0) -> None:
        desk.delegate("desk", request_id=id_, flags=flags)
        bus.step()
        for number in worker.work():
            ran[number] += 1
            worker.respond("w", number)
        bus.step()

    ask(mine)
    (first,) = desk.outcomes().values()
    bus.ahead = others
    for number in range(1, 40):
        ask(timed(bus.wall, number, process=2))
    bus.ahead = 0.0
    desk.inbox.clear()
    bus.pass_time(later)
    ask(mine, flags)

    assert first is Status.COMPLETED
    assert ran[int.from_bytes(mine)] == 1
    assert desk.outcomes() == {int.from_bytes(mine): first}


@pytest.mark.parametrize("flags", [0, int(Flag.RESENT)], ids=["new", "resent"])
@pytest.mark.parametrize("attack", ["run", "v7", "take", "other last bytes", "far ahead"])
def test_a_stranger_that_sends_a_forgotten_id_takes_nothing_from_its_owner_whatever_it_says_of_its_own_ids(
    attack: str, flags: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It registers with an id that ends as the owner's does and is far below it, or far above."""
    bus = Bus(remembered=8)
    worker, desk = bus.node("w", "w"), bus.delegator("desk")
    monkeypatch.setattr(bus.state.journal, "outcome", lambda id_: outcome_of(bus, id_), raising=False)
    mine = timed(bus.wall, 999, process=7) if attack in {"v7", "far ahead"} else foreign_id("dlg-2025-10-06-001")
    maker = 8 if attack == "other last bytes" else int.from_bytes(mine[11:])
    desk.delegate("desk", request_id=mine)
    bus.step()
    assert worker.work() == [int.from_bytes(mine)]
    worker.respond("w", int.from_bytes(mine), summary="the first")
    bus.step()
    first = desk.outcome()
    for number in range(40):
        desk.delegate("desk", "no.such.thing", request_id=timed(bus.wall + 1.0, number, process=2))
        bus.step()
    assert mine not in bus.state.ended

    thief = bus.node("thief")
    said = timed(bus.wall + 1e9 if attack == "far ahead" else 0.0, process=maker)
    thief.send(Kind.REGISTER, request_id=said, source=b"thief", body={"capabilities": [{"name": "mine"}]})
    bus.step()
    thief.inbox.clear()
    if attack == "take":
        thief.delegate("thief", "mine", request_id=mine)
    else:
        thief.delegate("thief", to="nobody", request_id=mine)
    bus.step()
    desk.inbox.clear()
    desk.delegate("desk", request_id=mine, flags=flags)
    bus.step()

    assert thief.outcome().code == "duplicate_request"
    assert thief.work() == []
    assert worker.work() == []
    assert desk.outcome().body == first.body
    assert differences(bus.supervisor, bus.history) == []


def test_what_a_stranger_says_of_its_ids_lets_it_run_what_no_journal_may_know_only_in_its_own_name() -> None:
    """Volatile work of a broker before: its owner, whom this broker has not seen make the id, is told that it was lost."""
    bus = Bus(remembered=8)
    bus.state.has_recovered = True
    worker, desk, mine = bus.node("w", "w"), bus.delegator("desk"), timed(bus.wall, 999, process=7)
    resent = int(Flag.RESENT | Flag.VOLATILE)
    thief = bus.node("thief")
    thief.send(Kind.REGISTER, request_id=timed(0.0, process=7), source=b"thief", body={})
    bus.step()
    thief.inbox.clear()

    thief.delegate("thief", to="nobody", request_id=mine, flags=resent)
    bus.step()
    assert thief.outcome().code == "unknown_agent"
    thief.acknowledge()
    desk.delegate("desk", request_id=mine, flags=resent)
    bus.step()

    assert desk.outcome().code == "broker_lost"
    assert worker.work() == []


def outcome_of(bus: Bus, id_: bytes) -> bytes | None:
    """As the journal tells it."""
    answers = [seen for seen in bus.tapped if seen.kind is Kind.RESPONSE and seen.header.request_id == id_]
    return next((seen.envelope for seen in answers if seen.status.is_terminal), None)


def bus_that_removed(wall: float) -> tuple[Bus, Peer, Peer]:
    """A bus that has forgotten endings, whose journal was rid of what passed until then; a specialist, a delegator."""
    bus = Bus(remembered=2)
    worker, desk = bus.node("w", "w"), bus.delegator("desk")
    for number in range(8):
        desk.delegate("desk", request_id=timed(bus.now + 1e9, number))
        bus.step()
        worker.respond("w", worker.took(Kind.DELEGATION)[0].number)
        bus.step()
    bus.state.journal.removed_until = wall
    desk.inbox.clear()
    return bus, worker, desk


@pytest.mark.parametrize(
    ("made", "is_lost"),
    [(DAY + 3.0, True), (DAY - 1.0, False), (-60.0, False), (3 * DAY, True), (None, False)],
    ids=["after", "perhaps before", "before", "above all that is forgotten", "nobody knows"],
)
def test_what_is_sent_again_and_is_not_known_begins_if_it_cannot_have_been_removed(made: float | None, is_lost: bool):
    removed = 1e9 + 1000.0 - 1.5 * DAY
    bus, worker, desk = bus_that_removed(removed)
    id_ = request_id(1 << 90) if made is None else timed(removed + made, 99)

    desk.delegate("desk", request_id=id_, flags=int(Flag.RESENT))
    bus.step()

    assert worker.work() == ([int.from_bytes(id_)] if is_lost else [])
    assert [told.code for told in desk.took(Kind.RESPONSE)] == ([] if is_lost else ["outcome_removed"])


@pytest.mark.parametrize(("made", "code"), [(DAY + 3.0, "broker_lost"), (DAY - 1.0, "outcome_removed")])
def test_who_waits_for_what_is_not_known_hears_whether_it_may_have_been_removed(made: float, code: str):
    removed = 1e9 + 1000.0 - 1.5 * DAY
    bus, _, desk = bus_that_removed(removed)

    desk.send(Kind.RESUME, body={"awaiting": [timed(removed + made, 99)]})
    bus.pass_time(1.0)

    assert [told.code for told in desk.took(Kind.RESPONSE)] == [code]


def test_an_observer_and_the_journal_hear_of_a_forged_request_only_that_it_was_one():
    bus = Bus()
    bus.delegator("desk")
    hall = bus.delegator("hall")
    passed = len(bus.tapped)

    hall.delegate("desk")
    bus.step()

    assert [seen.body["reason"] for seen in bus.tapped[passed:]] == ["forged"]
    assert len(bus.state.ended.pack()["newer"]) == 0


@pytest.mark.parametrize(("age", "runs"), [(1.0, False), (61.0, True)])
def test_volatile_work_with_an_id_of_ones_own_that_is_sent_again_runs_unless_a_broker_before_may_have_had_it(
    age: float, runs: bool
):
    bus = Bus()
    desk, worker = bus.delegator("desk"), bus.node("n", "w")
    bus.pass_time(age)
    number = desk.delegate("desk", to="w", number=1, flags=Flag.RESENT | Flag.VOLATILE)
    bus.step()

    assert (worker.work() == [number]) is runs
    if not runs:
        assert [one.code for one in desk.took(Kind.RESPONSE)] == ["broker_lost"]
