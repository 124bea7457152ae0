"""While the journal cannot be written: who is there hears the broker, what is new is refused at once, and nothing piles up."""

from __future__ import annotations

import pytest

from ether_broker.status import Status
from ether_broker.wire import Flag, Kind, join_frame, pack_envelope
from tests.actors.peers import Bus, Peer
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


def test_what_is_known_already_is_not_refused_when_it_is_sent_again(troubled: Troubled):
    bus, delegator = troubled.bus, troubled.delegator
    delegator.send(
        Kind.DELEGATION, request_id=troubled.open.to_bytes(16), source=b"d", target=b"a", capability=b"x.y",
        flags=Flag.RESENT, body={},
    )  # fmt: skip
    bus.step()

    assert delegator.outcomes() == {}
