"""What delegators that are back ask for: each outcome once, and nobody else waits for it."""

from __future__ import annotations

from ether_actors.collecting import SHARE
from ether_actors.pages import LIMIT
from ether_broker.errors import JournalUnavailable
from ether_broker.journal.journal import Journal
from ether_broker.journal.memory import MemoryJournal
from ether_broker.payload import unpack
from ether_broker.status import Status
from ether_broker.wire import Kind, pack_envelope
from tests.actors.peers import Bus, Peer, request_id

ENDED = 1000


class Kept(MemoryJournal):
    """A journal that has an outcome for every question, and counts them."""

    def __init__(self, before: Journal) -> None:
        super().__init__()
        self.next, self.committed = before.next, before.committed
        self.questions = 0
        self.fails = False

    def outcome(self, request_id: bytes) -> bytes:
        self.questions += 1
        if self.fails:
            raise JournalUnavailable("The disk fails.")
        return pack_envelope(
            Kind.RESPONSE, request_id=request_id, status=Status.COMPLETED, source=b"s", target=b"d", body=b"\x80"
        )  # fmt: skip


def bus_with(ended: int) -> tuple[Bus, Peer, Kept]:
    """A bus whose journal has the outcomes of an earlier life of the agent `d`."""
    bus = Bus()
    peer = bus.delegator("d")
    bus.records.journal = kept = Kept(bus.records.journal)
    for number in range(ended):
        bus.records.ended.keep(request_id(10_000 + number), b"d")
    return bus, peer, kept


def test_looking_up_what_has_ended_holds_up_nobody() -> None:
    bus, peer, kept = bus_with(ENDED)
    peer.send(Kind.RESUME, body={"awaiting": [request_id(10_000 + number) for number in range(ENDED)]})

    bus.step()
    assert kept.questions == SHARE
    assert bus.supervisor.next_wake() == bus.now

    while bus.supervisor.next_wake() == bus.now:
        before = kept.questions
        bus.step()
        assert kept.questions - before <= SHARE
    assert sorted(received.number for received in peer.inbox) == [10_000 + number for number in range(ENDED)]
    assert len(bus.records.ended.uncollected_of(b"d")) == 0


def test_what_cannot_be_read_now_is_given_out_when_it_can_be_and_nobody_spins_meanwhile() -> None:
    bus, peer, kept = bus_with(SHARE + 3)
    kept.fails = True
    peer.send(Kind.RESUME, body={"awaiting": [request_id(10_000 + number) for number in range(SHARE + 3)]})
    bus.pass_time(3.0)
    assert peer.took(Kind.RESPONSE) == []
    assert 1 <= kept.questions <= 7

    kept.fails = False
    bus.pass_time(2.0)

    assert sorted(peer.outcomes()) == [10_000 + number for number in range(SHARE + 3)]


def test_what_is_still_open_goes_to_the_delegator_that_is_back_at_once() -> None:
    bus, peer, _ = bus_with(ENDED)
    specialist = bus.node("n", "s")
    number = peer.delegate("d")
    bus.step()
    peer.is_dead = True
    bus.pass_time(4.0)
    again = bus.delegator("d")
    specialist.send(Kind.HEARTBEAT, body={"agents": {}})
    bus.step()

    awaited = [request_id(10_000 + other) for other in range(ENDED)] + [request_id(number)]
    again.send(Kind.RESUME, body={"awaiting": awaited})
    specialist.respond("s", number)
    bus.step()

    assert number in [received.number for received in again.inbox]


def test_what_was_asked_for_by_a_session_that_is_lost_stays_for_the_next() -> None:
    bus, peer, _ = bus_with(ENDED)
    peer.send(Kind.RESUME, body={"awaiting": [request_id(10_000 + number) for number in range(ENDED)]})
    bus.step()
    assert bus.supervisor.next_wake() == bus.now
    taken = ENDED - len(bus.records.ended.uncollected_of(b"d"))

    peer.is_dead = True
    for session in bus.records.router.sessions:
        session.lost = "gone"
    while bus.supervisor.next_wake() == bus.now:
        bus.step()

    assert ENDED - len(bus.records.ended.uncollected_of(b"d")) == taken


def test_the_list_of_what_can_be_collected_comes_in_pages_however_much_it_is() -> None:
    bus, peer, _ = bus_with(1_000)
    listed: list[bytes] = []
    after = None
    while after is not None or not listed:
        number = peer.delegate("d", "ether.outcomes", params={"after": after})
        bus.step()
        (answer,) = [received for received in peer.inbox if received.number == number]
        page = unpack(answer.body["data"])
        listed += [item["request_id"] for item in page["items"]]
        assert 0 < len(page["items"]) <= LIMIT
        after = page["next"]

    assert listed == [request_id(10_000 + number) for number in range(1_000)]
