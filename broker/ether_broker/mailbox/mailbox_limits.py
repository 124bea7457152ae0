"""The bounds of what a broker keeps: of each agent's mailbox, and of all together."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from ether_broker.errors import InvalidSpec
from ether_broker.name_hint import hint_fields

__all__ = ["LEAST", "Limits"]

LEAST: Final = {"mailbox_count": 0, "mailbox_bytes": 0, "window": 1, "total_bytes": 1, "memory_bytes": 0}
"""The least that each bound may be."""


@hint_fields
@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of each agent's mailbox, and of what the broker keeps in all (G8).

    Example:
        with Runtime(limits=Limits(mailbox_count=100, mailbox_bytes=1 << 20)) as small:  # for each agent
            small.start(Counter)
            assert small.delegate("text.count", {"text": "two words"}).result().ok

    Raises:
        InvalidSpec: a bound is no whole number, 0 or more; 1 or more of `window` and `total_bytes`.
    """

    mailbox_count: int = 10_000
    """Letters that may wait; with 0 the agent takes what its node has credit for, and nothing waits."""
    mailbox_bytes: int = 64 << 20
    """Bytes that may wait."""
    window: int = 128
    """Delegations that the agent's node may hold at a time, started or not: its credit."""
    total_bytes: int = 1 << 30
    """Bytes of all delegations together that the broker keeps, at most a quarter of `memory_bytes`; each takes 768 beside its
    envelope. What a key asked for, or a node where there are no keys, may have as much as is free: half, if it is alone."""
    memory_bytes: int = 4 << 30
    """Bytes of memory of the broker's process after which the connection that sends most is shut, or the node cut off for
    which most is kept; 0 watches nothing. A broker that is embedded in another process does not watch."""

    def __post_init__(self) -> None:
        """Check."""
        for field in fields(self):
            value, least = getattr(self, field.name), LEAST[field.name]
            if type(value) is not int or value < least:
                raise InvalidSpec(f"limits.{field.name} is {repr(value)[:40]}: give a whole number, {least} or more.")

    @property
    def delegation_bytes(self) -> int:
        """Bytes of all delegations: `total_bytes`, and no more than a quarter of `memory_bytes`."""
        return min(self.total_bytes, self.memory_bytes // 4 or self.total_bytes)

    @property
    def backlog_bytes(self) -> int:
        """Bytes that may wait for nodes, or for their acknowledgement: a quarter of `memory_bytes`, as libzmq copies them."""
        return (self.memory_bytes or Limits().memory_bytes) // 4

    @property
    def most_agents(self) -> int:
        """Agents of all nodes, those lost lately among them: one for each 16 KiB of `memory_bytes`; it takes a third."""
        return (self.memory_bytes or Limits().memory_bytes) >> 14
