"""While the journal cannot be written: who is there hears the broker, what is new is refused at once, and nothing piles up."""

from __future__ import annotations

import pytest

from ether_broker.errors import JournalUnavailable
from ether_broker.status import Status
from ether_broker.tap import Batch, read_batch
from ether_broker.wire import Flag, Kind, join_frame, pack_envelope
from tests.actors.peers import Bus, Peer, request_id
from tests.actors.stored_journal import Disk, StoredJournal


class Troubled:
    """A bus with nodes whose journal fails."""

    def __init__(self) -> None:
        self.bus = Bus()
        self.journal = StoredJournal(Disk())
        self.bus.records.journal = self.journal
        self.delegator, self.specialist = self.bus.delegator("d"), self.bus.node("na", "a")
        self.delegator.delegate("d", to="a", timeout=None)
        self.bus.step()
        (self.open,) = self.specialist.work()
        self.journal.fail()

    @property
    def peers(self) -> tuple[Peer, ...]:
        return self.delegator, self.specialist


@pytest.fixture
def troubled() -> Troubled:
    return Troubled()


def test_the_broker_shows_life_each_second_and_says_what_it_has_though_it_acknowledges_nothing(troubled: Troubled):
    bus, peer = troubled.bus, troubled.specialist
    answer = pack_envelope(Kind.RESPONSE, request_id=troubled.open.to_bytes(16), source=b"a", status=Status.COMPLETED)
    channel = peer.session.channel
    peer.raw(join_frame([answer], channel.session, 1))

    bus.pass_time(10.0)

    for each in troubled.peers:
        beats = each.took(Kind.HEARTBEAT)
        assert len(beats) >= 9
        assert not each.session.lost
    assert beats[-1].body["received"] == 1
    assert (channel.received, channel.settled) == (1, 0)


@pytest.mark.parametrize("capability", ["x.y", "ether.agents", "ether.statistics", "ether.lease", "ether.journal-gc"])
def test_work_and_questions_are_refused_at_once_with_the_cause(troubled: Troubled, capability: str):
    bus, delegator = troubled.bus, troubled.delegator

    asked = delegator.delegate("d", capability=capability)
    bus.step()

    outcome = delegator.outcome()
    assert (outcome.number, outcome.status, outcome.code) == (asked, Status.REJECTED_OVERLOAD, "journal_unavailable")
    assert "The disk is full." in outcome.body["error"]["message"]
    assert outcome.body["retry_after"] > 0


def test_twenty_minutes_of_heartbeats_and_questions_leave_nothing_behind(troubled: Troubled):
    bus, delegator = troubled.bus, troubled.delegator
    bus.pass_time(70.0)  # what is open has passed its deadline
    before = len(bus.records.router._sealed), troubled.journal.pending, bus.records.router.sessions[0].outbox_bytes

    for _ in range(300):
        delegator.delegate("d", capability="ether.agents")
        bus.pass_time(4.0)

    after = len(bus.records.router._sealed), troubled.journal.pending, bus.records.router.sessions[0].outbox_bytes
    assert after == before


def test_what_was_accepted_before_ends_once_when_the_journal_is_well_again(troubled: Troubled):
    bus, delegator, specialist = troubled.bus, troubled.delegator, troubled.specialist
    specialist.respond("a", troubled.open)
    bus.pass_time(5.0)
    assert delegator.outcomes() == {}

    troubled.journal.mend()
    bus.pass_time(1.1)

    assert delegator.outcomes() == {troubled.open: Status.COMPLETED}


def test_a_node_joins_registers_and_observes_without_waiting_for_the_disk(troubled: Troubled):
    bus = troubled.bus
    newcomer = Peer(bus, "nb")
    bus.peers.append(newcomer)

    newcomer.hello()
    newcomer.register("b")
    newcomer.send(Kind.OBSERVE, request_id=request_id(77), body={"from": 1})
    bus.step()

    assert [received.kind for received in newcomer.inbox][:3] == [Kind.WELCOME, Kind.REGISTERED, Kind.OBSERVE]


def test_what_is_known_already_is_not_refused_when_it_is_sent_again(troubled: Troubled):
    bus, delegator = troubled.bus, troubled.delegator
    delegator.send(
        Kind.DELEGATION, request_id=troubled.open.to_bytes(16), source=b"d", target=b"a", capability=b"x.y",
        flags=Flag.RESENT, body={},
    )  # fmt: skip
    bus.step()

    assert delegator.outcomes() == {}


def test_an_observer_whose_next_messages_cannot_be_read_now_gets_them_later():
    # Given a ring of four messages, and an observer that wants all
    bus = Bus(tap_count=4)
    bus.records.journal = journal = Unreadable(Disk())
    watcher, delegator, specialist = bus.node("w"), bus.delegator("d"), bus.node("na", "a")
    for _ in range(10):
        specialist.respond("a", delegator.delegate("d", to="a"))
        bus.step()

    # When the journal cannot be read for a while
    watcher.send(Kind.OBSERVE, request_id=request_id(5), body={"from": 1})
    bus.pass_time(3.0)
    assert watcher.took(Kind.TAP) == []
    delegator.delegate("d", to="a")
    bus.step()
    assert len(specialist.work()) == 11

    # Then nothing is missed
    journal.fails = False
    position = 1
    for _ in range(20):
        bus.pass_time(0.3)
        for received in watcher.took(Kind.TAP):
            batch = read_batch(received.envelope[received.header.body :])
            assert batch.first == position
            position = batch.next
    assert position == bus.records.tap.next


class Unreadable(StoredJournal):
    """A journal whose file cannot be read at first."""

    fails = True

    def read(self, number: int) -> Batch | None:
        if self.fails:
            raise JournalUnavailable("The disk fails.")
        return super().read(number)
