"""Whose an outcome is when several processes ask for it: the same whether the broker is restarted or not."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from ether_broker.envelope.status import Status
from tests.actors.recovery_world import World
from tests.actors.supervisor.test_recovery import back


class Move(NamedTuple):
    """What one of three processes does."""

    what: str
    who: int


MOVES = st.lists(
    st.builds(Move, st.sampled_from(("collect", "take", "leave", "answer", "away")), st.integers(0, 2)), max_size=7
)


def heard(moves: list[Move], waits: int, crash_before: int) -> list[tuple[Status, str]]:
    """What the process that asks last hears; the broker is restarted before that move, or not if there is none."""
    world = World()
    lives, specialist = [world.life("a", "x"), world.life("b"), world.life("c")], world.life("n", "w")
    world.settle()
    asked = lives[0].ask("once", to="w", source="x", timeout=500.0)
    world.settle()
    lives[0].pending.pop(asked.number)
    holder, has_ended = lives[0], False
    for at, (what, who) in enumerate([*moves, Move("collect", waits), Move("answer", 0)]):
        if at == crash_before:
            world.crash()
            back(world, *lives, specialist)
        if at == len(moves):
            for life in lives:
                life.other.clear()
        life = lives[who]
        if what == "collect":
            life.await_again([asked.number])
        elif what == "answer" and not has_ended:
            has_ended = True
            specialist.answer(asked.number)
        elif what == "away":  # so long that the broker takes it for lost, and its session with it
            life.is_mute = True
            world.pass_time(4.0)
            life.is_mute = False
            back(world, life)
        elif what in {"take", "leave"}:
            if "x" in holder.agents:
                holder.leave("x")
                world.settle()
            if what == "take":
                holder = life
                holder.add("x")
        world.settle()
    return [(status, code) for _, status, code in lives[waits].other]


@given(moves=MOVES, waits=st.integers(0, 2), crash_before=st.integers(0, 8))
@settings(max_examples=150, deadline=None)
def test_who_has_an_outcome_is_the_same_over_a_restart(moves: list[Move], waits: int, crash_before: int) -> None:
    live, recovered = heard(moves, waits, -1), heard(moves, waits, min(crash_before, len(moves)))

    assert live, "who asks hears something"
    assert set(recovered) == set(live)
    assert len({code for _, code in live}) == 1, "and nothing that contradicts it"
