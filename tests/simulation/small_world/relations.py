"""Which small worlds there are: relations of parents, with every choice of faults."""

from __future__ import annotations

import itertools
from typing import Final

from tests.simulation.small_world.world import FAULTS, UNKNOWN, Relation

__all__ = ["TELLING", "relations"]

_CAPABILITIES: Final = ("once", "twice", "twice")
TELLING: Final = {
    2: ((0, 0), (0, 1), (1, 1), (0, 2), (2, 1), (UNKNOWN, 1)),
    3: (
        (0, 0, 0), (0, 1, 0), (0, 1, 1), (0, 1, 2), (1, 1, 2), (0, 2, 2), (0, 3, 2), (3, 1, 2),
        (UNKNOWN, 1, 2), (0, UNKNOWN, 1),
    ),
}  # fmt: skip
"""Of each kind one: roots, a child, a fork, a chain, one's own id, a pair, a circle, and nobody's."""


def relations(delegations: int, faults: int, among: tuple[str, ...] = FAULTS, *, every: bool = False) -> list[Relation]:
    """The worlds with so many delegations in which exactly so many kinds of faults may meet.

    Args:
        delegations: two or three.
        faults: how many kinds may meet.
        among: the kinds.
        every: whether each delegation has any parent there is: none, any of them, itself, or one that nobody knows; else
            those of `TELLING`.
    """
    found = TELLING[delegations]
    if every:
        found = tuple(itertools.product((0, *range(1, delegations + 1), UNKNOWN), repeat=delegations))
    return [
        Relation(parents, _CAPABILITIES[:delegations], _routes(parents), faults=chosen, most=faults)
        for parents in found
        for chosen in itertools.combinations(among, faults)
    ]


def _routes(parents: tuple[int, ...]) -> tuple[int, ...]:
    """Who asks whom: the third goes the second's way where both are made for the first."""
    third = 2 if parents[1:] == (1, 1) else 3
    return (1, 2, third)[: len(parents)]
