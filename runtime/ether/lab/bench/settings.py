"""The settings of a benchmark."""

from __future__ import annotations

import os
from typing import Final

from pydantic import Field, PositiveInt, field_validator

from ether.lab.settings import RunSettings, Transport

__all__ = ["QUICK", "BenchSettings"]

QUICK: Final = {"rounds": 3, "seconds": 0.25, "rows": 50_000, "kills": 3, "artifact": 64 << 20, "mapped": 10_000}
"""Of a look that is no measurement."""


class BenchSettings(RunSettings):
    """The settings of a benchmark.

    NATS speaks tcp whatever the transport.

    Raises:
        UsageError: a value that cannot be; the message names it.
    """

    seconds: float = Field(1.0, gt=0)
    """Seconds of each turn."""
    transport: Transport = "tcp"
    """tcp on the loopback, or ipc."""
    rounds: PositiveInt = 5
    """Times that every contender has its turn; their order is reversed every other round."""
    window: PositiveInt = 256
    """Requests that are open at a time in the pipelined cases."""
    pin: int | None = None
    """The core that everything is kept on; without one the pipelined cases are free, and the serial ones on the first."""
    agents: PositiveInt = 100_000
    """Idle agents whose cost is taken."""
    crowd: PositiveInt = 100_000
    """Agents of the bus that is compared with one of a thousand."""
    registered: PositiveInt = 1_000
    """Agents that work is spread over."""
    rows: PositiveInt = 1_000_000
    """Envelopes in the journal whose recovery is timed."""
    kills: PositiveInt = 20
    """Processes of each kind that are killed."""
    artifact: PositiveInt = 1 << 30
    """Bytes of the artifact that is fetched."""
    mapped: PositiveInt = 100_000
    """Items of one `bus.map`."""
    without: tuple[str, ...] = ()
    """Systems that are left out, with every ratio to them."""

    @field_validator("pin")
    @classmethod
    def _is_ours(cls, pin: int | None) -> int | None:
        cores = sorted(os.sched_getaffinity(0))
        if pin is not None and pin not in cores:
            raise ValueError(f"this process may run on the cores {', '.join(map(str, cores))}")
        return pin

    @property
    def core(self) -> int:
        """The one core of the serial cases."""
        return min(os.sched_getaffinity(0)) if self.pin is None else self.pin
