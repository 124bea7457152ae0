"""The work of a campaign: what the delegator asks, made of the seed, so that a life more or less changes nothing of it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["IDEMPOTENT", "Job", "make_job"]

_SHARES: Final = {
    "quick": 70, "slow": 12, "slow, with progress": 4, "tree": 6, "slow, overdue": 3, "slow, cancelled": 3,
    "quick, failing": 2,
}  # fmt: skip
"""{kind of work: its share in a hundred}."""
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
    """Seconds after which the delegator cancels it, if it still runs."""


def make_job(seed: int, delegator: str, index: int) -> Job:
    """The job of that number; the same each time."""
    dice = random.Random(f"job/{seed}/{delegator}/{index}")  # noqa: S311  work is no secret
    kind = dice.choices(list(_SHARES), list(_SHARES.values()))[0]
    timeout, cancel_after = dice.uniform(*_TIMEOUTS), None
    params: dict[str, Any] = {"nonce": f"{delegator}/{index}"}
    match kind:
        case "quick":
            params |= {"seconds": dice.uniform(0.0, 0.008)}
        case "slow":
            params |= {"seconds": dice.uniform(0.05, 1.5)}
        case "slow, with progress":
            params |= {"seconds": dice.uniform(0.02, 0.4), "steps": dice.randint(1, 6)}
        case "slow, overdue":
            timeout = dice.uniform(0.1, 1.0)
            params |= {"seconds": timeout + dice.uniform(0.5, 2.0)}
        case "slow, cancelled":
            params |= {"seconds": dice.uniform(0.3, 1.5)}
            cancel_after = dice.uniform(0.0, 0.3)
        case "quick, failing":
            params |= {"seconds": 0.0, "fails": True}
        case "tree":  # work that is passed on in parts, which may be passed on in turn
            depth = dice.choice((1, 1, 1, 2))
            params |= {"seconds": dice.uniform(0.0, 0.05), "parts": dice.randint(1, 3), "depth": depth}
    word = dice.choice((IDEMPOTENT, "once"))
    return Job(f"torture.{kind.partition(',')[0]}.{word}", params, timeout, cancel_after)
