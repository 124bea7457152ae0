"""Agents that are alike in all that decides who may have a delegation, by what they have to do. Sans-IO."""

from __future__ import annotations

from collections.abc import Collection, Container
from typing import Any, Final, Protocol

from ether_actors.ranking import Ranking
from ether_actors.registration import Condition, Registration
from ether_broker.cost import FEW_GROUPS, GROUPS_SHIFT
from ether_broker.manifest import Interface, Manifest
from ether_broker.router import Session

__all__ = ["FEW", "Replicas", "Watcher"]

FEW: Final = 16
"""Agents that are ranked each time that one is looked for; more are kept in order."""
_AT_ONCE: Final = 16
"""Where so many times those who rest are more than all, all are gone through once."""
_RESTARTING: Final = 128
"""Delegations that an agent which restarts counts as having, besides those that it has."""
_MOST_RESOLVED: Final = 64
"""Names of capabilities that are remembered."""
_UP: Final = Condition.UP  # a member of an Enum is looked up in Python each time that it is named


class Watcher(Protocol):
    """Who is told of replicas."""

    def update(self, member: Replicas, /) -> None:
        """Note that the first of them is another, or has more or less to do."""


class Replicas(Ranking[Registration]):
    """Agents of one manifest, alike to an access list: those that take work by what they have to do, and then by their turn.

    Args:
        manifest: of one of them.
        kind: the one pattern of delegation that they take; None takes all.
        marks: what the access list tells of them; see `Access.marks`.
    """

    __slots__ = ("_told", "_watchers", "kind", "manifest", "marks", "resolved", "resting")

    def __init__(self, manifest: Manifest, kind: Interface | None, marks: int) -> None:
        super().__init__(FEW)
        self.manifest = manifest
        self.kind = kind
        self.marks = marks
        self.resolved: dict[bytes, bytes | None] = {}
        """{a name that was asked for: what they declare of it}."""
        self.resting: dict[Registration, None] = {}
        """Agents that take no work: they drain or are down."""
        self._watchers: dict[Watcher, None] = {}
        self._told: tuple[Any, ...] | None = None
        """What they were told last."""

    def _rank(self, member: Registration) -> tuple[int, int, Registration]:
        mailbox = member.mailbox
        load = mailbox.waiting_count + mailbox.in_flight
        return load if member.condition is _UP else load + _RESTARTING, member.turn, member

    def best(self, without: Container[Registration] = ()) -> tuple[int, int, Registration] | None:
        """The one with the least to do, of equals the one whose turn it is, but for those in `without`."""
        if self._order is not None:
            return next((key for key in self._order.after(None) if key[2] not in without), None)
        found: tuple[int, int, Registration] | None = None
        for agent in self._keys:
            if agent not in without:
                rank = self._rank(agent)
                if found is None or rank < found:
                    found = rank
        return found

    def resolve(self, name: bytes) -> bytes | None:
        """Which of the capabilities that they declare a name asks for (G10)."""
        if name not in self.resolved:
            if len(self.resolved) >= _MOST_RESOLVED:
                self.resolved.clear()
            capability = self.manifest.resolve(name.decode(errors="replace"))
            self.resolved[name] = None if capability is None else capability.name.encode()
        return self.resolved[name]

    # -- what changes --------------------------------------------------------------------------------------------

    def enter(self, member: Registration) -> None:
        """Enter an agent."""
        member.replicas = self
        if not member.takes_work:
            self.resting[member] = None
            return
        if self._order is not None or self._watchers:
            member.mailbox.on_change = member.changed
        self.add(member)
        self._tell(member.session)

    def remove(self, member: Registration) -> None:
        """Take an agent out."""
        member.replicas, member.mailbox.on_change = None, None
        if member in self.resting:
            del self.resting[member]
        else:
            self.discard(member)
            self._tell(member.session)

    def rest(self, members: Collection[Registration]) -> None:
        """Note that agents take no work any more, in one go through all if they are many of them."""
        if len(members) * _AT_ONCE > len(self):
            for member in members:
                del self._keys[member]
            if self._order is not None:
                self._order.retain(lambda key: key[2] in self._keys)
        else:
            for member in members:
                self.discard(member)
        for member in members:
            member.mailbox.on_change = None
            self.resting[member] = None
        if self._keys or len(self._watchers) <= FEW_GROUPS:
            self._tell(next(iter(members)).session)
        else:
            self._told = None  # who watches finds out, and is told of the next one, though it be the same

    def wake(self, member: Registration) -> None:
        """Note that an agent takes work again."""
        del self.resting[member]
        self.enter(member)

    def update(self, member: Registration) -> None:
        """Note that an agent has more or less to do."""
        if member not in self.resting:
            super().update(member)
            self._tell(member.session)

    def order(self) -> None:
        """Keep an order from now on."""
        super().order()
        self._listen()

    def watch(self, watcher: Watcher) -> None:
        """Tell somebody from now on."""
        self._told = self.best()
        self._watchers[watcher] = None
        if len(self._watchers) == 1:
            self._listen()

    def unwatch(self, watcher: Watcher) -> None:
        """Tell somebody no more."""
        self._watchers.pop(watcher, None)

    def _listen(self) -> None:
        for agent in self._keys:
            agent.mailbox.on_change = agent.changed

    def _tell(self, payer: Session) -> None:
        watchers = self._watchers
        if not watchers or (best := self.best()) == self._told:
            return
        self._told = best
        if len(watchers) > FEW_GROUPS:
            payer.input.spend(len(watchers) >> GROUPS_SHIFT)
        for watcher in list(watchers):
            watcher.update(self)
