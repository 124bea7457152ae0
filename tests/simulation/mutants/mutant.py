"""A bug that is put in on purpose, and what ought to find it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

from ether_actors.supervisor.delegations.fast_path import FastPath

__all__ = ["Mutant"]


def take(_self: FastPath, _session: Any, _envelope: bytes) -> bool:
    """As `FastPath.take`, by whose name it is pickled: nothing is ordinary."""
    return False


@dataclass(frozen=True)
class Mutant:
    """One of them."""

    name: str
    stands_for: str
    """What was wrong once; or, of those that never were, what they break."""
    invariants: frozenset[str]
    """Of which one has to be found broken."""
    owner: Any
    """A class of the product's, or a module."""
    attribute: str
    make: Callable[[Any], Any]
    """What it is with the bug, from what it is without."""
    needs: frozenset[str] = frozenset()
    """Draws and faults that a world must have to show it."""
    seed: int = 0
    """One that shows it."""
    proof: str = ""
    """The test that finds it, `tests.actors.test_x:test_y`, where no seed can: the simulator does not draw what it takes."""

    @contextlib.contextmanager
    def planted(self) -> Iterator[None]:
        """With the bug, which is in the general path: so that rules on everything."""
        before = vars(self.owner)[self.attribute]
        plain = before.fget if isinstance(before, property) else before
        made = self.make(plain)
        setattr(self.owner, self.attribute, property(made) if isinstance(before, property) else made)
        try:
            with mock.patch.object(FastPath, "take", take):
                yield
        finally:
            setattr(self.owner, self.attribute, before)
