"""What ended so long ago that it is not remembered, and so shortly that the journal does not have it yet."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ether_broker.envelope.status import BY_CODE, Status
from ether_broker.errors import EtherError, JournalFull
from ether_broker.journal.journal import Journal
from ether_broker.journal.null import NullJournal
from ether_broker.wire.frame import Flag, Kind
from tests.actors.peers import Bus, Peer, request_id

REMEMBERED = 4
MORE = 3 * REMEMBERED


class Slow(NullJournal):
    """A journal that has what it was given when it is let."""

    identity = "slow"
    trouble: EtherError | None = None  # type: ignore[assignment]  # it may have some

    def __init__(self, before: Journal) -> None:
        super().__init__()
        self.next, self.committed = before.next, before.committed
        self._tickets = before.committed
        self._given: list[bytes] = []
        self._stored: list[bytes] = []

    def append(self, first: int, _time: float, _wall: float, envelopes: Sequence[bytes]) -> int:
        self.next = first + len(envelopes)
        self._tickets += 1
        self._given += envelopes
        return self._tickets

    def commit(self) -> None:
        self._stored += self._given
        self._given.clear()
        self.committed = self._tickets

    def outcome(self, request_id: bytes) -> bytes | None:
        return next((one for one in self._stored if one[0] == Kind.RESPONSE and one[16:32] == request_id), None)


def told(desk: Peer, number: int) -> list[Status]:
    """The outcomes of a delegation that its delegator was told."""
    return [BY_CODE[received.header.status] for received in desk.inbox if received.number == number]


def ended_unwritten() -> tuple[Bus, Peer, Peer, int, Slow]:
    """A delegation that has ended, and so many after it that it is forgotten; nothing of it is in the journal."""
    bus = Bus(remembered=REMEMBERED, tap_count=1)
    desk, worker = bus.delegator("desk"), bus.node("w", "w")
    journal = bus.state.journal = Slow(bus.state.journal)
    first = desk.delegate("desk")
    numbers = [first, *(desk.delegate("desk") for _ in range(MORE))]
    bus.step()
    journal.commit()
    bus.step()
    for number in numbers:
        worker.respond("w", number)
    bus.step()
    assert request_id(first) not in bus.state.ended
    assert bus.state.ended.forgotten_to >= bus.state.durable
    return bus, desk, worker, first, journal


@pytest.mark.parametrize("trouble", [None, JournalFull("The disk is full.")])
def test_a_request_that_is_sent_again_waits_until_the_journal_tells_that_it_has_ended(
    trouble: EtherError | None,
) -> None:
    bus, desk, worker, first, journal = ended_unwritten()
    worker.work()
    journal.trouble = trouble
    desk.delegate("desk", number=first, flags=Flag.RESENT)
    bus.supervisor.step(bus.take_arrivals(), bus.now, bus.wall)
    assert len(bus.state.ledger) == 0, "it is not begun again"
    assert bus.state.session_table.turns.blocked
    bus.supervisor.step([], bus.now, bus.wall)
    assert bus.state.session_table.turns.blocked

    journal.trouble = None
    journal.commit()
    bus.step()
    journal.commit()
    bus.step()

    assert worker.work() == []
    assert told(desk, first) == [Status.COMPLETED] * 2, "its outcome, and the same again"


def test_who_asks_for_it_waits_too_and_is_not_told_that_it_is_lost() -> None:
    bus, desk, _worker, first, journal = ended_unwritten()
    desk.send(Kind.RESUME, body={"awaiting": [request_id(first)]})
    bus.step()
    assert told(desk, first) == []

    journal.commit()
    bus.step()
    journal.commit()
    bus.step()

    assert set(told(desk, first)) == {Status.COMPLETED}
