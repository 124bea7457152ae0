"""Who may do one thing, of one class: replicas by what the first of them has to do, by weight and by confidence. Sans-IO."""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from typing import Any, Final

from ether_actors.ranking import Ranking
from ether_actors.registration import Registration
from ether_actors.replicas import Replicas
from ether_broker.manifest import Capability

__all__ = ["FEW", "MOST_PASSED", "Found", "Holders"]

FEW: Final = 32
"""Replicas of which no order is kept."""
_MANY: Final = 256
"""More than these are in order from the first: putting them in order takes long."""
_PATIENCE: Final = 4
"""Changes for each of them after which no order is kept any more if nobody asks."""
MOST_PASSED: Final = 256
"""Manifests that do not fit which one choice passes over at most."""
Found = tuple[int, float, float, int, Registration]
"""(load, weight, -confidence, turn, agent): the lowest is the best."""


class Holders(Ranking[Replicas]):
    """Replicas that declare a capability, take the same patterns of delegation, and are alike to every access rule.

    Of more than 32 an order is kept while they are asked for: not of those for which much changes and nobody asks.
    """

    __slots__ = ("_unasked", "_weights", "passed")

    def __init__(self) -> None:
        super().__init__(_MANY)
        self._weights: dict[Replicas, tuple[float, float]] = {}
        """{replicas: (weight, -confidence)} of the capability."""
        self._unasked = 0
        """Changes since they were last asked for."""
        self.passed = 0
        """Manifests that did not fit at which choices looked; whoever counts them sets it back."""

    def _rank(self, member: Replicas) -> tuple[Any, ...]:
        best = member.best()
        if best is None:
            return math.inf, 0.0, 0.0, id(member), member
        return best[0], *self._weights[member], best[1], member

    def enter(self, replicas: Replicas, capability: Capability) -> None:
        """Enter replicas with what they declare of the capability."""
        self._weights[replicas] = capability.latency_weight, -capability.confidence
        self.add(replicas)
        if self._order is not None:
            replicas.watch(self)

    def discard(self, member: Replicas) -> None:
        """Take replicas out."""
        super().discard(member)
        member.unwatch(self)
        del self._weights[member]

    def update(self, member: Replicas) -> None:
        """Note that the first of replicas is another, or has more or less to do."""
        self._unasked += 1
        if self._unasked <= _PATIENCE * len(self) or len(self) > _MANY:
            super().update(member)
            return
        self._order = None
        for one in self._keys:
            self._keys[one] = None
            one.unwatch(self)

    def order(self) -> None:
        """Keep an order from now on."""
        super().order()
        for one in self._keys:
            one.watch(self)

    def best(
        self, without: Container[Registration] = (), accepts: Callable[[Replicas], bool] | None = None
    ) -> Found | None:  # fmt: skip
        """The best of them: with the least to do, then the lightest, then the most confident, then whose turn it is.

        Those in `without`, and all of a manifest that `accepts` says no of, are passed over: `MOST_PASSED` such manifests at
        most where there are more than 32, and who comes after them is not found.
        """
        if self._order is not None or len(self._keys) > FEW:
            return self._first(without, accepts)
        found: Found | None = None
        for replicas in self._keys:
            if accepts is not None and not accepts(replicas):
                self.passed += 1
                continue
            best = replicas.best(without)
            if best is not None:
                weight, doubt = self._weights[replicas]
                rank = best[0], weight, doubt, best[1], best[2]
                if found is None or rank < found:
                    found = rank
        return found

    def _first(self, without: Container[Registration], accepts: Callable[[Replicas], bool] | None) -> Found | None:
        self._unasked = 0
        if self._order is None:
            self.order()
        assert self._order is not None
        found: Found | None = None
        passed = 0
        empty: list[Replicas] = []
        for key in self._order.after(None):
            if key[0] == math.inf or (found is not None and key[:4] >= found[:4]):
                break
            _, weight, doubt, _, replicas = key
            if not replicas:
                empty.append(replicas)
                continue
            if accepts is not None and not accepts(replicas):
                passed += 1
                if passed > MOST_PASSED:
                    break
                continue
            best = replicas.best(without)
            if best is not None:
                rank = best[0], weight, doubt, best[1], best[2]
                if found is None or rank < found:
                    found = rank
        for replicas in empty:
            super().update(replicas)
        self.passed += passed + len(empty)
        return found
