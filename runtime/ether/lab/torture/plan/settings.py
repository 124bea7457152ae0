"""What a campaign is asked for."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from enum import StrEnum, unique
from pathlib import Path
from typing import Any, Final

from ether_broker.errors import UsageError

__all__ = ["Durability", "Settings", "Victim"]

_RATE: Final = 100
"""Delegations a second, where nothing is said of the time."""
_SHORTEST: Final = 10.0
_STRIKES: Final = 0.5
"""Strikes a second, where nothing is said of their number."""
_TRANSPORTS: Final = ("ipc", "tcp")


@unique
class Victim(StrEnum):
    """What is tortured."""

    BROKER = "broker"
    """The broker's process, in which the supervisor lives."""
    NODE = "node"
    DELEGATOR = "delegator"
    OBSERVER = "observer"
    CLUSTER = "cluster"
    """The broker and all nodes in the same moment, as when the machine goes down; its files stay."""


@unique
class Durability(StrEnum):
    """What the bus promises of what it has accepted."""

    MEMORY = "memory"
    """It goes with the broker, and whoever asked is told so."""
    JOURNAL = "journal"
    """It survives."""


def _silent(_line: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Settings:
    """A campaign.

    Raises:
        UsageError: a value that cannot be; the message names it.
    """

    delegations: int = 20_000
    """In all; the sub-delegations that handlers make come on top."""
    nodes: int = 3
    delegators: int = 2
    observers: int = 1
    seed: int = field(default_factory=lambda: secrets.randbelow(1 << 32))
    """Makes the plan and the work; the timing is the machine's."""
    seconds: float = 0.0
    """Over which the delegations are spread; 0 is as long as 100 a second take, and 10 at least."""
    kills: int = -1
    """Strikes in this time; -1 is one every two seconds."""
    durability: Durability = Durability.JOURNAL
    victims: tuple[Victim, ...] = tuple(Victim)
    journal_faults: bool = False
    """Whether the disk under the journal is full, locked, read-only or away at times."""
    transport: str = "ipc"
    """`ipc`, or `tcp` on the loopback."""
    keep: Path | None = None
    """Where the diaries stay; None removes them unless a promise was broken."""
    tell: Callable[[str], None] = field(default=_silent, compare=False)
    """Told in words how far it is."""

    def __post_init__(self) -> None:
        """Check, and fill in what follows from the rest."""
        for name in ("delegations", "nodes", "delegators"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}={getattr(self, name)}: it has to be 1 or more.")
        if self.observers < 0:
            raise UsageError(f"observers={self.observers}: it has to be 0 or more.")
        if self.transport not in _TRANSPORTS:
            raise UsageError(f"transport={self.transport!r}: choose tcp or ipc.")
        if self.seconds < 0 or self.kills < -1:
            raise UsageError("seconds and kills cannot be negative.")
        if self.journal_faults and self.durability is not Durability.JOURNAL:
            raise UsageError(
                "Without a journal its disk cannot fail: leave journal faults out, or ask for durability journal."
            )
        if self.kills and not self.victims:
            raise UsageError("There is no victim: name one, or ask for 0 kills.")
        if not self.seconds:
            object.__setattr__(self, "seconds", max(_SHORTEST, self.delegations / _RATE))
        if self.kills < 0:
            object.__setattr__(self, "kills", round(self.seconds * _STRIKES))

    def plain(self) -> dict[str, Any]:
        """The settings as JSON has them."""
        left_out = ("tell", "keep")
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name not in left_out}
