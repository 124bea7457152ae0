"""The relay of artifacts' bytes: who asked whom, each FETCH answered once, within bounds, and nothing of it in the journal."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ether_broker.envelope.status import Status
from ether_broker.errors import ArtifactUnavailable, InvalidEnvelope, TooMuch
from ether_broker.transport.sessions.cost import REFUSAL
from ether_broker.transport.sessions.turns import InputQueue
from ether_broker.wire.chunk import MOST_CHUNK, MOST_FETCH, MOST_OPEN
from ether_broker.wire.frame import Kind
from tests.actors.fold import differences
from tests.actors.peers import Bus, Peer, Received, request_id

ALONE = MOST_OPEN // 2
"""FETCHes that one node has at another, if no other asks that."""


def fetch(peer: Peer, number: int, node: str, body: bytes = b"which") -> None:
    peer.send(Kind.FETCH, request_id=request_id(number), target=node.encode(), body=body)


def chunk(peer: Peer, number: int, body: bytes = b"bytes") -> None:
    peer.send(Kind.CHUNK, request_id=request_id(number), body=body)


def refused(peer: Peer) -> list[tuple[int, str]]:
    return [(one.number, one.code) for one in peer.took(Kind.ERROR)]


def texts(received: list[Received]) -> list[tuple[int, bytes]]:
    return [(one.number, one.envelope[one.header.body :]) for one in received]


@pytest.fixture
def world() -> tuple[Bus, Peer, Peer]:
    bus = Bus()
    return bus, bus.node("reads"), bus.node("has")


def given_to(bus: Bus, node: str) -> Counter[str]:
    """Of whom a node has how many FETCHes that it has not answered."""
    session = next(one for one in bus.state.session_table.sessions if one.node == node)
    return Counter(fetch.asking.node for fetch in session.serves.values())


def open_fetches(bus: Bus) -> int:
    return sum(len(one.fetches) for one in bus.state.session_table.sessions)


def test_a_fetch_goes_to_the_node_and_its_chunk_to_who_asked(world: tuple[Bus, Peer, Peer]) -> None:
    bus, reads, has = world
    seen = len(bus.tapped)
    fetch(reads, 1, "has")
    bus.step()
    assert texts(has.took(Kind.FETCH)) == [(1, b"which")]
    assert open_fetches(bus) == 1
    chunk(has, 1, b"x" * MOST_CHUNK)
    chunk(has, 1)  # a second one is nobody's
    bus.step()

    assert texts(reads.took(Kind.CHUNK)) == [(1, b"x" * MOST_CHUNK)]
    assert refused(reads) == refused(has) == []
    assert open_fetches(bus) == 0
    assert len(bus.tapped) == seen, "neither observers nor the journal have it"
    assert differences(bus.supervisor, bus.history) == []


def test_a_node_may_fetch_from_itself(world: tuple[Bus, Peer, Peer]) -> None:
    bus, reads, _ = world
    fetch(reads, 1, "reads")
    bus.step()
    chunk(reads, 1)
    bus.step()

    assert texts(reads.took(Kind.CHUNK)) == [(1, b"bytes")]


@pytest.mark.parametrize(
    ("node", "body", "code"),
    [("nobody", b"which", ArtifactUnavailable.code), ("", b"which", ArtifactUnavailable.code),
     ("has", bytes(MOST_FETCH + 1), TooMuch.code)],
)  # fmt: skip
def test_what_cannot_be_passed_on_is_refused(
    world: tuple[Bus, Peer, Peer], node: str, body: bytes, code: str
) -> None:  # fmt: skip
    bus, reads, has = world
    fetch(reads, 1, node, body)
    bus.step()

    assert refused(reads) == [(1, code)]
    assert has.took(Kind.FETCH) == []
    assert open_fetches(bus) == 0


def test_a_node_has_so_many_fetches_without_an_answer_and_no_more(world: tuple[Bus, Peer, Peer]) -> None:
    bus, reads, has = world
    for number in range(1, MOST_OPEN + 2):
        fetch(reads, number, "has")
    bus.step()
    assert refused(reads) == [(MOST_OPEN + 1, TooMuch.code)]
    assert len(has.took(Kind.FETCH)) == ALONE

    fetch(reads, 1, "", b"")  # takes the first back
    fetch(reads, MOST_OPEN + 2, "has")
    bus.step()
    assert has.took(Kind.FETCH) == [], "it works at the first"
    chunk(has, 1)
    bus.step()
    assert refused(reads) == []
    assert [one.number for one in has.took(Kind.FETCH)] == [ALONE + 1]
    assert reads.took(Kind.CHUNK) == [], "what was taken back is not answered"


def test_what_waits_for_a_node_is_passed_on_in_turn_for_each_that_asks(world: tuple[Bus, Peer, Peer]) -> None:
    bus, reads, has = world
    other = bus.node("other")
    for number in range(1, MOST_OPEN + 1):
        fetch(reads, number, "has")
    bus.step()
    for number in range(101, 101 + MOST_OPEN):
        fetch(other, number, "has")
    bus.step()
    came = [one.number for one in has.took(Kind.FETCH)]
    assert came == [*range(1, ALONE + 1), *range(101, 101 + ALONE // 2)], "as many as were free"
    for number in range(1, ALONE + 1):
        chunk(has, number)
    bus.step()

    given = given_to(bus, "has")
    assert abs(given["reads"] - given["other"]) <= 1, given
    came = [one.number for one in has.took(Kind.FETCH)]
    for of_one in ([number for number in came if number < 100], [number for number in came if number > 100]):
        assert of_one == sorted(of_one)


def test_who_asks_for_much_leaves_room_for_the_next_at_once(world: tuple[Bus, Peer, Peer]) -> None:
    bus, _, has = world
    for others in range(4):
        peer = bus.node(f"other{others}")
        for number in range(1, MOST_OPEN + 1):
            fetch(peer, 100 * others + number, "has")
            bus.step()
        for number in range(1, MOST_OPEN + 1):  # taking them back makes no room for it
            fetch(peer, 100 * others + number, "", b"")
            fetch(peer, 100 * others + 50 + number, "has")
        bus.step()
        has.took(Kind.FETCH)
    reads = bus.node("late")
    fetch(reads, 901, "has")
    bus.step()

    assert [one.number for one in has.took(Kind.FETCH)] == [901], "it waits for none of them to be answered"


def test_however_many_have_no_key_who_has_one_has_room_at_once(world: tuple[Bus, Peer, Peer]) -> None:
    bus, reads, has = world
    others = [bus.node(f"other{number}") for number in range(2 * MOST_OPEN)]
    for first in (1_000, 2_000):
        for number, peer in enumerate(others, first):
            fetch(peer, number, "has")
            bus.step()
        while came := has.took(Kind.FETCH):
            if first == 1_000:
                for one in came:
                    has.send(Kind.CHUNK, request_id=request_id(one.number), status=Status.REJECTED_CONTEXT, body=b"x")
                bus.step()
    assert given_to(bus, "has").total() == ALONE, "they count as one"
    for number in (1, 2):
        fetch(reads, number, "has")
    bus.step()
    assert [one.number for one in has.took(Kind.FETCH)] == [1, 2]


def test_who_is_refused_is_charged_for_that(world: tuple[Bus, Peer, Peer], monkeypatch: pytest.MonkeyPatch) -> None:
    bus, reads, has = world
    spent: list[int] = []
    queue = next(one for one in bus.state.session_table.sessions if one.node == "reads").input
    monkeypatch.setattr(InputQueue, "spend", lambda self, points: spent.append(points) if self is queue else None)
    for number, status in ((1, Status.COMPLETED), (2, Status.FAILED_EXECUTION)):
        fetch(reads, number, "has")
        bus.step()
        has.send(Kind.CHUNK, request_id=request_id(number), status=status, body=b"x")
        bus.step()
    assert spent == [REFUSAL]
    fetch(reads, 3, "nobody")
    bus.step()
    assert spent == [REFUSAL, REFUSAL]


def test_a_node_that_stands_still_is_given_so_many_and_no_more(world: tuple[Bus, Peer, Peer]) -> None:
    bus, reads, has = world
    for number in range(1, 10 * MOST_OPEN):
        fetch(reads, number, "has")
        fetch(reads, number, "", b"")
    bus.step()

    assert len(has.took(Kind.FETCH)) == ALONE
    assert open_fetches(bus) == 0


def test_a_request_id_that_waits_is_not_given_a_second_meaning(world: tuple[Bus, Peer, Peer]) -> None:
    bus, reads, has = world
    other = bus.node("other")
    fetch(reads, 1, "has")
    bus.step()
    fetch(reads, 1, "other")
    fetch(other, 1, "has")
    bus.step()
    assert refused(reads) == refused(other) == [(1, InvalidEnvelope.code)]
    chunk(other, 1)
    chunk(has, 1, b"mine")
    bus.step()

    assert texts(reads.took(Kind.CHUNK)) == [(1, b"mine")], "only the node that was asked answers"


def test_what_waits_under_the_request_id_of_anothers_is_refused_when_its_turn_comes(
    world: tuple[Bus, Peer, Peer],
) -> None:
    bus, reads, has = world
    other = bus.node("other")
    for number in range(1, ALONE + 3):
        fetch(other, number, "has")
    bus.step()
    for number in (ALONE + 1, ALONE + 2):
        fetch(reads, number, "has")
    bus.step()
    assert given_to(bus, "has") == {"other": ALONE, "reads": 2}
    fetch(other, ALONE + 1, "", b"")  # taken back while it waits
    bus.step()
    for number in (1, 2, 3):
        chunk(has, number)
    bus.step()

    assert refused(other) == [(ALONE + 2, InvalidEnvelope.code)]
    for number in range(4, ALONE + 3):
        chunk(has, number)
    bus.step()
    assert [number for number, _ in texts(reads.took(Kind.CHUNK))] == [ALONE + 1, ALONE + 2]
    assert [number for number, _ in texts(other.took(Kind.CHUNK))] == [*range(1, ALONE + 1)]
    assert open_fetches(bus) == 0
    assert not any(one.fetched or one.serves for one in bus.state.session_table.sessions)


def test_a_chunk_that_is_too_large_is_refused_to_who_waits(world: tuple[Bus, Peer, Peer]) -> None:
    bus, reads, has = world
    fetch(reads, 1, "has")
    bus.step()
    chunk(has, 1, bytes(MOST_CHUNK + 1))
    bus.step()

    assert refused(reads) == [(1, TooMuch.code)]
    assert open_fetches(bus) == 0


def test_the_loss_of_a_node_is_told_to_who_waits_for_it_and_ends_what_it_waits_for(
    world: tuple[Bus, Peer, Peer],
) -> None:
    bus, reads, has = world
    fetch(reads, 1, "has")
    fetch(has, 2, "reads")
    bus.step()
    has.die()
    bus.pass_time(10.0)

    assert refused(reads) == [(1, ArtifactUnavailable.code)]
    assert open_fetches(bus) == 0
    chunk(reads, 2)
    bus.step()
    assert refused(reads) == []


class Relay(RuleBasedStateMachine):
    """Nodes that ask each other, with request ids that others use too, answer or not, come and go."""

    def __init__(self) -> None:
        super().__init__()
        self.bus = Bus()
        self.numbers = itertools.count(1)
        self.nodes: dict[str, Peer] = {}
        self.open: dict[tuple[str, int], str] = {}
        """{(who asked, number): whom} of what has no answer, in order."""
        self.given: dict[tuple[str, int], str] = {}
        """{(whom, number): who asked} of what the one who was asked has got and not answered; "" if it was taken back."""
        self.come("a")
        self.come("b")

    names = st.sampled_from("abcd")

    @rule(name=names)
    def come(self, name: str) -> None:
        if name not in self.nodes:
            self.nodes[name] = self.bus.node(name)

    @precondition(lambda self: len(self.nodes) > 1)
    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.nodes)))
        gone = self.nodes.pop(name)
        self.bus.state.session_table.unreachable(b"r" + gone.incarnation)
        gone.die()
        self.bus.pass_time(10.0)
        waiting = {key for key, asked in self.open.items() if asked == name and key[0] != name}
        self.open = {key: asked for key, asked in self.open.items() if name not in {asked, key[0]}}
        self.given = {
            key: "" if asking == name else asking for key, asking in self.given.items() if key[0] != name
        }  # fmt: skip
        self.pass_on(dict.fromkeys(waiting, ArtifactUnavailable.code))

    @precondition(lambda self: self.nodes)
    @rule(data=st.data(), asked=names, count=st.sampled_from([1, 1, 3, MOST_OPEN]), is_again=st.booleans())
    def fetch(self, data: st.DataObject, asked: str, count: int, *, is_again: bool) -> None:
        asking = data.draw(st.sampled_from(sorted(self.nodes)))
        waiting = {number for (who, number), whom in self.open.items() if self.given.get((whom, number)) != who}
        used = sorted(waiting or {number for _, number in (*self.open, *self.given)})
        again = [data.draw(st.sampled_from(used))] if is_again and used else []
        expected = {}
        for number in [*again, *itertools.islice(self.numbers, count)]:
            fetch(self.nodes[asking], number, asked, asking.encode())
            self.bus.step()
            if sum(who == asking for who, _ in self.open) >= MOST_OPEN:
                expected[asking, number] = TooMuch.code
            elif asked not in self.nodes:
                expected[asking, number] = ArtifactUnavailable.code
            elif (asking, number) in self.open or (asked, number) in self.given:
                expected[asking, number] = InvalidEnvelope.code
            else:
                self.open[asking, number] = asked
            self.pass_on(expected)
            expected.clear()

    @precondition(lambda self: self.given or self.open)
    @rule(data=st.data(), right=st.booleans())
    def answer(self, data: st.DataObject, *, right: bool) -> None:
        said = [*self.given, *((asked, number) for (_, number), asked in self.open.items())]
        says, number = data.draw(st.sampled_from(sorted(set(said))))
        if not right:
            says = data.draw(st.sampled_from(sorted(self.nodes)))
        chunk(self.nodes[says], number)
        self.bus.step()
        came = {name: texts(peer.took(Kind.CHUNK)) for name, peer in self.nodes.items()}
        asking = self.given.pop((says, number), "")
        assert came == {name: [(number, b"bytes")] if name == asking else [] for name in self.nodes}
        if asking:
            del self.open[asking, number]
        self.pass_on({})

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def take_back(self, data: st.DataObject) -> None:
        asking, number = data.draw(st.sampled_from(sorted(self.open)))
        fetch(self.nodes[asking], number, "", b"")
        self.bus.step()
        asked = self.open.pop((asking, number))
        if self.given.get((asked, number)) == asking:
            self.given[asked, number] = ""
        self.pass_on({})

    def pass_on(self, expected: dict[tuple[str, int], str]) -> None:
        """Take what was passed on: once each, and of one that asks in its order; and what was refused."""
        for name, peer in self.nodes.items():
            came = [(one.envelope[one.header.body :].decode(), one.number) for one in peer.took(Kind.FETCH)]
            for asking in {asking for asking, _ in came}:
                of_one = [key for key in came if key[0] == asking]
                waiting = [key for key, asked in self.open.items() if asked == name and key[0] == asking]
                before = [key for key in waiting if self.given.get((name, key[1])) != asking]
                passed = before[: before.index(of_one[-1]) + 1]
                assert [key for key in passed if key in of_one] == of_one
            for asking, number in came:
                assert (name, number) not in self.given
                self.given[name, number] = asking
        refusals = {(name, number): code for name, peer in self.nodes.items() for number, code in refused(peer)}
        for key in refusals.keys() - expected.keys():  # whose request id is that of another's that was passed on before
            assert refusals.pop(key) == InvalidEnvelope.code
            assert self.given.get((self.open.pop(key), key[1])) != key[0]
        assert refusals == expected

    @invariant()
    def what_waits_is_what_is_known(self) -> None:
        sessions = self.bus.state.session_table.sessions
        assert self.open == {
            (one.node, int.from_bytes(key)): fetch.server.node for one in sessions for key, fetch in one.fetches.items()
        }
        assert self.given == {
            (one.node, int.from_bytes(key)): fetch.asking.node if fetch.is_wanted else ""
            for one in sessions for key, fetch in one.serves.items()
        }  # fmt: skip
        for one in sessions:
            waiting = {
                (asking.node, int.from_bytes(key)) for asking, waits in one.fetched.items() for key in waits
            }  # fmt: skip
            of_one = {key for key, asked in self.open.items() if asked == one.node}
            assert waiting == {key for key in of_one if self.given.get((one.node, key[1])) != key[0]}
            held = Counter(fetch.asking for fetch in one.serves.values())
            assert all(held[asking] >= MOST_OPEN - len(one.serves) >= 0 for asking in one.fetched)
            assert all(one.fetched.values())


TestRelay = Relay.TestCase
