"""Looks for the first seed that shows a mutant."""

from __future__ import annotations

from typing import Final

from tests.simulation.mutants.mutant import Mutant
from tests.simulation.world import World, simulate

__all__ = ["MOST", "hunt", "may_show"]

MOST: Final = 2_000
"""Seeds in which a mutant has to be found."""


def may_show(mutant: Mutant, seed: int) -> bool:
    """Whether a seed's world has what the mutant needs."""
    scenario = World(seed).scenario
    attacks = {attack for attacks in scenario.hostiles for attack in attacks}
    return mutant.needs <= {*scenario.draws, *scenario.faults, *scenario.behaviours, *attacks}


def hunt(mutant: Mutant, *, first: int = 0, worlds: int = MOST) -> int | None:
    """The first seed that finds a mutant, by the invariant that it breaks; None if none does.

    Args:
        mutant: which.
        first: the seed to begin with.
        worlds: how many that may show it are looked at, at most.
    """
    for seed in range(first, first + MOST):
        if may_show(mutant, seed):
            worlds -= 1
            if worlds < 0:
                return None
            with mutant.planted():
                found = simulate(seed).invariant
            if found in mutant.invariants:
                return seed
    return None
