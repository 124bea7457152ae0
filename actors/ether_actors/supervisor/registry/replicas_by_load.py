"""Replicas, ordered by load: agents that are alike in all that decides on delegations to them. Sans-IO.

Here it is decided which of several idle agents gets a delegation: the one with the fewest, and of equals the one whose
turn it is.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Collection, Container, Hashable, Iterator
from operator import attrgetter
from typing import Final, Protocol

from ether_actors.supervisor.registry.registration import Condition, Registration, turns
from ether_broker.envelope.manifest.manifest import Interface, Manifest
from ether_broker.transport.sessions.cost import FEW_GROUPS, GROUPS_SHIFT
from ether_broker.transport.sessions.session import Session

__all__ = ["FEW", "Replicas", "Watcher"]

FEW: Final = 16
"""Agents that are compared each time that one is looked for; more are kept in order."""
_RESTARTING: Final = 128
"""Delegations that an agent which restarts counts as having, besides those that it has."""
_MOVING: Final = 1 << 40
"""Those that one which moves counts as having: more than any mailbox has."""
_MOST_RESOLVED: Final = 64
"""Names of capabilities that are remembered."""
_UP: Final = Condition.UP  # a member of an Enum is looked up in Python each time that it is named
_Best = tuple[int, int, Registration]
"""(load, turn, agent): the lowest is the best."""


class Watcher(Protocol):
    """The interface of what is told when replicas change."""

    def update(self, replicas: Replicas, /) -> None:
        """Note that the first of them is another, or has more or less to do."""


class Replicas:
    """Agents of one manifest, alike to an access list: those that take work by their load, and those of one load by their turn.

    Up to `FEW` are compared at each choice, and take turns: the one that was chosen longest ago is next. More are kept in order
    of load, where a change takes O(1); of one load the one is next whose load changed longest ago.

    Args:
        manifest: of one of them.
        kind: the one pattern of delegation that they take; None takes all.
        marks: what the access list tells of them; see `Access.marks`.
    """

    __slots__ = (
        "_by_load",
        "_loads",
        "_members",
        "_rebalancing_key",
        "_told",
        "_watchers",
        "inactive",
        "kind",
        "manifest",
        "marks",
        "only",
        "resolved",
    )

    def __init__(self, manifest: Manifest, kind: Interface | None, marks: int) -> None:
        self.manifest: Manifest = manifest
        self.kind: Interface | None = kind
        self.marks: int = marks
        self.resolved: dict[bytes, bytes | None] = {}
        """{a name that was asked for: what they declare of it}."""
        self.inactive: dict[Registration, None] = {}
        """Agents that take no work: they drain or are down."""
        self._members: dict[Registration, int] = {}
        """{one that takes work: the load under which it stands}, in the order in which they came."""
        self._by_load: dict[int, OrderedDict[Registration, None]] | None = None
        """{load: those that have it, by their turn}; None while no order is kept."""
        self._loads: list[int] = []
        """Those of them, the lowest first."""
        self._watchers: dict[Watcher, None] = {}
        self.only: Registration | None = None
        """The one that takes work, if there is just one."""
        self._told: _Best | None = None
        """What they were told last."""
        self._rebalancing_key: Hashable = None
        """None before it is asked for."""

    def __len__(self) -> int:
        """How many take work."""
        return len(self._members)

    def __iter__(self) -> Iterator[Registration]:
        """Those that take work."""
        return iter(self._members)

    def best(self, without: Container[Registration] = ()) -> _Best | None:
        """The one with the least to do, of equals the one whose turn it is, but for those in `without`."""
        if self._by_load is not None:
            for load in self._loads:
                for agent in self._by_load[load]:
                    if agent not in without:
                        return load, agent.turn, agent
            return None
        found: _Best | None = None
        for agent in self._members:
            if agent not in without:
                rank = _load(agent), agent.turn, agent
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

    @property
    def rebalancing_key(self) -> Hashable:
        """What all have in common that may have their work: what they declare, and what the access list tells of them."""
        if self._rebalancing_key is None:
            declared = frozenset((capability.name, capability.idempotent) for capability in self.manifest.capabilities)
            self._rebalancing_key = declared, frozenset(self.manifest.exclusions), self.kind, self.marks
        return self._rebalancing_key

    # -- what changes --------------------------------------------------------------------------------------------

    def enter(self, member: Registration) -> None:
        """Enter an agent; of those with as much to do its turn is the last."""
        member.replicas = self
        if not member.takes_work:
            self._rest(member)
            return
        member.turn = next(turns)
        self._members[member] = 0
        self.only = member if len(self._members) == 1 else None
        if self._by_load is not None:
            self._place(member)
        elif len(self._members) > FEW:
            self._order()
        if self._by_load is not None or self._watchers or member.listener is not None:
            member.mailbox.on_change = member.changed
        self._tell(member.session)

    def remove(self, member: Registration) -> None:
        """Take an agent out; who watches is not told, and finds out."""
        member.replicas, member.mailbox.on_change = None, None
        if member in self.inactive:
            del self.inactive[member]
        else:
            self._take(member)

    def deactivate(self, members: Collection[Registration]) -> None:
        """Note that agents take no work any more; who watches is not told, and finds out."""
        for member in members:
            self._take(member)
            self._rest(member)

    def _rest(self, member: Registration) -> None:
        member.mailbox.on_change = None if member.listener is None else member.changed
        self.inactive[member] = None

    def activate(self, member: Registration) -> None:
        """Note that an agent takes work again."""
        del self.inactive[member]
        self.enter(member)

    def update(self, member: Registration) -> None:
        """Note that an agent has more or less to do, and another turn."""
        if member in self.inactive:
            return
        if self._by_load is not None:
            self._displace(member)
            self._place(member)
        self._tell(member.session)

    def watch(self, watcher: Watcher) -> None:
        """Tell somebody from now on."""
        self._told = self.best()
        self._watchers[watcher] = None
        if len(self._watchers) == 1:
            self._listen()

    def unwatch(self, watcher: Watcher) -> None:
        """Tell somebody no more."""
        self._watchers.pop(watcher, None)

    def _order(self) -> None:
        self._by_load = {}
        for member in sorted(self._members, key=attrgetter("turn")):
            self._place(member)
        self._listen()

    def _place(self, member: Registration) -> None:
        assert self._by_load is not None
        load = self._members[member] = _load(member)
        equals = self._by_load.get(load)
        if equals is None:
            equals = self._by_load[load] = OrderedDict()
            insort(self._loads, load)
        equals[member] = None

    def _take(self, member: Registration) -> None:
        if self._by_load is not None:
            self._displace(member)
        del self._members[member]
        self.only = None
        if (
            len(self._members) == 1
        ):  # of a dict that was large, the places of those that have gone are passed over each time
            [(self.only, load)] = self._members.items()
            self._members = {self.only: load}

    def _displace(self, member: Registration) -> None:
        assert self._by_load is not None
        load = self._members[member]
        equals = self._by_load[load]
        del equals[member]
        if not equals:
            del self._by_load[load], self._loads[bisect_left(self._loads, load)]

    def _listen(self) -> None:
        for agent in self._members:
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


def _load(agent: Registration) -> int:
    """What an agent has to do, as far as choosing it goes."""
    load = agent.mailbox.waiting_count + agent.mailbox.in_flight
    if agent.condition is _UP:
        return load
    return load + (_MOVING if agent.condition is Condition.MOVING else _RESTARTING)
