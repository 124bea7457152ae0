"""The relay of artifacts' bytes: who asked whom, each FETCH answered once, within bounds, and nothing of it in the journal."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

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
    """Nodes that ask each other, answer or not, come and go."""

    def __init__(self) -> None:
        super().__init__()
        self.bus = Bus()
        self.numbers = itertools.count(1)
        self.nodes: dict[str, Peer] = {}
        self.open: dict[int, tuple[str, str]] = {}
        """{number: (who asked, whom)} of what has no answer."""
        self.given: dict[int, str] = {}
        """{number: whom} of what the one who was asked has got and not answered, also of what was taken back."""
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
        waiting = {number for number, (asking, asked) in self.open.items() if asked == name and asking != name}
        self.open = {number: pair for number, pair in self.open.items() if name not in pair}
        self.given = {number: asked for number, asked in self.given.items() if asked != name}
        assert self.errors() == dict.fromkeys(waiting, ArtifactUnavailable.code)
        self.pass_on()

    @precondition(lambda self: self.nodes)
    @rule(data=st.data(), asked=names, count=st.sampled_from([1, 1, 3, MOST_OPEN]))
    def fetch(self, data: st.DataObject, asked: str, count: int) -> None:
        asking = data.draw(st.sampled_from(sorted(self.nodes)))
        expected = {}
        for number in itertools.islice(self.numbers, count):
            fetch(self.nodes[asking], number, asked)
            if sum(who == asking for who, _ in self.open.values()) >= MOST_OPEN:
                expected[number] = TooMuch.code
            elif asked not in self.nodes:
                expected[number] = ArtifactUnavailable.code
            else:
                self.open[number] = asking, asked
        self.bus.step()
        assert self.errors() == expected
        self.pass_on()

    @precondition(lambda self: self.given or self.open)
    @rule(data=st.data(), right=st.booleans())
    def answer(self, data: st.DataObject, *, right: bool) -> None:
        number = data.draw(st.sampled_from(sorted(self.given.keys() | self.open.keys())))
        asking, asked = self.open.get(number, ("", self.given.get(number, "")))
        says = asked if right else data.draw(st.sampled_from(sorted(self.nodes)))
        chunk(self.nodes[says], number)
        self.bus.step()
        came = {name: texts(peer.took(Kind.CHUNK)) for name, peer in self.nodes.items()}
        is_answer = self.given.get(number) == says
        assert came == {name: [(number, b"bytes")] if is_answer and name == asking else [] for name in self.nodes}
        if is_answer:
            self.given.pop(number)
            self.open.pop(number, None)
        self.pass_on()

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def take_back(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.open)))
        fetch(self.nodes[self.open.pop(number)[0]], number, "", b"")
        self.bus.step()
        assert self.errors() == {}
        self.pass_on()

    def pass_on(self) -> None:
        """Take what was passed on: once each, and of one that asks in its order."""
        for name, peer in self.nodes.items():
            came = [one.number for one in peer.took(Kind.FETCH)]
            for asking in {self.open[number][0] for number in came}:
                of_one = [number for number in came if self.open[number][0] == asking]
                assert of_one == sorted(of_one)
                before = {number for number, pair in self.open.items() if pair == (asking, name)} - self.given.keys()
                assert not {number for number in before if number < of_one[-1]} - set(of_one)
            assert not self.given.keys() & set(came)
            self.given.update(dict.fromkeys(came, name))

    def errors(self) -> dict[int, str]:
        found: dict[int, Any] = {}
        for peer in self.nodes.values():
            found.update(refused(peer))
        return found

    @invariant()
    def what_waits_is_what_is_known(self) -> None:
        sessions = self.bus.state.session_table.sessions
        known = {
            int.from_bytes(key): (one.node, fetch.server.node) for one in sessions for key, fetch in one.fetches.items()
        }
        assert known == self.open
        given = {int.from_bytes(key): one.node for one in sessions for key in one.serves}
        assert given == self.given
        for one in sessions:
            waiting = {
                int.from_bytes(fetch.request_id) for fetches in one.fetched.values() for fetch, _ in fetches
            }  # fmt: skip
            assert waiting == {number for number, pair in self.open.items() if pair[1] == one.node} - given.keys()
            held = Counter(fetch.asking for fetch in one.serves.values())
            assert all(held[asking] >= MOST_OPEN - len(one.serves) >= 0 for asking in one.fetched)
            assert all(one.fetched.values())


TestRelay = Relay.TestCase
