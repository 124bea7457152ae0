"""Each planted bug is found, and by the invariant that it breaks."""

from __future__ import annotations

import pytest

from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.mutants.hunt import hunt, may_show
from tests.simulation.world import simulate

SAMPLE = [mutant for mutant in MUTANTS if mutant.seed][::3]
"""`python -m tests.simulation --mutants` hunts all of them, from the first seed on."""


@pytest.mark.slow
@pytest.mark.parametrize("mutant", SAMPLE, ids=[mutant.name for mutant in SAMPLE])
def test_a_planted_bug_is_found(mutant: Mutant) -> None:
    found = hunt(mutant, first=mutant.seed, worlds=12)  # other code may draw other worlds from a seed

    assert found is not None
    assert simulate(found).violation == "", "the same seed holds without the bug"


def test_a_bug_is_gone_when_it_is_taken_out() -> None:
    for mutant in MUTANTS:
        before = vars(mutant.owner)[mutant.attribute]
        with mutant.planted():
            assert vars(mutant.owner)[mutant.attribute] is not before
        assert vars(mutant.owner)[mutant.attribute] is before


def test_mutants_have_names_of_their_own_and_a_seed_that_can_show_them() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 25
    assert [mutant.name for mutant in MUTANTS if mutant.seed and not may_show(mutant, mutant.seed)] == []
