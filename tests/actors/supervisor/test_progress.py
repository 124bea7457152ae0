"""Progress: bounded whatever a specialist says, the newest is never lost, order holds, and what was folded is told."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ether_actors.supervisor.delegations.progress import PASSED_ON_PER_STEP, UNCOMMITTED, UNHEARD, WAITING
from ether_actors.supervisor.state.ledger import State
from ether_actors.supervisor.state.progress_limiter import BURST, RATE
from ether_broker.envelope.payload import pack
from ether_broker.envelope.status import Status
from ether_broker.transport.sessions.backlog import GRAIN
from ether_broker.transport.sessions.cost import WAITED
from ether_broker.wire.codec import read_response
from ether_broker.wire.frame import Kind
from tests.actors.peers import Bus, Peer, request_id
from tests.actors.work_counter import WorkCounter


def working(*, count: int = 1) -> tuple[Bus, Peer, Peer]:
    """A bus on which a works on d's delegations, the first of which is number 1, and has said so."""
    bus = Bus()
    d, a = bus.delegator("d"), bus.node("na", "a")
    for number in range(1, count + 1):
        d.delegate("d", to="a", number=number, timeout=1e6)
    bus.step()
    for number in a.work():
        a.respond("a", number, Status.ACCEPTED)
    bus.step()
    d.inbox.clear()
    return bus, d, a


def say(peer: Peer, place: int, *, number: int = 1, size: int = 0, status: Status = Status.PROGRESS) -> None:
    body = pack({"summary": f"{place}:" + "s" * size})
    peer.send(Kind.RESPONSE, request_id=request_id(number), source=b"a", target=b"d", status=status, body=body)


def heard(peer: Peer) -> list[tuple[int, int]]:
    """Take what a delegator heard: (place, how many were folded into it)."""
    found = []
    for received in peer.took(Kind.RESPONSE):
        response = read_response(received.header, received.envelope)
        found.append((int(response.summary.partition(":")[0]), response.metadata.get("folded", 0)))
    return found


def test_what_is_within_the_rate_is_passed_on_as_it_is():
    bus, d, a = working()
    for place in range(1_000):
        say(a, place)
    bus.step()

    assert heard(d) == [(place, 0) for place in range(1_000)]


def test_what_is_over_is_folded_into_the_newest_which_comes_in_its_time_and_says_how_many():
    bus, d, a = working()
    for place in range(5_000):
        say(a, place)
    bus.step()
    first = heard(d)
    assert first == [(place, 0) for place in range(BURST - 1)]  # ACCEPTED was one
    assert bus.state.session_table.refusals.by_reason["progress_folded"] == 5_000 - BURST

    bus.pass_time(1.0)
    assert heard(d) == [(4_999, 5_000 - BURST)]
    for place in range(5_000, 6_000):
        say(a, place)
    bus.step()
    assert len(heard(d)) == pytest.approx(RATE, abs=3)


def test_the_outcome_does_not_overtake_the_newest_progress():
    bus, d, a = working()
    for place in range(3_000):
        say(a, place)
    say(a, 3_000, status=Status.COMPLETED)
    bus.step()

    *_, newest, outcome = heard(d)
    assert newest == (2_999, 3_000 - BURST)
    assert outcome == (3_000, 0)
    assert a.session.progress_waiting == 0


def test_bytes_count_too_and_the_journal_gets_no_more_than_the_delegator():
    bus, d, a = working()
    for _ in range(10):
        for place in range(100):
            say(a, place, size=900_000)
        bus.pass_time(1.0)
    kept = [seen for seen in bus.tapped if seen.kind is Kind.RESPONSE and seen.status is Status.PROGRESS]

    assert len(kept) == len(heard(d)) < 20


def test_accepted_says_nothing_more_than_the_progress_that_waits():
    bus, d, a = working()
    for place in range(2_000):
        say(a, place)
    say(a, 0, status=Status.ACCEPTED)
    bus.step()
    bus.pass_time(1.0)

    assert heard(d)[-1] == (1_999, 2_000 - BURST)


def test_what_waits_of_one_node_is_bounded_and_what_has_no_room_is_told_as_folded(monkeypatch: pytest.MonkeyPatch):
    bus, d, a = working(count=20)
    for number in range(1, 21):
        for place in range(8):
            say(a, place, number=number, size=900_000)
        bus.step()
        assert a.session.progress_waiting <= WAITING
    told = heard(d)
    for number in range(1, 21):
        say(a, 99, number=number)
        for _ in range(4):
            d.acknowledge()
            bus.pass_time(1.0)
    told += heard(d)

    assert sum(1 + folded for _, folded in told) == 20 * 9
    assert len(told) < 120
    assert a.session.progress_waiting == 0
    assert not bus.supervisor._progress.timed


def test_what_need_not_be_in_the_journal_yet_is_bounded_for_each_node():
    bus, _, a = working(count=50)
    bus.supervisor.state.journal.append = lambda *_: 1 << 40  # type: ignore[method-assign]  # never committed
    bus.supervisor._appended.clear()
    for number in range(1, 51):
        for place in range(4):
            say(a, place, number=number, size=900_000)
        bus.step()
    bus.pass_time(2.0)

    assert UNCOMMITTED <= a.session.account.progress < UNCOMMITTED + (1 << 20)


def test_the_first_word_of_each_run_is_within_the_bounds_too_and_its_state_is_told_all_the_same():
    bus = Bus()
    d, a = bus.delegator("d"), bus.node("na", "a")
    for number in range(1, 51):
        d.delegate("d", to="a", number=number, timeout=1e6)
    bus.step()
    a.work()
    bus.supervisor.state.journal.append = lambda *_: 1 << 40  # type: ignore[method-assign]  # never committed
    bus.supervisor._appended.clear()
    for number in range(1, 51):
        say(a, 7, number=number, size=900_000)
    bus.step()
    bus.pass_time(2.0)

    assert UNCOMMITTED <= a.session.account.progress < UNCOMMITTED + (1 << 20)
    seen = [received for received in bus.tapped if received.kind is Kind.RESPONSE]
    assert len({received.number for received in seen}) == 50
    assert {bus.entry(number).state for number in range(1, 51)} == {State.RUNNING}


def deaf(agents: int, each: int, *, size: int = 900_000) -> tuple[Bus, Peer, Peer, list[int]]:
    """A bus on which a node's agents work on delegations of d, to which as much is under way as may be."""
    bus = Bus()
    d, a = bus.delegator("d"), bus.node("na", *(f"a{agent}" for agent in range(agents)))
    for agent in range(agents):
        for _ in range(each):
            d.delegate("d", to=f"a{agent}", timeout=1e6)
    bus.step()
    given = a.took(Kind.DELEGATION)
    for received in given:
        a.respond(received.header.target.decode(), received.number, Status.ACCEPTED)
    bus.step()
    d.acknowledge()
    for _ in range(1 + UNHEARD // size):
        number = d.delegate("d", to="a0", timeout=1e6)
        bus.step()
        a.respond("a0", number, summary="x" * size)
    bus.step()
    d.inbox.clear()
    a.inbox.clear()
    return bus, d, a, [received.number for received in given]


def tell(bus: Bus, peer: Peer, numbers: list[int]) -> None:
    """Say PROGRESS of each."""
    for number in numbers:
        entry = bus.entry(number)
        assert entry is not None
        peer.respond(entry.agent.manifest.agent, number, Status.PROGRESS)
    bus.step()


def test_who_does_not_read_is_told_no_more_and_hears_the_newest_as_soon_as_it_reads_again():
    bus, d, a, (number,) = deaf(1, 1)
    for place in range(100):
        a.respond("a0", number, Status.PROGRESS, summary=f"{place}:")
    bus.pass_time(1.0)
    assert heard(d) == []
    d.acknowledge()
    bus.step()

    assert heard(d) == [(99, 99)]


def test_a_line_that_ends_while_room_for_it_is_counted_has_no_further_turn():
    # Given one that waits for a delegator that has room again, while that is not counted yet
    bus, d, a, (number,) = deaf(1, 1)
    a.respond("a0", number, Status.PROGRESS, summary="0:" + "s" * (2 * GRAIN))
    bus.step()
    assert d.session in bus.state.session_table.backlog.awaited
    d.session.channel.acknowledge(d.session.channel.last)
    d.session.counted = 0

    # When its delegator asks for what it is owed, and it is sent, which counts: it does not wait for the journal
    entry = bus.entry(number)
    assert entry is not None
    entry.is_volatile = True
    bus.supervisor._replay.go_on(d.session, entry)
    bus.step()
    bus.step()

    assert d.session not in bus.state.session_table.backlog.awaited
    assert heard(d) == [(0, 0)]


def test_nothing_is_looked_at_again_while_nothing_changes():
    spent = []
    for each in (10, 80):
        bus, d, a, numbers = deaf(4, each)
        tell(bus, a, numbers)
        before, step = a.session.input.tag, bus.supervisor.step
        step([], bus.now, bus.wall)
        with WorkCounter() as counter:
            step([], bus.now + 0.5, bus.wall)
        spent.append(counter.work)

        assert bus.supervisor.next_wake() > bus.now
        assert a.session.input.tag == before
        assert d.took(Kind.RESPONSE) == []
    assert spent[1] <= 1.1 * spent[0]


def test_what_waited_for_room_is_passed_on_a_share_a_step_and_who_said_it_pays():
    bus, d, a, numbers = deaf(3, 120)
    tell(bus, a, numbers)
    before = a.session.input.tag
    d.acknowledge()
    for expected in (PASSED_ON_PER_STEP, PASSED_ON_PER_STEP, 360 - 2 * PASSED_ON_PER_STEP):
        bus.step()
        assert len(d.took(Kind.RESPONSE)) == expected
        assert (bus.supervisor.next_wake() <= bus.now) == (expected == PASSED_ON_PER_STEP)
    assert a.session.input.tag - before == 360 * WAITED


def test_what_has_waited_for_its_time_is_passed_on_a_share_a_step(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ether_actors.supervisor.state.progress_limiter.BURST", 1)
    monkeypatch.setattr("ether_actors.supervisor.delegations.progress.BURST", 1)
    bus = Bus()
    d, a = bus.delegator("d"), bus.node("na", *(f"a{agent}" for agent in range(3)))
    for number in range(1, 301):
        d.delegate("d", to=f"a{number % 3}", number=number, timeout=1e6)
    bus.step()
    a.took(Kind.DELEGATION)
    for number in [*range(1, 301), *range(1, 301)]:
        a.respond(f"a{number % 3}", number, Status.PROGRESS)
    bus.step()
    assert len(d.took(Kind.RESPONSE)) == 300
    bus.now += 1.0

    for expected in (PASSED_ON_PER_STEP, PASSED_ON_PER_STEP, 300 - 2 * PASSED_ON_PER_STEP):
        assert bus.supervisor.next_wake() <= bus.now
        bus.step()
        assert len(d.took(Kind.RESPONSE)) == expected


def test_who_waits_for_the_journal_goes_on_when_it_has_what_was_said():
    bus, d, a = working(count=20)
    journal = bus.supervisor.state.journal
    journal.append = lambda *_: 1 << 40  # type: ignore[method-assign]  # not committed yet
    for number in range(1, 21):
        say(a, 1, number=number, size=900_000)
        bus.step()
    for number in range(1, 21):
        say(a, 2, number=number)
    bus.pass_time(2.0)
    assert heard(d) == []
    d.session.channel.acknowledge(d.session.channel.last)
    before = a.session.input.tag
    bus.supervisor.step([], bus.now, bus.wall)
    assert a.session.input.tag == before

    journal.committed = 1 << 40
    bus.step()
    bus.step()
    places = [place for place, _ in heard(d)]
    assert sorted(set(places)) == [1, 2]
    assert places.count(2) == 20


@pytest.mark.parametrize("ending", ["answered", "cancelled", "late"])
def test_what_waits_for_room_is_forgotten_at_once_with_its_delegation(ending: str):
    bus, d, a, numbers = deaf(1, 20)
    tell(bus, a, numbers)
    assert a.session.progress_waiting > 0
    for number in numbers:
        entry = bus.entry(number)
        assert entry is not None
        if ending == "answered":
            a.respond("a0", number)
        elif ending == "cancelled":
            d.cancel("d", number)
        else:
            bus.state.ledger.shorten_deadline(entry, bus.now + 0.1)
    bus.pass_time(1.0)

    assert a.session.progress_waiting == 0
    assert not any(bus.supervisor._progress._listening.values())
    assert not any(bus.supervisor._progress._speaking.values())


def test_nothing_waits_for_a_delegator_that_is_gone():
    bus, d, a, numbers = deaf(1, 20)
    tell(bus, a, numbers)
    d.die()
    bus.pass_time(5.0)

    assert a.session.progress_waiting == 0
    assert not bus.supervisor._progress._listening
    assert not bus.supervisor._progress._speaking
    assert bus.supervisor.next_wake() > bus.now


def test_what_waits_is_forgotten_with_its_delegation_and_with_its_run():
    bus, d, a = working(count=2)
    for number in (1, 2):
        for place in range(2_000):
            say(a, place, number=number)
    bus.step()
    heard(d)
    d.cancel("d", 1)
    bus.step()
    bus.pass_time(1.0)

    assert [received.number for received in d.took(Kind.RESPONSE)] == [1, 2]
    assert a.session.progress_waiting == 0


@pytest.mark.parametrize("odd", [0.0, -1.0, float("inf"), float("-inf"), float("nan"), 2.0**60])
def test_what_its_node_folded_counts_with_what_the_bus_folds_and_what_is_no_count_does_not(odd: float):
    bus, d, a = working()
    for place, folded in (
        (1, 7.0),
        (2, odd),
        *((place, 0.0) for place in range(3, BURST)),
        (BURST, 5.0),
        (BURST + 1, 6.0),
    ):
        a.send(Kind.RESPONSE, request_id=request_id(1), source=b"a", target=b"d", status=Status.PROGRESS, deadline=folded,
               body={"summary": f"{place}:"})  # fmt: skip
    bus.step()
    bus.pass_time(1.0)

    told = heard(d)
    assert told[:3] == [(1, 7), (2, 0), (3, 0)]
    assert told[-1] == (BURST + 1, 1 + 5 + 6)


@settings(max_examples=12, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 3), st.sampled_from([1, 5, 300, 1_500]), st.sampled_from([0, 5_000, 200_000]), st.booleans()
        ),
        max_size=12,
    )
)
def test_each_is_heard_or_told_as_folded_in_order_and_within_the_bounds(said: list[tuple[int, int, int, bool]]):
    bus, d, a = working(count=3)
    began = bus.now
    places = dict.fromkeys((1, 2, 3), 0)
    for number, count, size, is_later in said:
        for _ in range(count if size < 200_000 else min(count, 20)):
            places[number] += 1
            say(a, places[number], number=number, size=size)
        bus.step()
        assert a.session.progress_waiting <= WAITING
        if is_later:
            bus.pass_time(0.3)
    for number in places:
        say(a, places[number] + 1, number=number, status=Status.COMPLETED)
    bus.step()

    heard_of: dict[int, list[tuple[int, int]]] = {1: [], 2: [], 3: []}
    for received in d.took(Kind.RESPONSE):
        response = read_response(received.header, received.envelope)
        place = int(response.summary.partition(":")[0])
        heard_of[received.number].append((place, response.metadata.get("folded", 0)))
    for number, those in heard_of.items():
        at = 0
        for place, folded in those:
            at += 1 + folded
            assert place == at, "each place was heard, or told as folded into the next that was"
        assert at == places[number] + 1
        assert len(those) <= BURST + RATE * (bus.now - began) + 3


@pytest.mark.parametrize("ends_first", [False, True])
def test_what_is_told_while_the_delegator_is_expected_back_is_folded_until_it_asks_or_the_work_ends(
    *, ends_first: bool
):
    bus = Bus()
    d, a = bus.delegator("d"), bus.node("na", "a")
    number = d.delegate("d", timeout=60.0)
    bus.step()
    a.respond("a", number, Status.ACCEPTED)
    bus.step()
    d.took(Kind.RESPONSE)

    # Given a delegator that a restarted broker waits for
    d.session.is_expected = True
    for place in range(3):
        a.respond("a", number, Status.PROGRESS, summary=f"{place}:")
        bus.step()
    assert heard(d) == []

    # When it asks for what it is owed, or the work ends
    d.session.is_expected = False
    if ends_first:
        a.respond("a", number, summary="3:")
    else:
        entry = bus.entry(number)
        assert entry is not None
        bus.supervisor._replay.go_on(d.session, entry)
    bus.step()

    # Then it hears the newest, which says how many it stands for
    assert heard(d) == [(2, 2), (3, 0)][: 1 + ends_first]
    assert a.session.progress_waiting == 0
