"""The registration of an agent, its condition, and the choice of it for a delegation."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import StrEnum, unique
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from ether_broker.envelope.manifest.manifest import Capability, Interface, Manifest
from ether_broker.mailbox.mailbox import Mailbox

if TYPE_CHECKING:
    from ether_broker.transport.sessions.session import Session

__all__ = ["Choice", "Condition", "Group", "Registration", "places_of", "turns"]


_SIZE_SHIFT: Final = 13
"""Of bytes of a manifest as places."""
turns: Final = count(1)
"""Where the next turn comes from; of all brokers of a process, as only their order says something."""


@unique
class Condition(StrEnum):
    """The condition of an agent in the registry: whether it takes work. Being busy is no condition."""

    UP = "up"
    """Takes work."""
    RESTARTING = "restarting"
    """Crashed and comes back; its mailbox is kept and takes more. A choice counts it as having 128 delegations more."""
    MOVING = "moving"
    """Its node let it go for another one that takes its name; its mailbox is kept and takes more. A choice takes any other
    holder of the same capability before it."""
    DRAINING = "draining"
    """Finishes what it has and takes nothing new."""
    DOWN = "down"
    """Its node is gone; its mailbox is kept until its name is forgotten, or its work has ended."""


class Group(Protocol):
    """Agents among which one is chosen."""

    kind: Interface | None
    """The one pattern of delegation that they take; None for those that take both."""

    @property
    def rebalancing_key(self) -> Hashable:
        """What agents have in common that may have each other's work, whichever version of a class each is."""

    def update(self, member: Registration, /) -> None:
        """Note that an agent has more or less to do."""


@dataclass(eq=False, slots=True)
class Registration:
    """The registry's record of one agent."""

    manifest: Manifest
    name: bytes
    session: Session
    mailbox: Mailbox[Any]
    """Of ledger entries."""
    packed: bytes = b""
    """The manifest as its session said it, and holds it."""
    places: int = 1
    """How many agents of few capabilities have as much memory; see `places_of`."""
    since: float = -math.inf
    """When it registered first, in seconds by the broker's clock; of one that a journal knows, long ago."""
    condition: Condition = Condition.UP
    work: dict[Any, None] = field(default_factory=dict)
    """Its ledger entries without an outcome, in the order in which they were given to it."""
    ended_at_node: dict[bytes, Any] = field(default_factory=dict)
    """Ledger entries with an outcome that its node has not answered yet: {request id: entry}."""
    load: dict[str, object] = field(default_factory=dict)
    """What its node said of it with its last heartbeat: running, waiting, busy_for; empty when it had nothing to do."""
    ended: dict[int, int] = field(default_factory=dict)
    """Outcomes so far: {status: count}."""
    recent: deque[float] | None = None
    """Seconds from acceptance to outcome of the last 256; None before the first."""
    resolved: dict[bytes, Choice | None] = field(default_factory=dict)
    """What it makes of the capabilities that it was asked for by name; of the manifest that it has now."""
    replicas: Group | None = None
    """Among which it is chosen."""
    refused_incarnation: bytes = b""
    """The incarnation of it whose state was refused last: nothing else of that is saved."""
    is_from_before: bool = False
    """Whether it may have been there before this broker: while that is young, a late state may be of a delegation of which it
    knows nothing, a volatile one of the broker before."""
    listener: Callable[[Registration], None] | None = None
    """Told when it has more or less to do, or another condition, and when it leaves its replicas: of an instance of an agent
    that scales."""
    turn: int = field(default_factory=lambda: next(turns))
    """The tie-break among equal load: the lowest is chosen. Renewed when it is chosen or, in a large group
    (`replicas_by_load.FEW`), when its load changes."""

    @property
    def oldest_first(self) -> list[Any]:
        """Its ledger entries without an outcome, in the order in which they were accepted."""
        return sorted(self.work, key=attrgetter("number"))

    @property
    def takes_work(self) -> bool:
        """Whether it can be chosen: it is up, restarts, or moves."""
        return self.condition is not Condition.DOWN and self.condition is not Condition.DRAINING

    @property
    def is_hosted(self) -> bool:
        """Whether a node has it: it is not down, and does not move."""
        return self.condition is not Condition.DOWN and self.condition is not Condition.MOVING

    def changed(self) -> None:
        """Tell those who choose it that it has more or less to do; its turn comes after that of its equals."""
        self.turn = next(turns)
        if self.replicas is not None:
            self.replicas.update(self)
        if self.listener is not None:
            self.listener(self)


def places_of(manifest: Manifest, size: int) -> int:
    """How many places an agent takes among those that the bus has.

    One; another for each 8 capabilities or subscriptions; another for each 32 names under which they can be asked for: a
    capability of n words has 2 n - 1; and another for each 8 KiB of its manifest.

    Args:
        manifest: without its schemas.
        size: bytes of the manifest as it was packed, with them.
    """
    capabilities = manifest.capabilities
    names = len(capabilities) + 2 * sum(capability.name.count(".") for capability in capabilities)
    return 1 + (len(capabilities) + len(manifest.subscriptions) >> 3) + (names >> 5) + (size >> _SIZE_SHIFT)


class Choice(NamedTuple):
    """The agent chosen for a delegation, and the capability by which it was chosen."""

    agent: Registration
    capability: Capability
    """As declared; the delegation's may be a short form or a prefix of it."""
    name: bytes
    """The capability's name as it travels: what is declared, but for a fallback agent, which is told what was asked."""
    idempotent: bool
    tier: int
    """0 for the capability itself, 1 for one below it or a short form, 2 for a fallback agent's `*`."""
