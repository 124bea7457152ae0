from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether.node.connection.broker_clock import SAMPLES, BrokerClock
from ether.testing import ManualClock
from ether.testing.simulator import World
from ether_broker.envelope.payload import pack
from ether_broker.timing import Timing
from ether_broker.wire.frame import Kind, pack_envelope

delays = st.lists(st.floats(0, 10), min_size=1, max_size=SAMPLES)


@given(st.floats(-1e6, 1e6), delays)
def test_the_offset_is_off_by_the_shortest_delay_only(ahead, found):
    clock = BrokerClock()
    clock.begin(100.0 + ahead, 100.0 + found[0])
    for delay in found[1:]:
        clock.note(200.0 + ahead, 200.0 + delay)

    assert clock.offset == pytest.approx(ahead - min(found), abs=1e-6)


def test_a_delay_is_forgotten_after_sixteen_later_ones():
    clock = BrokerClock()
    clock.begin(50.0, 0.0)
    for _ in range(SAMPLES):
        clock.note(40.0, 0.0)

    assert clock.offset == 40.0


def test_another_brokers_clock_begins_anew():
    clock = BrokerClock()
    clock.begin(50.0, 0.0)
    clock.begin(-7.0, 0.0)

    assert clock.offset == -7.0


@pytest.mark.parametrize("session", ["the same", "another"])
def test_a_welcome_of_the_same_broker_that_was_long_under_way_makes_no_deadline_earlier(session: str):
    """HELLO is said again until it is answered, so that several answers may come, and the later ones be read late."""
    world = World(ManualClock(0.0))
    node, _ = world.join("n")
    known, before = node._session_state, node._broker_clock.offset
    said = {
        "broker": known.broker, "session": known.number + (session == "another"), "clock": world.clock.monotonic(),
        "journal": known.journal, "max_payload": 1 << 20, "default_timeout": 60.0, **Timing().as_dict(),
    }  # fmt: skip
    world.clock.advance(0.1)
    node.received([pack_envelope(Kind.WELCOME, body=pack(said))])

    node.abandon()

    assert node._broker_clock.offset == before
