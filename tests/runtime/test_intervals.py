"""How often broker and node show each other that they live: the broker says it in WELCOME, and its nodes do it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ether.testing import ManualClock
from ether.testing.simulator import World
from ether_broker.envelope.payload import pack
from ether_broker.timing import Timing
from ether_broker.transport.link import Link
from ether_broker.wire.frame import Kind, pack_envelope

HEARTBEAT, SILENCE = 5.0, 15.0
TIMING = Timing(heartbeat=HEARTBEAT, silence=SILENCE, grace=4.0, max_backoff=20.0)


@pytest.fixture
def world() -> World:
    return World(ManualClock(0.0), timing=TIMING)


def test_a_node_beats_as_its_broker_says_and_is_given_up_as_it_says(world: World):
    _, link = world.join("n")
    (session,) = world.broker.supervisor.state.session_table.sessions
    heard = set()
    for _ in range(240):
        world.advance(0.1)
        heard.add(round(session.heard))
    link.cut()
    world.advance(session.heard + SILENCE - world.clock.monotonic() - 0.1)
    was_lost = bool(session.lost)
    world.advance(0.5)

    assert heard == {0, 5, 10, 15, 20}
    assert (was_lost, session.lost[:6]) == (False, "silent")


def test_ticks_that_come_late_make_heartbeats_no_rarer():
    world = World(ManualClock(0.0), timing=Timing(heartbeat=0.2, silence=1.0))
    node, _ = world.join("n")
    beats: list[float] = []
    node._session.show_life = lambda _loads: beats.append(world.clock.monotonic())
    for _ in range(91):  # 10 s
        world.clock.advance(0.11)
        node.ticked()

    assert 48 <= len(beats) <= 51


def test_a_node_shows_life_at_once_to_a_broker_whose_heartbeats_are_shorter(world: World):
    node, _ = world.join("n")
    world.advance(6.0)
    beats: list[float] = []
    node._session.show_life = lambda _loads: beats.append(world.clock.monotonic())
    welcome = {
        "broker": "another", "session": 7, "clock": 0.0, "journal": "", "max_payload": 1 << 20, "default_timeout": 30.0,
        **Timing().as_dict(),
    }  # fmt: skip

    node.received([pack_envelope(Kind.WELCOME, body=pack(welcome))])
    world.clock.advance(0.1)
    node.ticked()

    assert beats == [world.clock.monotonic()]


def test_a_node_says_hello_again_only_when_its_broker_was_silent_for_as_long_as_it_says(world: World):
    _, link = world.join("n")
    greeted: list[float] = []
    link.greet = lambda envelope: greeted.append(world.clock.monotonic()) if envelope[0] == Kind.HELLO else None
    world.advance(60.0)
    before = list(greeted)
    link.cut()
    world.advance(SILENCE + 2 * HEARTBEAT)

    assert before == []
    assert greeted[0] > 60.0 + SILENCE - HEARTBEAT
    assert {round(later - earlier) for earlier, later in pairwise(greeted)} == {5}


def test_what_welcome_says_reaches_the_link(world: World):
    told: list[tuple[Timing]] = []
    connect = world.broker.connect

    def wrapped() -> Link:
        link = connect()
        begin = link.begin
        link.begin = lambda session, renew, *said: (told.append(said), begin(session, renew, *said))[1]
        return link

    world.broker.connect = wrapped
    world.join("n")

    assert told == [(TIMING,)]


def test_a_node_without_work_looks_less_often_and_never_later_than_something_is_due(world: World):
    node, _ = world.join("n")
    world.advance(0.1)
    waits = []
    for _ in range(100):  # 10 s
        world.clock.advance(0.1)
        waits.append(node.ticked())

    assert max(waits) == pytest.approx(0.3)
    assert min(waits) < 0.11  # before a heartbeat

    node._due_calls.add(world.clock.monotonic() + 0.05, lambda: None)
    assert node.ticked() <= 0.051
    node.resources.pool._ready.append(lambda: None)
    assert node.ticked() == pytest.approx(0.1)
    node.resources.pool._ready.clear()
