"""Deadlines over restarts of the broker, of its machine, and over a wall clock that somebody sets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether_actors.supervisor.journal.history import History
from ether_broker.envelope.status import Status
from ether_broker.wire.frame import Kind, pack_envelope, read_header
from tests.actors.recovery_world import Asked, World

TIMEOUT = 1000.0
jumps = st.sampled_from([-3600.0, -60.0, 0.0, 60.0, 3600.0])
starts = st.tuples(st.floats(0.0, 100.0), st.one_of(st.none(), st.floats(0.0, 1e6)), jumps, jumps)
"""Seconds without a broker, what the clock of the machine shows then if it was restarted, how far the wall clock was set
before and meanwhile."""


def asking() -> tuple[World, Asked]:
    world = World()
    d, _ = world.life("d"), world.life("na", "a")
    world.settle()
    asked = d.ask("once", to="a", timeout=TIMEOUT)
    world.settle()
    return world, asked


def left(world: World, asked: Asked) -> float:
    """Seconds that a delegation still has, by the broker's clock."""
    entry = world.supervisor.state.ledger.get(asked.number.to_bytes(16))
    assert entry is not None
    return entry.deadline - world.now


@given(st.lists(starts, min_size=1, max_size=5))
def test_a_delegation_has_what_is_left_of_its_time(found):
    world, asked = asking()
    expected = TIMEOUT
    for down, clock, before, meanwhile in found:
        world.ahead += before
        world.crash(down=down, clock=clock, jump=meanwhile)
        # Only a machine that was restarted has to believe its wall clock.
        expected -= down if clock is None else max(0.0, down + before + meanwhile)
        world.journal.sync()

        assert left(world, asked) == pytest.approx(expected, abs=1e-3)


@given(st.lists(st.tuples(st.floats(0.0, 100.0), jumps), min_size=1, max_size=5))
def test_while_the_machine_runs_nobody_has_more_time_or_less_whatever_its_wall_clock_shows(found):
    world, asked = asking()
    for down, jump in found:
        world.crash(down=down, clock=None, jump=jump)

    assert left(world, asked) == pytest.approx(asked.until - world.wall, abs=1e-3)


@given(starts)
def test_a_clock_that_was_set_back_gives_nobody_more_than_was_left(start):
    world, asked = asking()
    world.pass_time(2.0)
    down, clock, before, meanwhile = start
    world.ahead += before
    world.crash(down=down, clock=clock, jump=meanwhile)

    assert left(world, asked) <= TIMEOUT


def test_what_was_over_while_the_broker_was_away_times_out_at_once_and_nothing_else_does():
    world, asked = asking()
    short = asked.life.ask("once", to="a", timeout=5.0)
    world.settle()
    world.crash(down=6.0, clock=None, jump=-3600.0)
    for life in world.lives:
        life.greet()
    world.settle()
    world.pass_time(1.0)

    assert (short.outcomes, asked.outcomes) == ([(Status.TIMEOUT, "deadline")], [])


def test_a_clock_that_went_back_is_another_one_whatever_its_machine_calls_itself():
    history = History()
    envelope = pack_envelope(Kind.DELEGATION, request_id=b"x" * 16, deadline=150.0)
    history.begin("boot-1", 90.0, 990.0)
    history.apply(1, 90.0, 990.0, [envelope])
    history.begin("boot-1", 100.0, 1000.0)
    (accepted,) = history.open.values()
    assert (accepted.clock, read_header(accepted.envelope).deadline) == (90.0, 150.0)

    history.begin("boot-1", 50.0, 1010.0)  # 20 seconds later

    assert (accepted.clock, read_header(accepted.envelope).deadline) == (30.0, 90.0)


def test_a_checkpoint_keeps_by_which_clock_it_tells():
    history = History()
    history.begin("boot-1", 5.0, 100.0)
    again = History.of(history.pack())

    assert (again.boot, again.clock, again.wall) == ("boot-1", 5.0, 100.0)
