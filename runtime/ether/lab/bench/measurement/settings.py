"""How a benchmark is run."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from ether_broker.errors import UsageError

__all__ = ["QUICK_KILLS", "QUICK_ROUNDS", "QUICK_ROWS", "QUICK_SECONDS", "Settings"]

QUICK_ROUNDS = 3
QUICK_SECONDS = 0.25
QUICK_ROWS = 50_000
QUICK_KILLS = 3
_TRANSPORTS = ("tcp", "ipc")


def _silent(_line: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Settings:
    """How a benchmark is run.

    Raises:
        UsageError: a value that cannot be; the message names it.
    """

    rounds: int = 5
    """Times that every contender has its turn; their order is reversed every other round."""
    seconds: float = 1.0
    """Of one turn."""
    window: int = 256
    """Requests that are open at a time in the pipelined cases."""
    pin: int | None = None
    """The core that everything is kept on; None leaves the pipelined cases free, and keeps the serial ones on the first."""
    transport: str = "tcp"
    """`tcp` on the loopback, or `ipc`; NATS speaks tcp whatever this says."""
    agents: int = 10_000
    """Idle agents whose cost is taken."""
    crowd: int = 100_000
    """Agents of the bus that is compared with one of a thousand."""
    registered: int = 1_000
    """Agents that work is spread over."""
    rows: int = 1_000_000
    """Envelopes in the journal whose recovery is timed."""
    kills: int = 20
    """Processes of each kind that are killed."""
    without: frozenset[str] = frozenset()
    """Systems that are left out, with every ratio to them."""
    tell: Callable[[str], None] = field(default=_silent)
    """Called with a line when a case begins."""

    def __post_init__(self) -> None:
        for name in ("rounds", "seconds", "window", "agents", "crowd", "registered", "rows", "kills"):
            if getattr(self, name) <= 0:
                msg = f"{name}={getattr(self, name)!r}: it has to be above 0."
                raise UsageError(msg)
        if self.transport not in _TRANSPORTS:
            msg = f"transport={self.transport!r}: choose tcp or ipc."
            raise UsageError(msg)
        if self.pin is not None and self.pin not in os.sched_getaffinity(0):
            cores = ", ".join(map(str, sorted(os.sched_getaffinity(0))))
            msg = f"pin={self.pin}: this process may run on the cores {cores}."
            raise UsageError(msg)

    @property
    def core(self) -> int:
        """The one core of the serial cases."""
        return min(os.sched_getaffinity(0)) if self.pin is None else self.pin
