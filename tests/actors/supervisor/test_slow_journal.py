"""A journal that is slower than what comes: it waits in the queues of its sessions, where each has its turn."""

from __future__ import annotations

import pytest

from ether_actors.supervisor.delegations import fast_path
from ether_actors.supervisor.state import broker_state
from ether_broker.timing import DEFAULT_TIMING
from ether_broker.wire.frame import Flag
from tests.actors.peers import Bus, request_id
from tests.actors.stored_journal import Disk, StoredJournal

MOST = 100_000


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> Bus:
    for module in (broker_state, fast_path):
        monkeypatch.setattr(module, "MOST_AHEAD", MOST)
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
    assert bus.is_ahead

    number = desk.delegate("desk", to="a", flags=int(Flag.VOLATILE))
    worker.respond("a", running)
    bus.step()
    open_ = {entry.request_id for entry in bus.state.ledger.running}
    assert request_id(number) in open_, "accepted"
    assert request_id(running) not in open_, "ended"
    assert bus.node("late").session.node == "late", "let in"


@pytest.mark.parametrize("flags", [0, int(Flag.VOLATILE)])
def test_each_kind_of_work_waits_for_its_own_bytes_only(bus: Bus, flags: int) -> None:
    flood, desk, worker = bus.delegator("flood"), bus.delegator("desk"), bus.node("n", "a")
    journal(bus).sync()
    bus.step()
    for _ in range(200):
        flood.delegate("flood", to="a", params="x" * 20_000, flags=flags)
    bus.step()
    assert bus.is_ahead
    assert MOST < bus.state.unwritten < MOST + 1_200_000
    assert bus.supervisor.next_wake() > bus.now

    number = desk.delegate("desk", to="a", flags=int(Flag.VOLATILE) - flags)
    bus.step()
    assert request_id(number) in {entry.request_id for entry in bus.state.ledger.running}

    for _ in range(100):
        for given in worker.work():
            worker.respond("a", given)
        journal(bus).sync()
        bus.step()
    assert bus.state.accepted == 201
    assert not bus.state.unwritten
    assert not bus.state.unwritten_volatile


def test_what_is_refused_holds_up_nobody_and_what_is_only_told_of_it_is_bounded(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_state, "MOST_UNWRITTEN", 400_000)
    flood, desk = bus.delegator("flood"), bus.delegator("desk")
    bus.node("n", "a")
    journal(bus).sync()
    bus.step()
    for _ in range(40):
        for _ in range(50):
            flood.respond("flood", 1_000_000)
        bus.step()
    assert MOST < bus.state.unwritten < 2.5 * MOST
    assert bus.state.unwritten_refused > MOST
    assert not bus.is_ahead

    number = desk.delegate("desk", to="a")
    bus.step()
    assert request_id(number) in {entry.request_id for entry in bus.state.ledger.running}


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
