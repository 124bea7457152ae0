"""The account of a budget that several sub-delegations use at once (G4)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ether_actors.task.amount import is_amount
from ether_broker.envelope.delegation import Budget
from ether_broker.errors import BudgetExceeded, UsageError

if TYPE_CHECKING:
    from ether_actors.delegator.handle import Handle
    from ether_broker.envelope.response import Response

__all__ = ["BudgetAccount"]

_FIELDS: Final = ("max_cost", "max_tokens", "max_iterations")
_TOLD: Final = ("cost", "tokens_used", "iterations")
"""What a response's metadata, or else its metrics, tell of each."""
_LEAST: Final = {"max_cost": 0.0, "max_tokens": 1, "max_iterations": 1}
"""Of a part; none is too small to be one."""
_ROUNDING: Final = 1e-9
"""The part of a limit by which sums of floats may be off."""


class BudgetAccount:
    """The account of a task's budget: what was used, and what is set aside for sub-delegations that run.

    `task.budget` gives it to a handler.

    Example:
        class Reader(Agent):
            @capability("read")
            def read(self, text: str, task: Task):
                is_within = task.budget.spend(tokens=len(text))
                return task.respond(Status.COMPLETED if is_within else Status.PARTIAL, task.budget.remaining.max_tokens)

        bus.start(Reader)
        assert bus.delegate("read", {"text": "abc"}, budget=Budget(max_tokens=5)).result().data == 2

    Args:
        limits: None is no limit at all.
        elapsed: gives the seconds since the task began, for `max_time_sec`.
    """

    def __init__(self, limits: Budget | None, elapsed: Callable[[], float]) -> None:
        self._limits = limits
        self._elapsed = elapsed
        self._lock = threading.Lock()
        self._own: dict[str, float] = dict.fromkeys(_FIELDS, 0)
        self._others: dict[str, float] = dict.fromkeys(_FIELDS, 0)
        """What ended sub-delegations used."""
        self._reserved: dict[str, float] = dict.fromkeys(_FIELDS, 0)
        self._running: dict[Handle, Budget | None] = {}
        """{sub-delegation whose use is not counted yet: what was set aside for it}."""
        self._ended: deque[Handle] = deque()
        """Those of them that have their outcome."""
        self._refused: list[str] = []
        """Why sub-delegations were not made, since the last that was."""
        self._left_out: list[str] = []
        """Why others will not be made any more."""
        self._uncounted: dict[str, str] = {}
        """By limit, what was told of a use that is no amount."""

    @property
    def limits(self) -> Budget | None:
        """The budget as it was given; None is no limit."""
        return self._limits

    @property
    def spent(self) -> Budget:
        """What has been used, that of ended sub-delegations included."""
        with self._lock:
            return self._budget(self._spent(), self._elapsed())

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
            UsageError: a use is negative, no int or float, or above 2 ** 53; nothing of it is noted.
        """
        if not all(map(is_amount, (cost, tokens, iterations))):
            said = f"spend(cost={cost!r:.40}, tokens={tokens!r:.40}, iterations={iterations!r:.40})"
            raise UsageError(f"{said}: each use is a number, 0 or more: an int, or a float as of float(price).")
        with self._lock:
            for name, use in zip(_FIELDS, (cost, tokens, iterations), strict=True):
                self._own[name] += use
            return all(left >= -_ROUNDING * getattr(self._limits, name) for name, left in self._left().items())

    def reserve(self, wanted: Budget | None) -> Budget | None:
        """Set aside what a sub-delegation may use: what it wants, or all that is left, and never more than that.

        Args:
            wanted: None is all.

        Raises:
            BudgetExceeded: a limit is used up; or, and then it is `retryable`, all that is left of it is set aside for others
                that run. It is for the caller to wait, or to `note` it.
        """
        with self._lock:
            left = self._remaining()
            if left is None:
                return wanted
            self._refuse_without_any()
            names = (*_FIELDS, "max_time_sec")
            least = {name: _least(getattr(left, name), getattr(wanted, name, None)) for name in names}
            given = Budget.model_validate(least)
            for name in _FIELDS:
                self._reserved[name] += getattr(given, name) or 0
            self._refused.clear()
            return given

    def part(self, count: int) -> Budget | None:
        """What each of several sub-delegations may use that run at a time: an equal part of what is left, and all the time.

        Call it once, before the first delegation: its reservation would reduce the next part. None is no limit, so that
        `part = task.budget.part(4)` and then `task.delegate(…, budget=part)` is right with a budget and without.

        Raises:
            UsageError: `count` is negative, or no number; of 0, as of an empty list, the part is that of 1.
        """
        if not is_amount(count):
            raise UsageError(f"part({count!r:.40}): the number of sub-delegations is a number, 0 or more.")
        with self._lock:
            left = self._remaining()
            if left is None:
                return None
            lefts = {name: value for name in _FIELDS if (value := getattr(left, name)) is not None}
            parts = {name: max(value / max(1, count), min(value, _LEAST[name])) for name, value in lefts.items()}
            return self._budget(parts, left.max_time_sec)

    def _refuse_without_any(self) -> None:
        used = {**self._spent(), "max_time_sec": self._elapsed()}
        for name, use in used.items():
            limit = getattr(self._limits, name)
            if limit is None:
                continue
            least, kept = limit * _ROUNDING, self._reserved.get(name, 0)
            if use > 0 and limit - use <= least:
                raise BudgetExceeded(f"{name} {limit:g} is used up ({use:g}): nothing more is delegated.")
            if kept > 0 and limit - use - kept <= least:
                refusal = BudgetExceeded(
                    f"{name} {limit:g}: what is left of it is set aside for {self._holders()}. Wait for that, or give each of "
                    "several its part: part = task.budget.part(4) once, before the first, and then budget=part for each."
                )
                refusal.retryable = True
                raise refusal

    def _holders(self) -> str:
        """Those for which something is set aside, for people."""
        handles = list(self._running)
        first = f"{handles[0].capability} ({handles[0].request_id})" if handles else "another sub-delegation"
        others = f" and {len(handles) - 1} more, which run" if handles[1:] else ", which runs"
        return first + others

    def note(self, refusal: BudgetExceeded, *, for_good: bool = False) -> None:
        """Note that a sub-delegation is not made: the task's outcome says why, unless another is made later.

        Args:
            refusal: what `reserve` raised.
            for_good: whether the outcome says it also then.
        """
        with self._lock:
            (self._left_out if for_good else self._refused).append(str(refusal))

    def follow(self, handle: Handle, given: Budget | None) -> None:
        """Settle what was set aside for a sub-delegation when it has ended, with the use that it tells."""
        with self._lock:
            self._running[handle] = given
            handle.put_when_done(self._ended)

    def charge(self, given: Budget | None, *, cost: float = 0.0, tokens: int = 0, iterations: int = 0) -> None:
        """End a sub-delegation: free what was set aside, and note what it used."""
        with self._lock:
            self._charge(given, (cost, tokens, iterations))

    def close(self, response: Response) -> tuple[dict[str, float], tuple[str, ...]]:
        """Work out what the task used in all: what its outcome tells, or it spent, and that of its sub-delegations.

        Returns:
            The outcome's `cost`, `tokens_used` and `iterations` as far as there were any, and a sentence for each limit that
            did not hold, or of which nobody can say whether it held.
        """
        with self._lock:
            for name, told in zip(_FIELDS, self._told(response), strict=True):
                self._own[name] = max(self._own[name], told)
            used = self._spent()
            totals = dict(zip(_TOLD, used.values(), strict=True))
            excess = [
                f"{name} {limit:g} did not hold: {use:g} was used."
                for name, use in {**used, "max_time_sec": self._elapsed()}.items()
                if (limit := getattr(self._limits, name, None)) is not None and use > limit * (1 + _ROUNDING)
            ]
            excess += [
                f"{name} {limit:g}: {told}, which is no amount and was not counted."
                for name, told in self._uncounted.items()
                if (limit := getattr(self._limits, name, None)) is not None
            ]
            return {name: total for name, total in totals.items() if total > 0}, tuple(
                dict.fromkeys((*self._left_out, *self._refused, *excess))
            )

    # -- under the lock --------------------------------------------------------------------------------------------

    def _told(self, response: Response) -> tuple[float, ...]:
        """What a response tells of its use; what is no amount is noted and counts as none."""
        uses = []
        for name, key in zip(_FIELDS, _TOLD, strict=True):
            use = response.metadata.get(key, response.metrics.get(key))
            if type(use) not in {int, float} or not is_amount(use):
                if use is not None:
                    self._uncounted[name] = f"{response.from_agent} told {key} {use!r:.40}"
                use = 0
            uses.append(use)
        return tuple(uses)

    def _charge(self, given: Budget | None, uses: tuple[float, ...]) -> None:
        for name, use in zip(_FIELDS, uses, strict=True):
            if given is not None and self._limits is not None:
                self._reserved[name] -= getattr(given, name) or 0
            self._others[name] += use

    def _spent(self) -> dict[str, float]:
        if self._running:
            for handle in next(iter(self._running)).take_ended(self._ended):
                self._charge(self._running.pop(handle), self._told(handle.outcome()))
        return {name: self._own[name] + self._others[name] for name in _FIELDS}

    def _left(self) -> dict[str, float]:
        limits, spent = self._limits, self._spent()
        return {
            name: getattr(limits, name) - spent[name] - self._reserved[name]
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
