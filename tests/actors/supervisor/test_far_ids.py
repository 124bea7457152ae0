"""Request ids that say they were made long after what the broker's clock shows; they are nobody else's matter."""

from __future__ import annotations

import pytest

from ether_actors.supervisor.journal.history import History
from ether_actors.supervisor.state import ended as ended_module
from ether_actors.supervisor.state import ids_ahead as ids_ahead_module
from ether_actors.supervisor.state.ended import Ended
from ether_actors.supervisor.state.ids_ahead import MOST_FAR_AHEAD, IdsAhead
from ether_actors.supervisor.supervisor import Supervisor
from ether_broker.envelope.status import Status
from ether_broker.journal.journal import Replayed
from ether_broker.wire.frame import Flag, Kind, pack_envelope
from tests.actors.fold import differences
from tests.actors.peers import Bus, Peer
from tests.actors.stored_journal import Disk, StoredJournal

DAY = 86_400.0
CENTURY = 36_525 * DAY
WALL = 1e9
RESENT, VOLATILE = int(Flag.RESENT), int(Flag.VOLATILE)


def timed(wall: float, process: int, number: int = 0) -> bytes:
    """A UUIDv7 that a process made when its machine showed that Unix time."""
    return (int(wall * 1000) << 80 | 7 << 76 | 2 << 62 | number << 40 | process).to_bytes(16)


def ask(bus: Bus, peer: Peer, id_: bytes, *, capability: str = "no.such", flags: int = 0) -> str:
    """The code of the answer; empty for what begins, or succeeds."""
    peer.delegate(peer.name[1:], capability, request_id=id_, flags=flags)
    bus.step()
    return "".join(told.code for told in peer.took(Kind.RESPONSE))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """16 processes may be far ahead, and 32 are always kept apart."""
    monkeypatch.setattr(ended_module, "MOST_PROCESSES", 64)
    monkeypatch.setattr(ids_ahead_module, "MOST_FAR_AHEAD", 16)


# -- the count ---------------------------------------------------------------------------------------------------


def test_processes_that_are_far_ahead_have_a_bound_and_those_that_are_there_go_on():
    ids = IdsAhead()

    taken = [ids.takes(timed(WALL + CENTURY, process), WALL) for process in range(MOST_FAR_AHEAD + 1_000)]

    assert sum(taken) == MOST_FAR_AHEAD
    assert all(taken[:MOST_FAR_AHEAD])
    assert ids.takes(timed(WALL + CENTURY, 1, number=1), WALL), "it is ahead already"
    assert ids.takes(timed(WALL + DAY - 1.0, 99_999), WALL), "a day is not far"
    assert not ids.takes(timed(WALL + DAY + 1.0, 99_999), WALL)
    assert ids.takes((15 << 120 | 4 << 76).to_bytes(16), WALL), "a UUIDv4 says nothing of time"


def test_a_process_whose_ordinary_ids_are_known_has_no_place_among_those_that_are_far_ahead(few: None):
    ids = IdsAhead()
    ids.count([timed(WALL, process) for process in range(40)], WALL)

    assert sum(ids.takes(timed(WALL + CENTURY, process), WALL) for process in range(40)) == 16


def test_when_the_clock_has_come_near_there_is_room_again(few: None):
    ids, later = IdsAhead(), WALL + 3 * DAY
    for process in range(16):
        assert ids.takes(timed(later + process * DAY, process), WALL)
    assert ids.takes(timed(later + 9 * DAY, 0), WALL)
    assert not ids.takes(timed(later + 99 * DAY, 99), WALL)

    assert not ids.takes(timed(later + 99 * DAY, 99), later - DAY - 1.0)
    assert [ids.takes(timed(later + 99 * DAY, 99 + n), later + 1.5 * DAY) for n in range(3)] == [True, True, False]


def test_a_flood_of_far_ids_is_not_counted_again_for_each(few: None, monkeypatch: pytest.MonkeyPatch):
    ids, count, counts = IdsAhead(), IdsAhead.count, list[float]()
    monkeypatch.setattr(IdsAhead, "count", lambda self, those, now: (counts.append(now), count(self, those, now)))
    for tick in range(3_000):
        ids.takes(timed(WALL + CENTURY, tick), WALL + tick / 1000)

    assert len(counts) == 3


def test_what_is_not_far_ahead_asks_nothing():
    ids = IdsAhead()
    ids.takes(timed(WALL, 1), WALL)

    assert timed(WALL + DAY - 0.001, 2) < ids.near < timed(WALL + DAY + 0.001, 2)


# -- a stranger that sends them ----------------------------------------------------------------------------------


def test_a_flood_of_ids_from_the_future_makes_nobody_elses_perhaps_known():
    """As many as four times those that may be ahead; also after a restart, and after the journal was rid of its old part."""
    bus = Bus(remembered=1_024)
    worker, mallory, desk = bus.node("w", "w"), bus.delegator("mallory"), bus.delegator("desk")
    mine = [timed(bus.wall, 1, number) for number in range(3)]

    codes = {"no_holder": 0, "id_ahead": 0}
    for first in range(100, 100 + 5 * MOST_FAR_AHEAD, 64):
        for process in range(first, first + 64):
            flags = VOLATILE if process % 2 else 0
            mallory.delegate("mallory", "no.such", request_id=timed(bus.wall + CENTURY, process), flags=flags)
        bus.step()
        for told in mallory.took(Kind.RESPONSE):
            codes[told.code] += 1

    assert codes == {"no_holder": MOST_FAR_AHEAD, "id_ahead": 4 * MOST_FAR_AHEAD}
    ended = bus.state.ended
    for number in range(20_000):  # others work meanwhile
        ended.note(timed(bus.wall - DAY, 50_000 + number), b"w", b"others", 1)
    assert ended.has_dropped
    again = Ended.of(ended.pack(), most=1_024)
    assert not any(one.may_know(id_) for one in (ended, again) for id_ in mine)
    ids = IdsAhead()
    ids.count(again.ids(), bus.wall)
    assert not ids.takes(timed(bus.wall + CENTURY, 99_999), bus.wall), "a broker that is restarted has counted them"

    bus.state.journal.removed_until = bus.wall - 1.0
    assert [ask(bus, desk, id_, capability="x.y", flags=RESENT) for id_ in mine] == ["", "", ""]
    assert worker.work() == [int.from_bytes(id_) for id_ in mine]


@pytest.mark.parametrize("kind", ["refused", "accepted", "volatile", "question"])
def test_whatever_becomes_of_them_ids_from_the_future_have_a_bound(kind: str, few: None):
    bus = Bus(remembered=8)
    worker, mallory = bus.node("w", "w"), bus.delegator("mallory")
    capability = {"refused": "no.such", "question": "ether.agents"}.get(kind, "x.y")
    flags = VOLATILE if kind == "volatile" else 0

    codes = []
    for process in range(200):
        id_ = timed(bus.wall + CENTURY, process)
        codes.append(ask(bus, mallory, id_, capability=capability, flags=flags))
        for number in worker.work():
            worker.respond("w", number)
        bus.step()
        mallory.inbox.clear()

    assert codes == ["no_holder" if kind == "refused" else ""] * 16 + ["id_ahead"] * 184
    assert len([seen for seen in bus.tapped if seen.kind is Kind.DELEGATION]) == 16
    for process in range(200):
        bus.state.ended.note(timed(bus.wall - DAY, 1_000 + process), b"w", b"o", 1)
    assert not bus.state.ended.may_know(timed(bus.wall, 99_999))


def test_what_waits_for_its_outcome_counts_too(few: None):
    bus = Bus(remembered=8)
    bus.node("w", "w", max_concurrency=1)
    mallory = bus.delegator("mallory")

    codes = [ask(bus, mallory, timed(bus.wall + CENTURY, n), capability="x.y") for n in range(40)]

    assert codes == [""] * 16 + ["id_ahead"] * 24
    assert differences(bus.supervisor, bus.history) == []


def test_a_broker_that_is_started_anew_counts_what_is_open_what_has_ended_and_what_is_forgotten(few: None):
    history = History(remembered=2)
    ids = [timed(WALL + CENTURY, process) for process in range(16)]
    asked = [pack_envelope(Kind.DELEGATION, request_id=id_, source=b"d", target=b"a") for id_ in ids]
    told = [
        pack_envelope(Kind.RESPONSE, request_id=id_, source=b"a", target=b"d", status=Status.COMPLETED)
        for id_ in ids[4:]
    ]
    history.apply(1, 1000.0, WALL, [*asked, *told])
    assert history.ended.has_dropped
    journal = StoredJournal(Disk(commits=[Replayed(1, 1000.0, WALL, [*asked, *told])]), remembered=2)
    supervisor = Supervisor(journal=journal, remembered=2)

    supervisor.recover(1001.0, WALL + 1.0)

    ids = supervisor.state.ids_ahead
    assert not ids.takes(timed(WALL + CENTURY, 16), WALL + 1.0)
    assert all(ids.takes(timed(WALL + CENTURY, process, number=1), WALL + 1.0) for process in range(16))


# -- whose clock is wrong ----------------------------------------------------------------------------------------


def test_a_node_whose_clock_is_ahead_works_and_gets_its_outcomes_again(few: None):
    bus = Bus(remembered=8)
    worker, desk, mallory = bus.node("w", "w"), bus.delegator("desk"), bus.delegator("mallory")
    first = timed(bus.wall + 400 * DAY, 1)
    assert ask(bus, desk, first, capability="x.y") == ""
    worker.respond("w", worker.took(Kind.DELEGATION)[0].number)
    bus.step()
    assert list(desk.outcomes().values()) == [Status.COMPLETED]
    for process in range(100, 200):
        ask(bus, mallory, timed(bus.wall + CENTURY, process))

    assert ask(bus, desk, timed(bus.wall + 400 * DAY, 1, number=1), capability="x.y") == "", (
        "its process is there already"
    )
    (going,) = worker.work()
    worker.respond("w", going)
    bus.step()
    assert desk.outcomes() == {going: Status.COMPLETED}


def test_the_refusal_says_which_clocks_differ_and_what_to_do_and_is_counted_and_not_remembered(few: None):
    bus = Bus(remembered=8)
    worker, desk, mallory = bus.node("w", "w"), bus.delegator("desk"), bus.delegator("mallory")
    for process in range(100, 120):
        ask(bus, mallory, timed(bus.wall + CENTURY, process))
    passed, late = len(bus.tapped), timed(bus.wall + 2.5 * DAY, 1)
    desk.delegate("desk", request_id=late)
    bus.step()

    refusal = desk.outcome()
    assert (refusal.status, refusal.code) == (Status.REJECTED_CONTEXT, "id_ahead")
    assert refusal.body["error"]["message"] == (
        "Its request id says that it was made 2.5 days after what the broker's clock shows, 2001-09-09 02:03:20 UTC: one of "
        f"the two clocks is wrong, and {MOST_FAR_AHEAD:,} processes are more than 24 hours ahead already. Set it right; "
        "then restart the delegator's process if it was its clock, as its ids only rise."
    )
    assert bus.tapped[passed:] == []
    assert late not in bus.state.ended
    assert bus.state.session_table.refusals.by_reason["id_ahead"] == 5

    bus.ahead = 2.0 * DAY  # it was the broker's clock
    assert ask(bus, desk, late, capability="x.y", flags=RESENT) == ""
    assert worker.work() == [int.from_bytes(late)]
    assert differences(bus.supervisor, bus.history) == []


def test_an_id_of_the_highest_time_there_is_is_refused_in_words(few: None):
    bus = Bus(remembered=8)
    mallory = bus.delegator("mallory")
    codes = [ask(bus, mallory, timed((2**48 - 1) / 1000, process)) for process in range(17)]

    assert codes == ["no_holder"] * 16 + ["id_ahead"]
