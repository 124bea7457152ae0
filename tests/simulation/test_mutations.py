"""Each planted bug is found, and by the invariant that it breaks."""

from __future__ import annotations

import pytest

from tests.simulation.mutations import MUTATIONS, Mutation
from tests.simulation.world import simulate

MOST = 40
"""Seeds in which it has to be found; the slowest took 8 when this was written."""


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS, ids=[mutation.name for mutation in MUTATIONS])
def test_a_planted_bug_is_found(mutation: Mutation) -> None:
    with mutation.planted():
        found = next((seed for seed in range(MOST) if simulate(seed).invariant in mutation.invariants), None)

    assert found is not None
    assert simulate(found).violation == "", "the same seed holds without the bug"


def test_a_bug_is_gone_when_it_is_taken_out() -> None:
    for mutation in MUTATIONS:
        before = getattr(mutation.owner, mutation.method)
        with mutation.planted():
            assert getattr(mutation.owner, mutation.method) is not before
        assert getattr(mutation.owner, mutation.method) is before
