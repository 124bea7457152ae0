"""A filter of a journal's entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ether.audit.entry import AuditEntry
from ether_broker.envelope.names import BUS_PREFIX, EVENT_PREFIX
from ether_broker.envelope.status import Status
from ether_broker.wire.frame import Kind

__all__ = ["EntryFilter", "asks_for_queries", "is_query"]

_ALWAYS: Final = float("inf")


@dataclass(frozen=True, slots=True)
class EntryFilter:
    """A filter of journal entries: those that fit all its fields, and within one field any of its values."""

    agents: frozenset[str] = frozenset()
    """Names; an entry fits if it was from one of them or to one, or is an event about one."""
    capabilities: tuple[str, ...] = ()
    """Capabilities, each with all below it: `review` takes `review.bugs`, and not `reviewing`."""
    statuses: frozenset[Status] = frozenset()
    """Only responses have one."""
    kinds: frozenset[Kind] = frozenset()
    events: frozenset[str] = frozenset()
    """Names of events, such as `dead_letter`; only events have one."""
    since: float = -_ALWAYS
    """Seconds since 1970 in UTC; an entry of that very moment fits."""
    until: float = _ALWAYS
    """Likewise; an entry of that very moment does not fit any more."""

    queries: bool = True
    """Whether what the bus is asked about itself fits: delegations of `ether.*`, and their answers."""

    def takes(self, entry: AuditEntry) -> bool:
        """Whether an entry is wanted."""
        return (
            self.since <= entry.wall < self.until
            and (not self.kinds or entry.header.kind in self.kinds)
            and (not self.statuses or entry.status in self.statuses)
            and (not self.events or entry.event_name in self.events)
            and (not self.capabilities or self._covers(entry.about_capability))
            and (self.queries or not is_query(entry))
            and (not self.agents or not self.agents.isdisjoint(entry.agents))
        )

    def _covers(self, topic: str) -> bool:
        return any(f"{topic}.".startswith(f"{capability}.") for capability in self.capabilities)


def asks_for_queries(capabilities: Sequence[str]) -> bool:
    """Whether capabilities that are wanted are the bus's own."""
    return any(f"{capability}.".encode().startswith(BUS_PREFIX) for capability in capabilities)


def is_query(entry: AuditEntry) -> bool:
    """Whether somebody asks the bus about itself, as `ether top` does, or is answered; a published event is no question."""
    capability = entry.header.capability
    return capability.startswith(BUS_PREFIX) and not capability.startswith(EVENT_PREFIX)
