"""The holders of one capability, of one class: replicas by load, by weight and by confidence. Sans-IO."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from typing import Any, Final

from ether_actors.supervisor.registry.registration import Registration
from ether_actors.supervisor.registry.replicas_by_load import Replicas
from ether_broker.envelope.manifest.manifest import Capability
from ether_broker.sorted_keys import SortedKeys

__all__ = ["FEW", "MOST_PASSED", "Found", "Holders"]

FEW: Final = 32
"""Replicas of which no order is kept."""
_MANY: Final = 256
"""Above this number the order is kept from the start: sorting them takes long."""
_PATIENCE: Final = 4
"""Changes for each member without a choice after which the order is dropped."""
MOST_PASSED: Final = 256
"""Manifests that do not fit which one choice passes over at most."""
_MOST_STALE: Final = 32
"""Stale positions that one choice corrects before it removes all replicas of which nobody takes work."""
_PLACED: Final = 4
"""The cost of correcting one position, in looks."""
_CLEAR_SHIFT: Final = 3
"""Replicas that are examined for those that take work in the time of one look."""
Found = tuple[int, float, float, int, Registration]
"""(load, weight, -confidence, turn, agent): the lowest is the best."""
_Key = tuple[Any, ...]
"""(load, weight, -confidence, turn, replicas) of the best of them; each has another turn."""


class Holders:
    """Replicas that declare a capability, take the same patterns of delegation, and are alike to every access rule.

    Above 32, an order is kept while it is used; it is dropped after many changes without a choice. Where
    agents take no work any more, the order is mended when it is looked at.
    """

    __slots__ = ("_keys", "_order", "_unasked", "_weights", "only", "passed")

    def __init__(self) -> None:
        self._keys: dict[Replicas, _Key | None] = {}
        """{replicas: where they stand}, in the order in which they came; None where nobody takes work, or no order is kept."""
        self._order: SortedKeys[_Key] | None = None
        self._weights: dict[Replicas, tuple[float, float]] = {}
        """{replicas: (weight, -confidence)} of the capability."""
        self.only: Replicas | None = None
        """The replicas, if all are alike."""
        self._unasked = 0
        """Changes since they were last asked for."""
        self.passed = 0
        """Manifests examined in vain; whoever reads it sets it to 0."""

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Replicas]:
        return iter(self._keys)

    def enter(self, replicas: Replicas, capability: Capability) -> None:
        """Enter replicas with what they declare of the capability."""
        self._weights[replicas] = capability.latency_weight, -capability.confidence
        self._keys[replicas] = None
        self.only = replicas if len(self._keys) == 1 else None
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
        self.only = None
        if len(self._keys) == 1:  # as in `Replicas`
            [(self.only, key)] = self._keys.items()
            self._keys = {self.only: key}

    def update(self, replicas: Replicas) -> None:
        """Note that the first of replicas is another, or has more or less to do."""
        self._unasked += 1
        if self._unasked <= _PATIENCE * len(self._keys) or len(self._keys) > _MANY:
            if self._order is not None:
                self._place(replicas)
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
        """Put replicas where they belong."""
        assert self._order is not None
        before, best = self._keys[replicas], replicas.best()
        key = None if best is None else (best[0], *self._weights[replicas], best[1], replicas)
        if key != before:
            if before is not None:
                self._order.remove(before)
            self._keys[replicas] = key
            if key is not None:
                self._order.add(key)

    def _clear(self) -> None:
        """Take all out of the order of which nobody takes work."""
        assert self._order is not None
        self.passed += len(self._keys) >> _CLEAR_SHIFT

        def takes_work(key: _Key) -> bool:
            if key[4]:
                return True
            self._keys[key[4]] = None
            return False

        self._order.retain(takes_work)

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

    def is_asleep(self) -> bool:
        """Whether nobody takes work."""
        if self._order is None:
            self.passed += len(self._keys) >> _CLEAR_SHIFT
            return not any(self._keys)
        first = next(self._order.after(None), None)
        return first is None or (not first[4] and self._first((), None) is None)

    def _first(self, without: Container[Registration], accepts: Callable[[Replicas], bool] | None) -> Found | None:
        self._unasked = 0
        if self._order is None:
            self.passed += len(self._keys)
            self._put_in_order()
        while True:
            found, stale = self._look(without, accepts)
            for replicas in stale:
                self._place(replicas)
                self.passed += _PLACED
            if found is not None or len(stale) < _MOST_STALE:
                return found
            self._clear()

    def _look(
        self, without: Container[Registration], accepts: Callable[[Replicas], bool] | None
    ) -> tuple[Found | None, list[Replicas]]:  # fmt: skip
        """The best, and the replicas with a stale position; after 32 stale ones the best so far."""
        assert self._order is not None
        found: Found | None = None
        stale: list[Replicas] = []
        passed = 0
        for key in self._order.after(None):
            replicas = key[4]
            if (found is not None and key[:4] >= found[:4]) or passed > MOST_PASSED or len(stale) == _MOST_STALE:
                break
            if replicas and accepts is not None and not accepts(replicas):
                passed += 1
                continue
            best = replicas.best(without)
            if (best is None or best[1] != key[3]) and ((now := replicas.best()) is None or now[1] != key[3]):
                stale.append(replicas)
            if best is not None:
                rank = best[0], key[1], key[2], best[1], best[2]
                if found is None or rank < found:
                    found = rank
        self.passed += passed
        return found, stale
