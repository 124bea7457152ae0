"""What delegators that are back ask for: each outcome once, and nobody else waits for it."""

from __future__ import annotations

from ether_actors.supervisor.capabilities.pages import LIMIT
from ether_actors.supervisor.membership.outcome_replay import LOOK_UPS_PER_STEP
from ether_actors.supervisor.state.numbered import SPARE
from ether_broker.envelope.manifest.manifest import Manifest
from ether_broker.envelope.payload import unpack
from ether_broker.envelope.status import Status
from ether_broker.errors import JournalUnavailable
from ether_broker.journal.journal import Journal
from ether_broker.journal.null import NullJournal
from ether_broker.wire.frame import Kind, pack_envelope
from tests.actors.peers import Bus, Peer, request_id, uncollected
from tests.actors.work_counter import WorkCounter

ENDED = 1000


class Kept(NullJournal):
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
    bus.state.journal = kept = Kept(bus.state.journal)
    for number in range(ended):
        bus.state.ended.keep(request_id(10_000 + number), b"d")
    return bus, peer, kept


def test_looking_up_what_has_ended_holds_up_nobody() -> None:
    bus, peer, kept = bus_with(ENDED)
    peer.send(Kind.RESUME, body={"awaiting": [request_id(10_000 + number) for number in range(ENDED)]})

    bus.step()
    assert kept.questions == LOOK_UPS_PER_STEP
    assert bus.supervisor.next_wake() == bus.now

    while bus.supervisor.next_wake() == bus.now:
        before = kept.questions
        bus.step()
        assert kept.questions - before <= LOOK_UPS_PER_STEP
    assert sorted(received.number for received in peer.inbox) == [10_000 + number for number in range(ENDED)]
    assert len(uncollected(bus.state.ended, b"d")) == 0


def test_looks_into_the_journal_are_paid_and_have_a_rate() -> None:
    bus, peer, kept = bus_with(0)
    kept.identity = "a journal"
    for first in (10_000, 11_000):
        peer.send(Kind.RESUME, body={"awaiting": [request_id(first + number) for number in range(1_000)]})
    bus.step()
    before = peer.session.input.tag

    bus.pass_time(0.1)

    burst, rate = 512, 8_192
    assert burst <= kept.questions <= burst + 0.1 * rate + LOOK_UPS_PER_STEP
    assert peer.session.input.tag - before >= kept.questions - LOOK_UPS_PER_STEP


def test_what_cannot_be_read_now_is_given_out_when_it_can_be_and_nobody_spins_meanwhile() -> None:
    bus, peer, kept = bus_with(LOOK_UPS_PER_STEP + 3)
    kept.fails = True
    peer.send(Kind.RESUME, body={"awaiting": [request_id(10_000 + number) for number in range(LOOK_UPS_PER_STEP + 3)]})
    bus.pass_time(3.0)
    assert peer.took(Kind.RESPONSE) == []
    assert 1 <= kept.questions <= 7

    kept.fails = False
    bus.pass_time(2.0)

    assert sorted(peer.outcomes()) == [10_000 + number for number in range(LOOK_UPS_PER_STEP + 3)]


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

    again.send(Kind.RESUME, body={"awaiting": [request_id(10_000 + other) for other in range(ENDED)]})
    again.send(Kind.RESUME, body={"awaiting": [request_id(number)]})
    bus.step()
    specialist.respond("s", number)
    bus.step()

    assert number in [received.number for received in again.inbox]


def test_what_was_asked_for_by_a_session_that_is_lost_stays_for_the_next() -> None:
    bus, peer, _ = bus_with(ENDED)
    peer.send(Kind.RESUME, body={"awaiting": [request_id(10_000 + number) for number in range(ENDED)]})
    bus.step()
    assert bus.supervisor.next_wake() == bus.now
    taken = ENDED - len(uncollected(bus.state.ended, b"d"))

    peer.is_dead = True
    for session in bus.state.session_table.sessions:
        session.lost = "gone"
    while bus.supervisor.next_wake() == bus.now:
        bus.step()

    assert ENDED - len(uncollected(bus.state.ended, b"d")) == taken


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


def owed(peer: Peer, **params: object) -> tuple[list[tuple[bytes, bool]], bytes | None]:
    """A page of what a delegator is owed, ((request id, whether it has ended)), and what comes after it."""
    peer.delegate("d", "ether.outcomes", params=params)
    peer.bus.step()
    page = unpack(peer.took(Kind.RESPONSE)[-1].body["data"])
    return [(item["request_id"], item["ended"]) for item in page["items"]], page["next"]


def with_open(count: int) -> tuple[Bus, Peer, Peer]:
    """A delegator that is back, and has so many open delegations, which a specialist holds."""
    bus = Bus()
    d, s = bus.delegator("d"), bus.node("n", "s")
    for number in range(10_000, 10_000 + count):
        d.delegate("d", to="s", number=number, timeout=1e6)
    bus.step()
    s.took(Kind.DELEGATION)
    d.die()
    bus.pass_time(4.0)
    again = Peer(bus, "nagain")
    bus.peers.append(again)
    again.hello()
    again.register_manifest(Manifest(agent="d"))
    bus.step()
    again.inbox.clear()
    return bus, again, s


def test_what_ends_while_the_pages_are_asked_for_is_in_one_of_them_all_the_same() -> None:
    bus, d, s = with_open(12)
    seen, after = owed(d, limit=5)
    for number in (10_001, 10_005, 10_008, 10_011):  # one of the page before, and three of those that come
        s.respond("s", number)
    bus.step()
    while after is not None:
        items, after = owed(d, limit=5, after=after)
        seen += items

    assert {request_id for request_id, _ in seen} == {request_id(10_000 + number) for number in range(12)}
    assert [key for key, ended in seen if ended] == [request_id(number) for number in (10_001, 10_005, 10_008, 10_011)]
    assert len(seen) == 13


def test_a_place_in_the_list_that_is_anothers_or_made_up_begins_or_ends_it() -> None:
    bus, d, s = with_open(7)
    for number in range(10_000, 10_003):
        s.respond("s", number)
    bus.step()
    whole = owed(d)
    first, after = owed(d, limit=1)
    assert after is not None
    life = after[:8]
    bus.node("nother")

    assert (len(whole[0]), whole[1], first) == (7, None, whole[0][:1])
    for forged in (b"", b"x", bytes(16), b"\xff" * 8, b"\xff" * 16, bytes(8) + after[8:], bytes(60_000)):
        assert owed(d, after=forged) == whole, "of no session of its own: from the beginning"
    for forged in (life + b"\xff" * 8, life + b"\xff" * 60_000):
        assert owed(d, after=forged) == ([], None)
    assert owed(d, after=life) == whole
    d.delegate("d", "ether.outcomes", params={"after": 7})
    bus.step()
    assert d.outcome().code == "invalid_envelope"


def test_the_order_of_what_is_owed_takes_no_more_room_than_what_is_owed() -> None:
    bus, d, s = with_open(1)
    state = bus.state
    for number in range(1_000):
        d.delegate("d", to="s", number=20_000 + number, timeout=1e6)
        bus.step()
        s.respond("s", 20_000 + number)
    state.ended.keep(request_id(1), b"d", b"")
    for _ in range(1_000):
        state.ended.keep(request_id(2), b"d", b"")
    bus.step()

    assert len(list(state.ledger.asked_by(b"d"))) <= 1 + SPARE
    assert len(list(state.ended.uncollected_of(b"d"))) <= 2 + SPARE


def test_what_was_on_its_way_and_has_arrived_is_given_again_to_who_asks_for_it() -> None:
    bus, peer, _ = bus_with(ENDED)
    specialist = bus.node("n", "s")
    number = peer.delegate("d", timeout=900.0)
    bus.step()
    specialist.respond("s", number)
    bus.supervisor.step(bus.take_arrivals(), bus.now, bus.wall)
    peer.send(Kind.RESUME, body={"awaiting": [request_id(10_000 + other) for other in range(ENDED)]})
    bus.step()
    peer.session.channel.acknowledge(peer.session.channel.last)
    peer.inbox.clear()

    peer.send(Kind.RESUME, body={"awaiting": [request_id(number)]})
    bus.pass_time(5.0)

    assert [received.number for received in peer.inbox].count(number) == 1


def resuming(under_way: int, awaiting: list[bytes]) -> tuple[int, int, int]:
    """The work of a RESUME and of the steps behind it, the longest step, and what it was charged.

    The node had an answer to so many RESUMEs before, and acknowledges nothing.
    """
    bus = Bus()
    peer = bus.delegator("d")
    for first in range(0, under_way, 1_000):
        peer.send(Kind.RESUME, body={"awaiting": [request_id(first + at) for at in range(1_000)]})
    bus.pass_time(1.0)
    while bus.supervisor.next_wake() <= bus.now:
        bus.step()
    before, steps = peer.session.input.tag, list[int]()
    peer.send(Kind.RESUME, body={"awaiting": awaiting})
    while not steps or bus.supervisor.next_wake() <= bus.now:
        with WorkCounter() as counter:
            bus.step()
        steps.append(counter.work)
    return sum(steps), max(steps), peer.session.input.tag - before


def test_a_resume_costs_what_it_asks_for_whatever_is_on_its_way_and_each_answer_is_charged() -> None:
    one = [request_id(10_000_000)]
    (few, _, _), (many, _, _) = resuming(1_000, one), resuming(8_000, one)
    assert many < 2 * few

    some, copies = [request_id(10_000_000 + at) for at in range(1_000)], one * 1_000
    (_, longest, charged), (_, longer, more) = resuming(0, some[:125]), resuming(0, some)
    assert longer < 3 * longest
    assert more > 6 * charged > 6 * 125 * 12
    assert 20 * resuming(0, copies)[2] < more
