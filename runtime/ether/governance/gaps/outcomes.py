"""An outcome as gap scoring reads it."""

from __future__ import annotations

from typing import NamedTuple

from ether_broker.envelope.status import Status

__all__ = ["Outcome"]


class Outcome(NamedTuple):
    """The outcome of one delegation, as far as gap scoring reads it.

    Example:
        outcome = Outcome(day=20_000, capability="text.translate", delegator="editor", status=Status.COMPLETED, pace=0.4)
        assert outcome.is_held
    """

    day: int
    """Days since 1970-01-01, UTC, on which it ended."""
    capability: str
    delegator: str
    status: Status
    is_held: bool = True
    """Whether any agent had the capability; False only for a REJECTED_CAPABILITY."""
    is_own: bool = False
    """Whether the bus has refused or ended it for a reason of its own, which tells nothing of the capability."""
    pace: float | None = None
    """Seconds in the handler by the agent's declared `latency_weight`; None where there is no time to tell."""
