"""Who may do one thing, of one class: replicas by what the first of them has to do, by weight and by confidence. Sans-IO."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, Final

from ether_actors.ranking import FEW, Ranking
from ether_actors.registration import Registration
from ether_actors.replicas import Replicas
from ether_broker.manifest import Capability

__all__ = ["MOST_PASSED", "Found", "Holders"]

MOST_PASSED: Final = 256
"""Manifests that do not fit which one choice passes over at most."""
Found = tuple[int, float, float, int, Registration]
"""(load, weight, -confidence, turn, agent): the lowest is the best."""


class Holders(Ranking[Replicas]):
    """Replicas that declare a capability, take the same patterns of delegation, and are alike to every access rule."""

    __slots__ = ("_weights", "passed")

    def __init__(self) -> None:
        super().__init__()
        self._weights: dict[Replicas, tuple[float, float]] = {}
        """{replicas: (weight, -confidence)} of the capability."""
        self.passed = 0
        """Of how many the last choice looked, beside the one that it found."""

    def _rank(self, member: Replicas) -> tuple[Any, ...]:
        best = member.best()
        assert best is not None, "the last of them is taken out first"
        return best[0], *self._weights[member], best[1], member

    def enter(self, replicas: Replicas, capability: Capability) -> None:
        """Enter replicas with what they declare of the capability."""
        self._weights[replicas] = capability.latency_weight, -capability.confidence
        self.add(replicas)
        if len(self) == FEW + 1:
            for one in self:
                one.watch(self)
        elif self._order is not None:
            replicas.watch(self)

    def discard(self, member: Replicas) -> None:
        """Take replicas out."""
        super().discard(member)
        member.watchers.pop(self, None)
        del self._weights[member]

    def best(
        self, without: Container[Registration] = (), accepts: Callable[[Replicas], bool] | None = None
    ) -> Found | None:  # fmt: skip
        """The best of them: with the least to do, then the lightest, then the most confident, then whose turn it is.

        Those in `without`, and all of a manifest that `accepts` says no of, are passed over: `MOST_PASSED` such manifests at
        most where there are more than 16, and who comes after them is not found.
        """
        if self._order is not None:
            return self._first(without, accepts)
        found: Found | None = None
        for replicas in self._keys:
            if accepts is None or accepts(replicas):
                best = replicas.best(without)
                if best is not None:
                    weight, doubt = self._weights[replicas]
                    rank = best[0], weight, doubt, best[1], best[2]
                    if found is None or rank < found:
                        found = rank
        return found

    def _first(self, without: Container[Registration], accepts: Callable[[Replicas], bool] | None) -> Found | None:
        found: Found | None = None
        self.passed = 0
        for key in self.ascending():
            if found is not None and key[:4] >= found[:4]:
                break
            _, weight, doubt, _, replicas = key
            if accepts is not None and not accepts(replicas):
                if self.passed == MOST_PASSED:
                    break
                self.passed += 1
                continue
            best = replicas.best(without)
            if best is not None:
                rank = best[0], weight, doubt, best[1], best[2]
                if found is None or rank < found:
                    found = rank
        return found
