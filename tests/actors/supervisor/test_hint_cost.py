"""A name that there is not is answered with one that may be meant: at a price that is bounded, and paid."""

from __future__ import annotations

import random
import re

import pytest

from ether_broker.envelope.manifest.manifest import MOST_CAPABILITIES
from ether_broker.envelope.payload import pack
from ether_broker.name_hint import nearest
from ether_broker.wire.frame import Flag, Kind
from tests.actors.peers import Bus, Peer, request_id
from tests.actors.work_counter import WorkCounter

_SMALL = 100
_MOST = 40_000
"""Units of work of a step with one refusal, two thirds of which are not the hint's."""
_WORDS = re.findall(
    r"\w+",
    """
    scout reviewer writer planner tester builder critic editor librarian archivist translator summarizer indexer crawler
    parser linter formatter debugger profiler deployer monitor scheduler dispatcher collector auditor composer painter
    narrator chemist surveyor
    """,
)


def _long(number: int) -> str:
    """A name of 200 letters, which is near to all others of its kind."""
    return f"{number:04x}." + ".".join(["abcdefghij"] * 14)[:195].ljust(195, "z")


def _bus(count: int, *, is_long: bool) -> tuple[Bus, Peer]:
    """A bus with so many agents, of which each declares another capability, and one that declares as many as it may."""
    bus = Bus()
    peer, d = bus.node("n"), bus.delegator("d")
    named = _long if is_long else "a{:04x}.do".format
    for number in range(count):
        peer.send(
            Kind.REGISTER, source=named(number).encode(), request_id=request_id(20_000 + number),
            body={"capabilities": [{"name": named(number)}]},
        )  # fmt: skip
    many = [{"name": named(number)} for number in range(min(count, MOST_CAPABILITIES))]
    peer.send(Kind.REGISTER, source=b"many", request_id=request_id(19_999), body={"capabilities": many})
    for _ in range(count):
        bus.step()
    assert len(bus.state.registry) == count + 2
    return bus, d


def _refused(bus: Bus, d: Peer, code: str, **asked: object) -> tuple[int, int, str]:
    """The work and the points that a refusal takes, and what it says."""
    d.delegate("d", "warm.up")  # brings its clock up to that of the others
    bus.step()
    d.inbox.clear()
    before = d.session.input.tag
    d.delegate("d", **asked)  # type: ignore[arg-type]
    arrivals = bus.take_arrivals()
    with WorkCounter() as counter:
        bus.supervisor.step(arrivals, bus.now, bus.now)
    points = d.session.input.tag - before
    bus.step()
    outcome = d.outcome()
    assert outcome.code == code
    return counter.work, points, outcome.body["error"]["message"]


@pytest.mark.parametrize("is_long", [False, True], ids=["short", "long"])
@pytest.mark.parametrize(
    ("code", "asked"),
    [
        ("unknown_agent", {"to": "?", "capability": "x.y"}),
        ("not_declared", {"to": "many", "capability": "?"}),
        ("no_holder", {"capability": "?"}),
        ("unknown_agent", {"to": "?", "capability": "?", "flags": Flag.FALLTHROUGH}),
    ],
    ids=["agent", "of an agent", "capability", "either"],
)
def test_a_hint_costs_the_same_whatever_there_is_and_is_paid(
    code: str, asked: dict[str, object], is_long: bool
) -> None:
    name = ("z" + _long(0x40)[1:]) if is_long else "z0040.do"
    said = {key: name if value == "?" else value for key, value in asked.items()}

    (small, _, _), (large, points, message) = (
        _refused(*_bus(count, is_long=is_long), code, **said) for count in (_SMALL, 8 * _SMALL)
    )

    looked_through = MOST_CAPABILITIES * 40 if code == "not_declared" else 0
    assert large <= 1.25 * small + looked_through
    assert large < _MOST + looked_through
    assert "Did you mean" in message
    assert 24 + 32 < points < 24 + 72


def test_the_price_is_that_of_the_names_that_were_looked_at() -> None:
    points = [_refused(*_bus(count, is_long=False), "no_holder", capability="z0040.do")[1] for count in (2, 20, 200)]

    assert points[0] < points[1] < points[2] <= points[0] + 48


def test_a_name_that_an_agent_is_asked_for_anew_costs_as_many_capabilities_as_it_has() -> None:
    bus, d = _bus(MOST_CAPABILITIES, is_long=True)
    few, many = ("a", "many")
    bus.peers[0].register(few, "x.y")
    bus.step()

    prices = [_refused(bus, d, "not_declared", to=to, capability="q")[1] for to in (few, many)]
    again = _refused(bus, d, "not_declared", to=many, capability="q")[1]

    assert prices[1] - again == MOST_CAPABILITIES >> 5


def test_what_falls_through_is_told_one_name_and_that_of_the_agent() -> None:
    bus = Bus()
    bus.node("n", "writer")
    d = bus.delegator("d")

    message = _refused(bus, d, "unknown_agent", to="wirter", capability="x.z", flags=Flag.FALLTHROUGH)[2]

    assert message == "There is no agent 'wirter'. Did you mean 'writer'?"


def test_a_typo_in_any_place_is_found_among_thirty_names() -> None:
    draw = random.Random(1)
    for word in _WORDS:
        for place in range(len(word)):
            head, tail = word[:place], word[place:]
            for typo in (
                head + tail[1:],
                head + "q" + tail,
                head + "q" + tail[1:],
                head + tail[1:2] + tail[:1] + tail[2:],
            ):
                names = draw.sample(_WORDS, len(_WORDS))
                assert typo == word or nearest(typo, names) == f" Did you mean {word!r}?"


def test_a_typo_is_found_on_a_bus_of_thirty_agents() -> None:
    bus = Bus()
    bus.node("n", *_WORDS)
    d = bus.delegator("d")
    for typo, meant in (
        ("coposer", "composer"),
        ("zcout", "scout"),
        ("summarzier", "summarizer"),
        ("lniter", "linter"),
    ):
        assert _refused(bus, d, "unknown_agent", to=typo)[2].endswith(f"Did you mean {meant!r}?")


def test_a_typo_towards_the_end_is_found_among_thousands() -> None:
    bus, d = _bus(2_000, is_long=False)

    assert _refused(bus, d, "unknown_agent", to="a03e8.d0")[2].endswith("Did you mean 'a03e8.do'?")
    assert _refused(bus, d, "no_holder", capability="a03e8.od")[2].endswith("Did you mean 'a03e8.do'?")


def test_a_manifest_with_thousands_of_mistakes_is_told_a_few_of_them_and_their_number() -> None:
    costs = []
    for count in (10, 30):
        bus = Bus()
        peer = bus.node("n")
        peer.send(Kind.REGISTER, source=b"a", body={f"capabilitie{number}": 1 for number in range(count)})
        arrivals = bus.take_arrivals()
        with WorkCounter() as counter:
            bus.supervisor.step(arrivals, bus.now, bus.now)
        bus.step()
        message = peer.refusal().body["message"]
        assert message.endswith(f"; and {count - 8} more")
        assert message.count("Did you mean 'capabilities'?") == 8
        costs.append(counter.work)
    assert costs[1] < costs[0] + 30 * 200

    peer.inbox.clear()
    peer.send(Kind.REGISTER, source=b"a", body={f"c{number}": 1 for number in range(10_000)})
    bus.step()
    assert peer.refusal().body["message"] == "A part of a manifest has 10,001 fields, and 32 is the most."

    peer.inbox.clear()
    peer.send(Kind.REGISTER, source=b"a", body=pack({"tools": [1] * 60_000}))
    bus.step()
    assert peer.refusal().body["message"] == "Manifest is not valid: tools.0: Input should be a valid string"
