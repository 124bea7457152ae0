"""Who may do one thing, of one class: replicas by what the first of them has to do, by weight and by confidence. Sans-IO."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator
from typing import Any, Final

from ether_actors.registration import Registration
from ether_actors.replicas import Replicas
from ether_broker.manifest import Capability
from ether_broker.sorted_keys import SortedKeys

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
_Key = tuple[Any, ...]
"""(load, weight, -confidence, turn, replicas) of the best of them; infinity first if there is none."""


class Holders:
    """Replicas that declare a capability, take the same patterns of delegation, and are alike to every access rule.

    Of more than 32 an order is kept while they are asked for: not of those for which much changes and nobody asks.
    """

    __slots__ = ("_keys", "_order", "_unasked", "_weights", "passed")

    def __init__(self) -> None:
        self._keys: dict[Replicas, _Key | None] = {}
        """{replicas: where they stand}, in the order in which they came; None while no order is kept."""
        self._order: SortedKeys[_Key] | None = None
        self._weights: dict[Replicas, tuple[float, float]] = {}
        """{replicas: (weight, -confidence)} of the capability."""
        self._unasked = 0
        """Changes since they were last asked for."""
        self.passed = 0
        """Manifests that did not fit at which choices looked; whoever counts them sets it back."""

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Replicas]:
        return iter(self._keys)

    def enter(self, replicas: Replicas, capability: Capability) -> None:
        """Enter replicas with what they declare of the capability."""
        self._weights[replicas] = capability.latency_weight, -capability.confidence
        self._keys[replicas] = None
        if self._order is not None:
            self._place(replicas)
            replicas.watch(self)
        elif len(self._keys) > _MANY:
            self._put_in_order()

    def discard(self, replicas: Replicas) -> None:
        """Take replicas out."""
        key = self._keys.pop(replicas)
        if self._order is not None and key is not None:
            self._order.remove(key)
        replicas.unwatch(self)
        del self._weights[replicas]

    def update(self, replicas: Replicas) -> None:
        """Note that the first of replicas is another, or has more or less to do."""
        self._unasked += 1
        if self._unasked <= _PATIENCE * len(self._keys) or len(self._keys) > _MANY:
            self._move(replicas)
            return
        self._order = None
        for one in self._keys:
            self._keys[one] = None
            one.unwatch(self)

    def _put_in_order(self) -> None:
        self._order = SortedKeys()
        for one in self._keys:
            self._place(one)
            one.watch(self)

    def _place(self, replicas: Replicas) -> None:
        assert self._order is not None
        key = self._keys[replicas] = self._rank(replicas)
        self._order.add(key)

    def _move(self, replicas: Replicas) -> None:
        key = self._keys[replicas]
        if self._order is not None and key is not None and key != self._rank(replicas):
            self._order.remove(key)
            self._place(replicas)

    def _rank(self, replicas: Replicas) -> _Key:
        best = replicas.best()
        if best is None:
            return math.inf, 0.0, 0.0, id(replicas), replicas
        return best[0], *self._weights[replicas], best[1], replicas

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
            self._put_in_order()
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
            self._move(replicas)
        self.passed += passed + len(empty)
        return found
