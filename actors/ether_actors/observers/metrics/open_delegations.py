"""The delegations whose outcome is still to come, as far as an observer has seen them."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from ether_broker.envelope.delegation import DEFAULT_TIMEOUT
from ether_broker.wire.frame import Header

__all__ = ["OpenDelegation", "OpenDelegations"]

GRACE: Final = 5.0
"""Seconds after its deadline in which an outcome would have passed; then it must have been missed."""
_FIRST_SWEEP: Final = 1_024


class OpenDelegation(NamedTuple):
    """The record of a delegation until its outcome."""

    time: float
    """When it passed, in seconds by the broker's clock."""
    deadline: float
    capability: bytes
    target: bytes
    """The agent that it was last given to; empty when nobody was found or named."""


class OpenDelegations:
    """Open delegations by request id, bounded in count and by their deadlines.

    Every delegation ends, so an entry that stays is one whose outcome the observer missed. Such entries are dropped when
    their deadline is long past, and the oldest make room.

    Args:
        limit: entries at most.
    """

    def __init__(self, limit: int = 65_536) -> None:
        self._entries: OrderedDict[bytes, OpenDelegation] = OrderedDict()
        self._limit = limit
        self._sweep_at = _FIRST_SWEEP
        self.dropped = 0
        """Delegations that were given up: their outcome was not seen."""

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, header: Header, time: float) -> None:
        """Enter a delegation that passed."""
        entries = self._entries
        deadline = header.deadline or time + DEFAULT_TIMEOUT
        entries[header.request_id] = OpenDelegation(time, deadline, header.capability, header.target)
        if len(entries) >= self._sweep_at:
            self.sweep(time)
            self._sweep_at = max(_FIRST_SWEEP, 2 * len(entries))
        if len(entries) > self._limit:
            entries.popitem(last=False)
            self.dropped += 1

    def get(self, request_id: bytes) -> OpenDelegation | None:
        """The delegation of that id, if it is open."""
        return self._entries.get(request_id)

    def move(self, request_id: bytes, target: bytes, capability: bytes) -> None:
        """Note that the delegation of that id, if it is open, was given to another agent."""
        opened = self._entries.get(request_id)
        if opened is not None:
            self._entries[request_id] = opened._replace(target=target, capability=capability)

    def discard(self, request_id: bytes) -> None:
        """Take out the delegation of that id, if it is open: it has ended."""
        self._entries.pop(request_id, None)

    def sweep(self, now: float) -> None:
        """Drop what must have ended."""
        over = [key for key, entry in self._entries.items() if entry.deadline + GRACE < now]
        for key in over:
            del self._entries[key]
        self.dropped += len(over)

    def clear(self) -> None:
        """Give up all."""
        self.dropped += len(self._entries)
        self._entries.clear()
