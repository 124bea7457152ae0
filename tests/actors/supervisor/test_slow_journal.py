"""A journal that is slower than what comes: it waits in the queues of its sessions, where each has its turn."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ether_actors.supervisor.state import broker_state
from ether_broker.envelope.manifest.manifest import Manifest
from ether_broker.envelope.manifest.subscription import Subscription
from ether_broker.envelope.payload import pack
from ether_broker.envelope.status import Status
from ether_broker.timing import DEFAULT_TIMING
from ether_broker.wire.frame import Flag, Kind
from tests.actors.peers import Bus, Peer, request_id
from tests.actors.stored_journal import Disk, StoredJournal

MOST, OWN = 100_000, 20_000


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> Bus:
    for name in ("MOST_AHEAD", "SHARED_AHEAD"):
        monkeypatch.setattr(broker_state, name, MOST)
    monkeypatch.setattr(broker_state, "OWN_AHEAD", OWN)
    bus = Bus()
    bus.state.journal = StoredJournal(Disk(), synced=False)
    return bus


def journal(bus: Bus) -> StoredJournal:
    found = bus.state.journal
    assert isinstance(found, StoredJournal)
    return found


def test_who_sends_much_waits_and_who_sends_little_has_its_turn(bus: Bus) -> None:
    flood, desk = bus.delegator("flood"), bus.delegator("desk")
    bus.node("n", "a")
    journal(bus).sync()
    bus.step()
    for _ in range(200):
        flood.delegate("flood", to="a", params="x" * 20_000)
    for _ in range(20):
        bus.supervisor.step(bus.take_arrivals(), bus.now, bus.wall)
    at_most = bus.state.unwritten
    assert MOST < at_most < MOST + 1_200_000, "one step, which takes 256 points"
    assert bus.supervisor.next_wake() > bus.now, "nothing is looked at again before something was written"

    desk.delegate("desk", to="a")
    commits = 0
    while next(bus.state.ledger.asked_by(b"desk"), None) is None:
        journal(bus).sync()
        bus.supervisor.step(bus.take_arrivals(), bus.now, bus.wall)
        commits += 1
    assert commits <= 2
    assert bus.state.accepted < 150, "it did not wait for all that came before"


def test_one_owner_alone_may_be_further_ahead_than_one_beside_others(monkeypatch: pytest.MonkeyPatch, bus: Bus) -> None:
    monkeypatch.setattr(broker_state, "SHARED_AHEAD", MOST // 2)
    flood, desk = bus.node("flood", "d", "a"), bus.delegator("desk")
    journal(bus).sync()
    bus.step()

    def waiting_after_a_flood() -> int:
        for _ in range(20):
            flood.delegate("d", to="a", params="x" * 10_000)
        bus.step()
        found = bus.state.unwritten
        while bus.state.unwritten:
            journal(bus).sync()
            bus.step()
        return found

    flood.delegate("d", to="a")
    bus.step()
    bus.pass_time(1.0)
    alone = waiting_after_a_flood()
    desk.delegate("desk", to="nobody")
    bus.step()
    shared = waiting_after_a_flood()
    bus.pass_time(1.0)

    assert MOST // 2 < shared < MOST < min(alone, waiting_after_a_flood())


def test_while_the_index_is_far_behind_only_who_writes_much_waits(bus: Bus) -> None:
    flood, desk = bus.delegator("flood"), bus.delegator("desk")
    worker = bus.node("n", "a")
    journal(bus).sync()
    bus.step()
    journal(bus).index_lags = True
    for _ in range(50):
        flood.delegate("flood", to="a", params="x" * 20_000)
    for _ in range(50):
        bus.supervisor.step(bus.take_arrivals(), bus.now, bus.wall)
        journal(bus).sync()
    flooded = bus.state.accepted
    assert flooded < 50, "what was written counts for it still"
    before = desk.delegate("desk", to="nobody")
    for _ in range(3):
        bus.step()
        journal(bus).sync()
    bus.step()
    assert desk.outcomes()[before] is Status.REJECTED_CAPABILITY
    assert (bus.state.accepted, worker.took(Kind.DELEGATION) != []) == (flooded, True)

    journal(bus).index_lags = False
    while bus.state.accepted < 50:
        bus.supervisor.step(bus.take_arrivals(), bus.now, bus.wall)
        journal(bus).sync()
    bus.step()
    assert bus.state.unwritten == 0


def test_signs_of_life_count_while_all_else_waits(bus: Bus) -> None:
    flood = bus.delegator("flood")
    bus.node("n", "a")
    journal(bus).sync()
    bus.step()
    for _ in range(50):
        flood.delegate("flood", to="a", params="x" * 20_000)
    bus.pass_time(3 * float(DEFAULT_TIMING.silence))
    assert {session.node for session in bus.state.session_table.sessions} == {"nflood", "n"}

    while bus.state.unwritten:
        journal(bus).sync()
        bus.step()
    assert bus.state.accepted == len(bus.state.ledger) == 50


def test_what_is_not_for_the_journal_does_not_wait_for_it(bus: Bus) -> None:
    flood, desk, worker = bus.delegator("flood"), bus.delegator("desk"), bus.node("n", "a")
    journal(bus).sync()
    bus.step()
    running = desk.delegate("desk", to="a")
    journal(bus).sync()
    bus.step()
    for _ in range(50):
        flood.delegate("flood", to="a", params="x" * 20_000)
    bus.step()
    assert bus.state.is_ahead

    number = desk.delegate("desk", to="a", flags=int(Flag.VOLATILE))
    worker.respond("a", running)
    bus.step()
    open_ = {entry.request_id for entry in bus.state.ledger.running}
    assert request_id(number) in open_, "accepted"
    assert request_id(running) not in open_, "ended"
    assert bus.node("late").session.node == "late", "let in"


class Flood:
    """A node that has much written, beside a worker whose work is open for it."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.peer, self.worker = bus.delegator("flood"), bus.node("n", "a")
        journal(bus).sync()
        bus.step()
        self.number = self.peer.delegate("flood", to="a")
        self.peer.register("busy")
        asking = bus.delegator("asking")
        journal(bus).sync()
        bus.step()
        self.asked = [asking.delegate("asking", to="busy", timeout=900.0) for _ in range(100)]
        self.peer.register_manifest(Manifest(agent="hears", subscriptions=(Subscription(topic="*"),)))
        for number in range(100):
            bus.step()
            journal(bus).sync()
            event = {"topic": f"t{number}", "data": pack(None), "timeout": 900.0}
            asking.delegate("asking", "ether.publish", params=event)
        bus.step()
        journal(bus).sync()
        bus.step()
        came = self.peer.work()
        self.events = came[len(self.asked) :]
        assert (came[: len(self.asked)], len(self.events)) == (self.asked, 100)

    def delegate(self) -> None:
        self.peer.delegate("flood", to="a", params="x" * 20_000)

    def delegate_volatile(self) -> None:
        self.peer.delegate("flood", to="a", params="x" * 20_000, flags=int(Flag.VOLATILE))

    def ask_nobody(self) -> None:
        self.peer.delegate("flood", to="nobody", flags=int(Flag.VOLATILE))

    def answer_nothing(self) -> None:
        self.peer.respond("flood", 1_000_000)

    def register(self) -> None:
        self.peer.register("flood", exclusions=["x" * 100] * 5)

    def answer(self) -> None:
        """Answer what another asked for."""
        if self.asked:
            self.peer.respond("busy", self.asked.pop(), data="x" * 20_000)

    def answer_event(self) -> None:
        if self.events:
            self.peer.respond("hears", self.events.pop(), data="x" * 20_000)

    def tell_progress(self) -> None:
        self.peer.respond("busy", self.asked[0], Status.PROGRESS, summary="x" * 20_000)

    def restart(self) -> None:
        self.peer.send(Kind.UNREGISTER, source=b"flood", body={"condition": "restarting", "reason": "x" * 100})


@pytest.mark.parametrize(
    "say",
    [
        Flood.delegate, Flood.delegate_volatile, Flood.ask_nobody, Flood.answer_nothing, Flood.register, Flood.restart,
        Flood.answer, Flood.answer_event, Flood.tell_progress,
    ],
)  # fmt: skip
def test_whatever_a_node_has_written_nobody_else_waits_for_it(bus: Bus, say: Callable[[Flood], None]) -> None:
    flood, desk = Flood(bus), bus.delegator("desk")
    journal(bus).sync()
    bus.step()
    for _ in range(40):
        for _ in range(40):
            say(flood)
        bus.supervisor.step(bus.take_arrivals(), bus.now, bus.wall)
    assert MOST < bus.state.unwritten < MOST + 1_200_000, "one step, which takes 256 points"
    turns = bus.state.session_table.turns
    assert turns.waiting or bus.supervisor.next_wake() > bus.now, (
        "nothing is looked at again before something was written"
    )
    bounded = bus.state.unwritten

    numbers = [desk.delegate("desk", to="a", flags=flags) for flags in (0, int(Flag.VOLATILE))]
    flood.worker.respond("a", flood.number)
    bus.supervisor.step(bus.take_arrivals(), bus.now, bus.wall)
    assert {request_id(number) for number in numbers} <= {entry.request_id for entry in bus.state.ledger.running}
    assert request_id(flood.number) not in {entry.request_id for entry in bus.state.ledger.running}, "ended"
    assert bus.state.unwritten < bounded + 10_000

    while bus.state.unwritten or bus.state.session_table.turns.blocked:
        journal(bus).sync()
        bus.supervisor.step(bus.take_arrivals(), bus.now, bus.wall)
    assert all(session.account.unwritten == 0 for session in bus.state.session_table.sessions)


def test_what_a_node_has_caused_is_its_doing_when_it_comes_again_before_that_is_written(bus: Bus) -> None:
    desk = bus.delegator("desk")
    journal(bus).sync()
    bus.step()
    for _ in range(20):
        desk.delegate("desk", to="nobody")
    desk.send(Kind.BYE)
    bus.step()
    before = bus.state.session_table.account("ndesk").unwritten
    assert before > 0

    bus.state.session_table._most_accounts = 0  # so many have come that those of nobody are given up
    again = bus.node("ndesk")

    assert again.session.account.unwritten >= before
    journal(bus).sync()
    bus.step()
    assert again.session.account.unwritten == 0


def test_who_comes_waits_and_nobodys_dead_letters_are_told_while_as_much_waits_as_may(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_state, "MOST_UNWRITTEN", MOST + 20_000)
    monkeypatch.setattr(broker_state, "OWN_AHEAD", 1_000_000)  # nobody has to wait for what is its own doing
    desk, _worker = bus.delegator("desk"), bus.node("n", "a")
    for _ in range(10):
        desk.delegate("desk", to="a", params="x" * 20_000)
    bus.supervisor.step(bus.take_arrivals(), bus.now, bus.wall)
    assert bus.state.unwritten > MOST + 20_000
    told = bus.state.tap.next

    desk.respond("desk", 1_000_000)
    bus.node("late")
    assert bus.state.session_table.find("late") is None
    assert bus.state.tap.next == told
    assert len(bus.state.dead_letters) == 1, "kept, and not told"

    journal(bus).sync()
    bus.step()
    assert bus.state.session_table.find("late") is not None


def test_a_broker_that_ends_rules_on_all_that_has_come(bus: Bus) -> None:
    flood = bus.delegator("flood")
    bus.node("n", "a")
    journal(bus).sync()
    bus.step()
    for _ in range(200):
        flood.delegate("flood", to="a", params="x" * 20_000)
    bus.step()
    assert bus.state.accepted < 200

    bus.supervisor.finish(bus.now, bus.wall)

    assert bus.state.accepted == 200
    assert bus.state.session_table.turns.size == 0


@pytest.fixture
def held_back(bus: Bus) -> tuple[Peer, Peer, list[int], int]:
    """A delegator, and a node whose answers wait for the journal: those to large work, and behind them a small one."""
    desk, worker = bus.delegator("desk"), bus.node("n", "a")
    journal(bus).sync()
    bus.step()
    large = [desk.delegate("desk", to="a", timeout=60.0) for _ in range(30)]
    small = desk.delegate("desk", to="a", timeout=1.0)
    bus.step()
    journal(bus).sync()
    bus.step()
    assert len(worker.work()) == 31
    for number in large:
        worker.respond("a", number, data="x" * 20_000)
    worker.respond("a", small)
    bus.step()
    assert worker.session.input.is_held_back
    return desk, worker, large, small


@pytest.mark.parametrize("how", ["its connection is gone", "it is silent", "it leaves"])
def test_answers_that_have_come_count_though_their_node_is_gone_while_they_wait(
    bus: Bus, held_back: tuple[Peer, Peer, list[int], int], how: str
) -> None:
    desk, worker, large, small = held_back
    if how == "it leaves":
        worker.send(Kind.BYE)
        bus.step()
    worker.is_dead = True
    if how == "it is silent":
        bus.pass_time(float(DEFAULT_TIMING.silence) + 0.5)
    else:
        bus.state.session_table.unreachable(b"t" + worker.incarnation)
        bus.step()
    for _ in range(60):
        journal(bus).sync()
        bus.step()

    assert desk.outcomes() == dict.fromkeys((*large, small), Status.COMPLETED)


@pytest.mark.parametrize("is_long", [False, True])
def test_what_is_answered_in_time_is_not_late_for_the_journal_unless_that_takes_long(
    bus: Bus, held_back: tuple[Peer, Peer, list[int], int], *, is_long: bool
) -> None:
    desk, _worker, _large, small = held_back
    bus.pass_time(1.5 + is_long * float(DEFAULT_TIMING.silence))
    for _ in range(60):
        journal(bus).sync()
        bus.step()

    assert desk.outcomes()[small] is (Status.TIMEOUT if is_long else Status.COMPLETED)


def test_of_an_owner_one_node_goes_on_at_a_time(bus: Bus) -> None:
    bus.node("n", "a")
    desks = [bus.delegator(f"d{number}") for number in range(20)]
    for desk in desks:
        desk.session.account = desks[0].session.account  # nodes of one key
    journal(bus).sync()
    bus.step()
    for desk in desks:
        for _ in range(5):
            desk.delegate(desk.name[1:], to="a", params="x" * 20_000)
    bus.step()
    turns = bus.state.session_table.turns
    blocked = len(turns.blocked)
    assert blocked >= 15
    journal(bus).sync()
    for _ in range(3):
        bus.supervisor.step([], bus.now, bus.wall)
        assert len(turns.blocked) >= blocked - 1
        blocked = len(turns.blocked)
    for _ in range(200):
        journal(bus).sync()
        bus.step()
    assert bus.state.accepted == 100


def test_another_node_of_an_owner_goes_on_in_the_next_step_though_others_are_ahead_again(bus: Bus) -> None:
    bus.node("n", "a")
    flood, *desks = bus.delegator("flood"), bus.delegator("d1"), bus.delegator("d2")
    desks[1].session.account = desks[0].session.account
    journal(bus).sync()
    bus.step()
    for _ in range(40):
        flood.delegate("flood", to="a", params="x" * 20_000)
    bus.step()
    for desk in (*desks, *desks):
        desk.delegate(desk.name[1:], to="a", params="x" * 10_000)
        bus.step()
    turns = bus.state.session_table.turns
    waiting = [queue.session for queue in turns.blocked]
    assert set(waiting) == {flood.session, *(desk.session for desk in desks)}

    journal(bus).sync()
    bus.supervisor.step([], bus.now, bus.wall)

    assert bus.state.is_ahead
    assert len(turns.blocked) == 2, "the flood, and the other node"
    assert bus.supervisor.next_wake() == bus.now
    bus.supervisor.step([], bus.now, bus.wall)
    assert [queue.session for queue in turns.blocked] == [flood.session]
    bus.supervisor.step([], bus.now, bus.wall)
    assert bus.supervisor.next_wake() > bus.now, "the journal has something to write first"
