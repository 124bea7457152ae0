"""What is left of a budget while several sub-delegations use it at once (G4)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from ether_broker.delegation import Budget

__all__ = ["BudgetAccount"]

_FIELDS: Final = ("max_cost", "max_tokens", "max_iterations")


class BudgetAccount:
    """A task's budget. What is given to a sub-delegation is set aside until it has ended.

    Args:
        limits: None is no limit at all.
        elapsed: gives the seconds since the task began, for `max_time_sec`.
    """

    def __init__(self, limits: Budget | None, elapsed: Callable[[], float]) -> None:
        self._limits = limits
        self._elapsed = elapsed
        self._lock = threading.Lock()
        self._spent: dict[str, float] = dict.fromkeys(_FIELDS, 0)
        self._reserved: dict[str, float] = dict.fromkeys(_FIELDS, 0)

    @property
    def limits(self) -> Budget | None:
        """The budget as it was given; None is no limit."""
        return self._limits

    @property
    def spent(self) -> Budget:
        """What has been used, that of ended sub-delegations included."""
        with self._lock:
            return self._budget({name: self._spent[name] for name in _FIELDS}, self._elapsed())

    @property
    def remaining(self) -> Budget | None:
        """What may still be used, what is set aside subtracted; None is no limit."""
        with self._lock:
            return self._remaining()

    def spend(self, *, cost: float = 0.0, tokens: int = 0, iterations: int = 0) -> bool:
        """Note a use.

        Returns:
            Whether the budget still holds; a handler that gets False should end PARTIAL.

        Raises:
            ValueError: a use is negative.
        """
        if min(cost, tokens, iterations) < 0:
            msg = f"A use is not negative: cost={cost}, tokens={tokens}, iterations={iterations}."
            raise ValueError(msg)
        with self._lock:
            for name, use in zip(_FIELDS, (cost, tokens, iterations), strict=True):
                self._spent[name] += use
            return all(left >= 0 for left in self._left().values())

    def reserve(self, wanted: Budget | None) -> Budget | None:
        """Set aside what a sub-delegation may use: what it wants, and never more than is left."""
        with self._lock:
            left = self._remaining()
            if left is None:
                return wanted
            names = (*_FIELDS, "max_time_sec")
            least = {name: _least(getattr(left, name), getattr(wanted, name, None)) for name in names}
            given = Budget.model_validate(least)
            for name in _FIELDS:
                self._reserved[name] += getattr(given, name) or 0
            return given

    def settle(self, given: Budget | None, *, cost: float = 0.0, tokens: int = 0, iterations: int = 0) -> None:
        """End a sub-delegation: free what was set aside, and note what it used."""
        with self._lock:
            for name, use in zip(_FIELDS, (cost, tokens, iterations), strict=True):
                if given is not None and self._limits is not None:
                    self._reserved[name] -= getattr(given, name) or 0
                self._spent[name] += use

    def _left(self) -> dict[str, float]:
        limits = self._limits
        return {
            name: getattr(limits, name) - self._spent[name] - self._reserved[name]
            for name in _FIELDS
            if limits is not None and getattr(limits, name) is not None
        }

    def _remaining(self) -> Budget | None:
        if self._limits is None:
            return None
        time_limit = self._limits.max_time_sec
        left = {name: max(0, value) for name, value in self._left().items()}
        return self._budget(left, None if time_limit is None else max(0.0, time_limit - self._elapsed()))

    @staticmethod
    def _budget(values: dict[str, float], seconds: float | None) -> Budget:
        return Budget(
            max_cost=values.get("max_cost"),
            max_tokens=_whole(values.get("max_tokens")),
            max_iterations=_whole(values.get("max_iterations")),
            max_time_sec=seconds,
        )


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _least(left: float | None, wanted: float | None) -> float | None:
    if left is None or wanted is None:
        return wanted if left is None else left
    return min(left, wanted)
