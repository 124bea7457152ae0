"""Each planted bug is found, and by the invariant that it breaks."""

from __future__ import annotations

from pkgutil import resolve_name

import pytest

from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.mutants.hunt import MOST, hunt, may_show
from tests.simulation.world import simulate

FOUND_BY_SEEDS = [mutant for mutant in MUTANTS if not mutant.proof]
"""`python -m tests.simulation --mutants` hunts them from the first seed on."""
FOUND_ELSEWHERE = {mutant.name: (mutant, resolve_name(mutant.proof)) for mutant in MUTANTS if mutant.proof}


@pytest.mark.slow
@pytest.mark.parametrize("mutant", FOUND_BY_SEEDS, ids=[mutant.name for mutant in FOUND_BY_SEEDS])
def test_a_planted_bug_is_found(mutant: Mutant) -> None:
    found = hunt(mutant, first=mutant.seed, worlds=200)  # other code may draw other worlds from a seed

    assert found is not None
    assert found < MOST
    assert simulate(found).violation == "", "the same seed holds without the bug"


@pytest.mark.parametrize("name", FOUND_ELSEWHERE)
def test_a_bug_that_no_seed_can_show_is_found_by_the_test_that_it_names(name: str) -> None:
    mutant, proof = FOUND_ELSEWHERE[name]
    proof()

    with mutant.planted(), pytest.raises(AssertionError):
        proof()


def test_a_bug_is_gone_when_it_is_taken_out() -> None:
    for mutant in MUTANTS:
        before = vars(mutant.owner)[mutant.attribute]
        with mutant.planted():
            assert vars(mutant.owner)[mutant.attribute] is not before
        assert vars(mutant.owner)[mutant.attribute] is before


def test_mutants_have_names_of_their_own_and_a_seed_that_can_show_them() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 25
    assert [mutant.name for mutant in FOUND_BY_SEEDS if not may_show(mutant, mutant.seed)] == []
