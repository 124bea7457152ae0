"""Agents of lost nodes, and those that move: their names are kept for a while, unless living ones need the room. Sans-IO."""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import Final

from ether_actors.supervisor.registry.quota import MOST_DOWN
from ether_actors.supervisor.registry.registration import Condition, Registration
from ether_actors.supervisor.state.broker_state import BrokerState
from ether_broker.errors import TooMuch
from ether_broker.sorted_keys import SortedKeys
from ether_broker.transport.sessions.session import Session

__all__ = ["LostAgents"]

_FORGET_AFTER: Final = 600.0
"""The most seconds that an agent of a lost node stays in the registry, where its name gets an exact answer. It stays as
long as it had been registered, if that is less: so nobody can fill memory with names of agents that lived shortly."""
_KEEP: Final = 10.0
"""The least seconds that it stays, unless a living agent needs its room."""
_SWEPT: Final = 128
"""Places that one sweep frees at most, and agents with work that it looks at."""
_COUNTED: Final = "one with a large manifest takes several"
_AT: Final = struct.Struct(">d")
"""The bytes of numbers that are not negative sort as these do."""


class LostAgents:
    """The agents that are down, in the order in which their time ends; none is forgotten while it has work.

    An agent that is down gets no more work but events, unless it moves. Every operation takes O(log n) for each name that it
    enters or forgets.

    Args:
        state: of the broker.
        expire: gives up an agent that moves and has work, whose time is over.
    """

    def __init__(self, state: BrokerState, expire: Callable[[Registration], None]) -> None:
        self._state = state
        self._expire = expire
        self._orders: defaultdict[str, SortedKeys[bytes]] = defaultdict(SortedKeys)
        """Those that have no work: of each key, and under the empty word all."""
        self._places: dict[bytes, bytes] = {}
        """Where each of them is in those: {name: time and name}."""
        self._free: Counter[str] = Counter()
        """Places that forgetting them would free: of each key, and under the empty word all."""
        self._down: Counter[str] = Counter()
        """Places of all agents that are down, by key; under "" the total."""
        self._at_work: OrderedDict[Registration, float] = OrderedDict()
        """Those that have, and when their time ends; who was looked at comes last."""

    def add(self, agent: Registration) -> None:
        """Keep the name of an agent that is down from now on."""
        now, registry = self._state.now, self._state.registry
        for owner in {"", agent.session.owner}:
            self._down[owner] += agent.places
        self._keep(agent, now + min(max(_KEEP, now - agent.since), _FORGET_AFTER))
        most = min(MOST_DOWN, registry.most // 2)
        while self._down[""] > most and self._forget_first(""):
            pass

    def until(self, agent: Registration) -> float:
        """When the time of an agent that is down ends; of one whose work is still being ruled on, it has not begun."""
        place = self._places.get(agent.name)
        if place is None:
            return self._at_work.get(agent, self._state.now + _KEEP)
        return float(_AT.unpack_from(place)[0])

    def given(self, agent: Registration) -> None:
        """Note that an agent that is down was given an event, or work: it is not forgotten before that has ended."""
        place = self._places.pop(agent.name, None)
        if place is not None:
            for owner in {"", agent.session.owner}:
                self._orders[owner].remove(place)
                self._free[owner] -= agent.places
            (self._at_work[agent],) = _AT.unpack_from(place)

    def discard(self, agent: Registration) -> None:
        """Keep an agent's name no more; one that is not kept is no error."""
        place = self._places.pop(agent.name, None)
        if place is None and self._at_work.pop(agent, None) is None:
            return
        for owner in {"", agent.session.owner}:
            self._down[owner] -= agent.places
            if place is not None:
                self._orders[owner].remove(place)
                self._free[owner] -= agent.places

    def forget(self, agent: Registration) -> None:
        """Take out an agent that is down: its name is free, and unknown."""
        assert not agent.work
        self.discard(agent)
        self._state.registry.remove(agent)
        self._state.event("agent_forgotten", agent=agent.manifest.agent)

    def sweep(self) -> None:
        """Forget agents whose time is over."""
        for _ in range(min(len(self._at_work), _SWEPT)):
            agent, time = self._at_work.popitem(last=False)
            self._keep(agent, time)
            if agent.work and agent.condition is Condition.MOVING and time <= self._state.now:
                self._expire(agent)
        until = self._free[""] - _SWEPT
        while self._free[""] > until:
            first = next(self._orders[""].after(None), None)
            if first is None or _AT.unpack_from(first)[0] > self._state.now:
                break
            self._forget_first("")

    def check_room(self, session: Session, names: list[bytes], places: int) -> None:
        """Check that there is room for agents that a node registers, each of so many places, or can be made.

        Raises:
            TooMuch: the node's key, or the bus, would have more than it may, and too few of them can be forgotten.
        """
        registry, owner = self._state.registry, session.owner
        known = [registry.get(name) for name in names]
        half = registry.most // 2
        more = sum(max(0, places - _has(agent, owner)) for agent in known)
        if owner and more and self._is_short(registry.of_key[owner] + more - half, owner, known):
            raise TooMuch(
                f"The agents of this key take {registry.of_key[owner]:,} places ({_COUNTED}), {self._down[owner]:,} of them "
                f"down; {more} more would be above {half:,}, half of what the bus may have: give the broker more memory "
                "(`memory_bytes`), or another node a key of its own."
            )
        more = sum(max(0, places - (0 if agent is None else agent.places)) for agent in known)
        if more and self._is_short(registry.places + more - registry.most, "", known):
            raise TooMuch(
                f"The agents of the bus take {registry.places:,} places ({_COUNTED}), {self._down['']:,} of them down; {more} "
                f"more would be above {registry.most:,}, which is the most: give the broker more memory (`memory_bytes`)."
            )

    def make_room(self, session: Session, known: Registration | None, places: int) -> None:
        """Forget who has to be forgotten before a node registers an agent, for which there was room by `check_room`.

        Args:
            session: the node's.
            known: who had the name before; None for a name that nobody has.
            places: that the agent takes.
        """
        registry, owner = self._state.registry, session.owner
        if known is not None:
            self.discard(known)
        more = places - _has(known, owner)
        while owner and registry.of_key[owner] + more > registry.most // 2 and self._forget_first(owner):
            pass
        more = places - (0 if known is None else known.places)
        while registry.places + more > registry.most and self._forget_first(""):
            pass

    def _keep(self, agent: Registration, until: float) -> None:
        if agent.work:
            self._at_work[agent] = until
            return
        place = self._places[agent.name] = _AT.pack(until) + agent.name
        for owner in {"", agent.session.owner}:
            self._orders[owner].add(place)
            self._free[owner] += agent.places

    def _forget_first(self, owner: str) -> bool:
        place = next(self._orders[owner].after(None), b"")
        agent = self._state.registry.get(place[_AT.size :])
        if agent is not None:
            self.forget(agent)
        return agent is not None

    def _is_short(self, over: int, owner: str, known: list[Registration | None]) -> bool:
        """Whether fewer places of a key's, or of all, can be freed than have to; those of `known` are not, who come back."""
        if over <= 0:
            return False
        back = sum(
            agent.places
            for agent in known
            if agent is not None and agent.name in self._places and owner in {"", agent.session.owner}
        )
        return over > self._free[owner] - back


def _has(agent: Registration | None, owner: str) -> int:
    """Places that an agent has among those of a key already."""
    return agent.places if agent is not None and agent.session.owner == owner else 0
