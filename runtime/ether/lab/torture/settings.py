"""The settings of a campaign."""

from __future__ import annotations

import secrets
from enum import StrEnum, unique
from typing import Final, Literal, Self, TypeAlias

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt, model_validator

from ether.lab.settings import RunSettings
from ether_broker.errors import UsageError

__all__ = ["Durability", "TortureSettings", "Victim"]

_RATE: Final = 100
"""Delegations a second, where nothing is said of the time."""
_SHORTEST: Final = 10.0
_STRIKES: Final = 0.5
"""Strikes a second, where nothing is said of their number."""


@unique
class Victim(StrEnum):
    """The kinds of processes that a campaign strikes."""

    BROKER = "broker"
    """The broker's process, in which the supervisor lives."""
    NODE = "node"
    DELEGATOR = "delegator"
    OBSERVER = "observer"
    CLUSTER = "cluster"
    """The broker and all nodes in the same moment, as when the machine goes down; its files stay."""


Durability: TypeAlias = Literal["journal", "memory"]
"""What becomes of accepted work when a campaign's broker dies: it survives; or it goes too, and whoever asked is told so."""


class TortureSettings(RunSettings):
    """The settings of a campaign.

    The logs stay in the folder, and if a promise was broken in a temporary one.

    Raises:
        UsageError: a value that cannot be; the message names it.
    """

    seconds: NonNegativeFloat = 0.0
    """Seconds over which the delegations are spread; 0 is as long as 100 a second take, and 10 at least."""
    delegations: PositiveInt = 20_000
    """Delegations in all; the sub-delegations that handlers make come on top."""
    nodes: PositiveInt = 3
    """Processes with agents."""
    delegators: PositiveInt = 2
    """Processes that delegate."""
    observers: NonNegativeInt = 1
    """Processes that observe."""
    seed: int = Field(default_factory=lambda: secrets.randbelow(1 << 32))
    """What makes the plan and the work; the timing is the machine's."""
    kills: NonNegativeInt | None = None
    """Strikes in this time; default: one every two seconds."""
    durability: Durability = "journal"
    """Whether the bus keeps what it has accepted beyond its broker."""
    victims: tuple[Victim, ...] = tuple(Victim)
    journal_faults: bool = False
    """Whether the disk under the journal is full, locked, read-only or away at times."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        """Check, and fill in what follows from the rest."""
        if self.journal_faults and self.durability != "journal":
            raise UsageError(
                "Without a journal its disk cannot fail: leave journal faults out, or ask for durability journal."
            )
        if self.kills != 0 and not self.victims:
            raise UsageError("There is no victim: name one, or ask for 0 kills.")
        if not self.seconds:
            object.__setattr__(self, "seconds", max(_SHORTEST, self.delegations / _RATE))
        if self.kills is None:
            object.__setattr__(self, "kills", round(self.seconds * _STRIKES))
        return self
