"""The work of a campaign: what the delegator asks, made of the seed, so that a life more or less changes nothing of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["IDEMPOTENT", "Job", "make_job"]

_TIMEOUTS: Final = (8.0, 20.0)
"""Seconds; longer than a broker takes to come back."""
IDEMPOTENT: Final = "again"
"""Last word of the capabilities that may run twice; the others end in `once`."""


@dataclass(frozen=True, slots=True)
class Job:
    """One delegation to be made."""

    capability: str
    params: dict[str, Any]
    timeout: float
    """Seconds."""
    cancel_after: float | None = None
    """Seconds after which the delegator calls it off, if it still runs."""

    @property
    def idempotent(self) -> bool:
        """Whether it may run twice."""
        return self.capability.endswith(IDEMPOTENT)


def make_job(seed: int, delegator: str, index: int) -> Job:
    """The job of that number; the same each time."""
    dice = random.Random(f"job/{seed}/{delegator}/{index}")  # noqa: S311  work is no secret
    make = dice.choices([kind for kind, _ in _MIX], [weight for _, weight in _MIX])[0]
    job = make(dice)
    return Job(job.capability, {"nonce": f"{delegator}/{index}", **job.params}, job.timeout, job.cancel_after)


def _word(dice: random.Random) -> str:
    return dice.choice((IDEMPOTENT, "once"))


def _quick(dice: random.Random) -> Job:
    return Job(f"torture.quick.{_word(dice)}", {"seconds": dice.uniform(0.0, 0.008)}, dice.uniform(*_TIMEOUTS))


def _slow(dice: random.Random) -> Job:
    return Job(f"torture.slow.{_word(dice)}", {"seconds": dice.uniform(0.05, 1.5)}, dice.uniform(*_TIMEOUTS))


def _with_progress(dice: random.Random) -> Job:
    params = {"seconds": dice.uniform(0.02, 0.4), "steps": dice.randint(1, 6)}
    return Job(f"torture.slow.{_word(dice)}", params, dice.uniform(*_TIMEOUTS))


def _tree(dice: random.Random) -> Job:
    """Work that is passed on in parts, which may be passed on in turn."""
    depth = dice.choice((1, 1, 1, 2))
    params = {"seconds": dice.uniform(0.0, 0.05), "parts": dice.randint(1, 3), "depth": depth}
    return Job(f"torture.tree.{_word(dice)}", params, dice.uniform(*_TIMEOUTS))


def _overdue(dice: random.Random) -> Job:
    timeout = dice.uniform(0.1, 1.0)
    return Job(f"torture.slow.{_word(dice)}", {"seconds": timeout + dice.uniform(0.5, 2.0)}, timeout)


def _called_off(dice: random.Random) -> Job:
    params = {"seconds": dice.uniform(0.3, 1.5)}
    return Job(f"torture.slow.{_word(dice)}", params, dice.uniform(*_TIMEOUTS), dice.uniform(0.0, 0.3))


def _failing(dice: random.Random) -> Job:
    return Job(f"torture.quick.{_word(dice)}", {"seconds": 0.0, "fails": True}, dice.uniform(*_TIMEOUTS))


_MIX: Final[tuple[tuple[Callable[[random.Random], Job], int], ...]] = (
    (_quick, 70), (_slow, 12), (_with_progress, 4), (_tree, 6), (_overdue, 3), (_called_off, 3), (_failing, 2),
)  # fmt: skip
"""Each kind of work, and its share in a hundred."""
