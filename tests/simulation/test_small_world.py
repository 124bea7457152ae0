"""Small worlds hold in every state, and a broken law is found there."""

from __future__ import annotations

import pytest

from tests.simulation.mutants import MUTANTS
from tests.simulation.small_world.relations import relations
from tests.simulation.small_world.walk import replay, walk
from tests.simulation.small_world.world import FAULTS, Relation, World

CHAIN = relations(3, 0)[3]
MOST = 120
"""States of each world that are looked at here; `python -m tests.simulation.small_world` walks them whole."""


def test_a_chain_of_three_holds_in_every_state() -> None:
    seen = walk(CHAIN)

    assert seen.violations == []
    assert seen.is_complete
    assert seen.states > 200
    assert seen.resting > 5


@pytest.mark.slow
@pytest.mark.parametrize("relation", relations(3, 0), ids=str)
def test_no_relation_of_parents_breaks_anything(relation: Relation) -> None:
    assert walk(relation, most_states=MOST).violations == []


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_no_fault_breaks_anything_where_it_meets_a_child(fault: str) -> None:
    (relation,) = [found for found in relations(2, 1, (fault,)) if found.parents == (0, 1)]

    assert walk(relation, most_states=2 * MOST).violations == []


@pytest.mark.slow
def test_two_delegations_that_are_alike_are_one_where_they_change_places() -> None:
    fork = next(found for found in relations(3, 0) if found.parents == (0, 1, 1))
    other = Relation(fork.parents, ("once", "twice", "once"), fork.routes, faults=(), most=0)

    assert walk(fork).states < walk(other).states


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["cancel", "delegator"])
def test_what_commutes_leads_to_the_same_ends_in_fewer_states(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (relation,) = [found for found in relations(2, 1, (fault,)) if found.parents == (0, 1)]
    reduced = walk(relation)
    monkeypatch.setattr(World, "_alone", lambda _world: None)
    whole = walk(relation)

    assert reduced.is_complete
    assert (reduced.resting, reduced.depth) == (whole.resting, whole.depth)
    assert reduced.states < whole.states


def test_a_broken_law_is_found_with_a_short_way_to_it() -> None:
    (mutant,) = [found for found in MUTANTS if found.name == "sub-delegations outlive their parent"]
    (relation,) = [found for found in relations(2, 1, ("cancel",)) if found.parents == (0, 1)]
    with mutant.planted():
        seen = walk(relation, most_states=1_000)

    why, path = seen.violations[0]
    assert why == "parents: 2 goes on without 1"
    assert len(path) <= 8
    assert replay(relation, path[:-1]).supervisor is not None


def test_a_path_leads_to_the_same_state_again() -> None:
    path = (("say", 1), ("arrive", "d"), ("hear", "w"), ("say", 2))

    assert list(replay(CHAIN, path).actions()) == list(replay(CHAIN, path).actions())
