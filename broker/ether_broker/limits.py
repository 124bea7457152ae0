"""The bounds of what a broker keeps: of each agent's mailbox, and of all together."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from ether_broker.errors import InvalidSpec

__all__ = ["LEAST", "Limits"]

LEAST: Final = {"count": 0, "size": 0, "window": 1, "total": 1, "memory": 0}
"""The least that each bound may be."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of each agent's mailbox, and of what the broker keeps in all (G8).

    Example:
        with Runtime(limits=Limits(count=100, size=1 << 20)) as small:  # 100 delegations and 1 MiB for each agent
            small.start(Counter)
            assert small.delegate("text.count", {"text": "two words"}).result().ok

    Raises:
        InvalidSpec: a bound is no whole number, 0 or more; 1 or more of `window` and `total`.
    """

    count: int = 10_000
    """Letters that may wait; with 0 the agent takes what its node has credit for, and nothing waits."""
    size: int = 64 << 20
    """Bytes that may wait."""
    window: int = 128
    """Delegations that the agent's node may hold at a time, started or not: its credit."""
    total: int = 1 << 30
    """Bytes of all delegations together that the broker keeps; many agents' mailboxes would have no bound without."""
    memory: int = 4 << 30
    """Bytes of memory of the broker's process after which the connection that sends most is shut, or the node cut off for
    which most is kept; 0 watches nothing. A broker that is embedded in another process does not watch."""

    def __post_init__(self) -> None:
        """Check."""
        for field in fields(self):
            value, least = getattr(self, field.name), LEAST[field.name]
            if type(value) is not int or value < least:
                raise InvalidSpec(f"limits.{field.name} is {repr(value)[:40]}: give a whole number, {least} or more.")

    @property
    def backlog(self) -> int:
        """Bytes that may wait for nodes, or for their acknowledgement, in all: a quarter of `memory`, as libzmq copies them."""
        return (self.memory or Limits().memory) // 4

    @property
    def agents(self) -> int:
        """Agents of all nodes, those that were lost lately among them: one for each 16 KiB of `memory`; it takes a third."""
        return (self.memory or Limits().memory) >> 14
