"""How a benchmark is run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from ether.lab.settings import CommonSettings, setting
from ether_broker.errors import UsageError

__all__ = ["QUICK", "BenchSettings"]

QUICK: Final = {"rounds": 3, "seconds": 0.25, "rows": 50_000, "kills": 3}
"""Of a look that is no measurement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchSettings(CommonSettings):
    """How a benchmark is run; `seconds` are those of one turn. NATS speaks tcp whatever the transport.

    Raises:
        UsageError: a value that cannot be; the message names it.
    """

    transport: str = setting("tcp", choices=("tcp", "ipc"))
    rounds: int = setting(5, above=0)
    """Times that every contender has its turn; their order is reversed every other round."""
    window: int = setting(256, above=0)
    """Requests that are open at a time in the pipelined cases."""
    pin: int | None = None
    """The core that everything is kept on; None leaves the pipelined cases free, and keeps the serial ones on the first."""
    agents: int = setting(10_000, above=0)
    """Idle agents whose cost is taken."""
    crowd: int = setting(100_000, above=0)
    """Agents of the bus that is compared with one of a thousand."""
    registered: int = setting(1_000, above=0)
    """Agents that work is spread over."""
    rows: int = setting(1_000_000, above=0)
    """Envelopes in the journal whose recovery is timed."""
    kills: int = setting(20, above=0)
    """Processes of each kind that are killed."""
    without: frozenset[str] = frozenset()
    """Systems that are left out, with every ratio to them."""

    def __post_init__(self) -> None:
        CommonSettings.__post_init__(self)
        if self.pin is not None and self.pin not in os.sched_getaffinity(0):
            cores = ", ".join(map(str, sorted(os.sched_getaffinity(0))))
            raise UsageError(f"pin={self.pin}: this process may run on the cores {cores}.")

    @property
    def core(self) -> int:
        """The one core of the serial cases."""
        return min(os.sched_getaffinity(0)) if self.pin is None else self.pin
