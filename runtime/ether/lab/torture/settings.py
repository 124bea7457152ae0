"""What a campaign is asked for."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from enum import StrEnum, unique
from typing import Final

from ether.lab.settings import CommonSettings, setting
from ether_broker.errors import UsageError

__all__ = ["Durability", "TortureSettings", "Victim"]

_RATE: Final = 100
"""Delegations a second, where nothing is said of the time."""
_SHORTEST: Final = 10.0
_STRIKES: Final = 0.5
"""Strikes a second, where nothing is said of their number."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TortureSettings(CommonSettings):
    """A campaign; the logs stay in the folder, and if a promise was broken in a temporary one.

    Raises:
        UsageError: a value that cannot be; the message names it.
    """

    seconds: float = setting(0.0, least=0)
    """Over which the delegations are spread; 0 is as long as 100 a second take, and 10 at least."""
    delegations: int = setting(20_000, least=1)
    """In all; the sub-delegations that handlers make come on top."""
    nodes: int = setting(3, least=1)
    delegators: int = setting(2, least=1)
    observers: int = setting(1, least=0)
    seed: int = field(default_factory=lambda: secrets.randbelow(1 << 32))
    """Makes the plan and the work; the timing is the machine's."""
    kills: int = setting(-1, least=-1)
    """Strikes in this time; -1 is one every two seconds."""
    durability: Durability = Durability.JOURNAL
    victims: tuple[Victim, ...] = tuple(Victim)
    journal_faults: bool = False
    """Whether the disk under the journal is full, locked, read-only or away at times."""

    def __post_init__(self) -> None:
        """Check, and fill in what follows from the rest."""
        CommonSettings.__post_init__(self)
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
