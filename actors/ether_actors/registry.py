"""The registry: which agents there are, what they can do, and which of them gets a piece of work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import islice
from typing import Final

from ether_actors.holders import MOST_PASSED, Holders
from ether_actors.registration import Choice, Condition, Registration, places_of
from ether_broker.errors import DuplicateAgent
from ether_broker.mailbox import Limits, Mailbox
from ether_broker.manifest import ANY, Interface, Manifest
from ether_broker.router import Session
from ether_broker.security.access import EVERYTHING, Grant
from ether_broker.sorted_keys import SortedKeys

__all__ = ["Registry"]

_ANY: Final = ANY.encode()
_FALLBACK: Final = 2
_MOST_GROUPS: Final = 256
"""Groups of holders that are kept of those made for a short form of a capability's name, or for somebody's grant."""
_MOST_MEMBERS: Final = 1 << 19
"""Members that these groups have together."""
_MOST_RESOLVED: Final = 64
"""Names of capabilities that are remembered of each agent."""
_RESOLVED_SHIFT: Final = 2
"""Its capabilities that are gone through for another name, in the time of one member of a group."""
_PASSED: Final = 4
"""Members of a group that can be filled while one is passed over."""
_Reach = Grant | tuple[Grant, Interface]
"""What delegators may reach, and those of them that delegate in one way only."""


class Registry:
    """Agents by name and by capability.

    Every agent is in the group of each capability that it declares. Groups for short forms of the names, for delegators that
    may not reach everybody, and for one kind of delegation are made when first asked for (O(n)) and kept up from then on;
    the oldest make room.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.most = limits.agents
        """Agents that there may be, those that are down among them."""
        self.of_key: Counter[str] = Counter()
        """Places that the agents of each key's nodes take, and of those without one under the empty word."""
        self.places = 0
        """Places of all agents."""
        self._agents: dict[bytes, Registration] = {}
        self._names: SortedKeys[bytes] = SortedKeys()
        self._askable: dict[bytes, dict[bytes, None]] = {}
        """{each name under which a capability can be asked for: the capabilities}, in the order in which they came."""
        self._fed: dict[bytes, dict[bytes, None]] = {}
        """{capability: those of these names of which there are groups}."""
        self._declared: dict[bytes, dict[Registration, None]] = {}
        """{capability: who declares it}, both in the order of registering."""
        self._capabilities: SortedKeys[bytes] = SortedKeys()
        """Those, in order."""
        self._groups: dict[bytes, dict[_Reach, Holders]] = {}
        """{such a name: {what its delegators may reach: the holders}}."""
        self.filled = 0
        """Members of the groups that were made, and agents that were passed over, since somebody was charged for it."""
        self._made: dict[tuple[bytes, _Reach], Holders] = {}
        """Those of the groups that were made when asked for, oldest first."""

    def __len__(self) -> int:
        return len(self._agents)

    @property
    def agents(self) -> Collection[Registration]:
        """All agents, in the order in which they first registered."""
        return self._agents.values()

    def get(self, name: bytes) -> Registration | None:
        """The agent of that name."""
        return self._agents.get(name)

    def after(self, name: bytes | None) -> Iterator[bytes]:
        """The agents' names above one, in order; all of them after None."""
        return self._names.after(name)

    def agents_near(self, name: bytes) -> Iterator[bytes]:
        """The agents' names, those first that are next to one in their order."""
        return self._names.around(name)

    def capabilities_near(self, name: bytes) -> Iterator[bytes]:
        """The declared capabilities, those first that are next to one in their order."""
        return self._capabilities.around(name)

    def register(self, manifest: Manifest, session: Session) -> Registration:
        """Enter an agent, or bring back one that was down: its mailbox is kept; `check_free` has said that it may.

        One that drains drains on.
        """
        known = self._agents.get(manifest.agent.encode())
        if known is None:
            return self._enter(manifest, session, Condition.UP)
        self._unindex(known)
        is_elsewhere = known.session is not session
        self._detach(known)
        known.manifest, known.load = manifest, {}
        self._attach(known, session)
        known.resolved.clear()
        self._index(known)
        drains_on = known.condition is Condition.DRAINING and not is_elsewhere
        self.condition(known, Condition.DRAINING if drains_on else Condition.UP, reset=is_elsewhere)
        return known

    def check_free(self, name: str, session: Session) -> None:
        """Check that a node may register an agent of that name.

        Raises:
            DuplicateAgent: a living agent of another node has it.
        """
        known = self._agents.get(name.encode())
        if known is None or known.session is session or known.session.lost or known.condition is Condition.DOWN:
            return
        raise DuplicateAgent(f"An agent named {name!r} lives on node {known.session.node!r}: choose another name.")

    def restore(self, manifest: Manifest, session: Session, condition: Condition) -> Registration:
        """Enter an agent as a journal knows it; its mailbox takes work and gives none until it registers again."""
        return self._enter(manifest, session, condition)

    def _enter(self, manifest: Manifest, session: Session, condition: Condition) -> Registration:
        name = manifest.agent.encode()
        agent = self._agents[name] = Registration(manifest, name, session, Mailbox(self._limits))
        self._names.add(name)
        self._attach(agent, session)
        agent.condition = condition
        if condition is not Condition.UP:
            agent.mailbox.pause()
        self._index(agent)
        return agent

    def remove(self, agent: Registration) -> None:
        """Take an agent out for good."""
        if self._agents.pop(agent.name, None) is not None:
            self._detach(agent)
            self._names.remove(agent.name)
            self._unindex(agent)
            agent.resolved.clear()  # they and the mailbox lead back to it: nothing is left to the garbage collector
            agent.mailbox.close()

    def _attach(self, agent: Registration, session: Session) -> None:
        agent.session, agent.places = session, places_of(agent.manifest)
        session.agents[agent.name] = agent
        self.of_key[session.owner] += agent.places
        self.places += agent.places

    def _detach(self, agent: Registration) -> None:
        session = agent.session
        session.agents.pop(agent.name, None)
        self.of_key[session.owner] -= agent.places
        self.places -= agent.places
        if not self.of_key[session.owner]:
            del self.of_key[session.owner]

    def condition(self, agent: Registration, condition: Condition, *, reset: bool = False) -> None:
        """Note how an agent is; with `reset`, what its node held is its no more, and all credit is back."""
        agent.condition = condition
        if condition is Condition.UP:
            agent.mailbox.resume(reset=reset)
        else:
            agent.mailbox.pause()
        if (
            condition is Condition.UP or condition is Condition.RESTARTING
        ):  # what takes nothing is dropped when it is looked at
            agent.load_fell()

    def holders(self, capability: bytes, grant: Grant = EVERYTHING) -> Iterator[Choice]:
        """Everybody who may do it and may be asked by the delegator, whatever their condition; fallback agents last."""
        yield from self._group(capability, grant) or ()
        if capability != _ANY:
            yield from self._fallbacks(capability, grant)

    def resolve(self, agent: Registration, capability: bytes) -> Choice | None:
        """What the agent makes of a capability that it is asked for by name, or None (G10)."""
        resolved = agent.resolved
        if capability not in resolved:
            if len(resolved) >= _MOST_RESOLVED:
                resolved.clear()
            resolved[capability] = _choice(agent, capability)
            self.filled += len(agent.manifest.capabilities) >> _RESOLVED_SHIFT
        return resolved[capability]

    def best_of(self, agent: Registration) -> Choice | None:
        """The lightest, then most confident of all that an agent declares: for who names it, and no capability."""
        declared = agent.manifest.capabilities
        best = min(declared, key=lambda item: (item.latency_weight, -item.confidence, item.name), default=None)
        return None if best is None else self.resolve(agent, best.name.encode())

    def choose(
        self, capability: bytes, grant: Grant = EVERYTHING, without: AbstractSet[Registration] = frozenset(),
        kind: Interface | None = None,
    ) -> Choice | None:  # fmt: skip
        """The best of the holders that take work: fewest outstanding, then lightest, then most confident.

        Holders of the capability itself come before those below it, and fallback agents last (spec 3, "Agent Lookup"). An agent
        that restarts counts as having 128 delegations more than it has. Among equals the turn goes round.

        Args:
            capability: what is asked for.
            grant: what the delegator may reach.
            without: agents that are passed over.
            kind: only agents that take such delegations; None asks for no kind.
        """
        reach: _Reach = grant if kind is None else (grant, kind)
        groups = self._groups.get(capability)
        group = groups.get(reach) if groups is not None else None
        if group is None:
            group = self._group(capability, reach)
        choice = group.choose(without) if group is not None else None
        if choice is not None or capability == _ANY:
            return choice
        fallbacks = self._group(_ANY, EVERYTHING if kind is None else (EVERYTHING, kind))
        if fallbacks is None:
            return None
        found = fallbacks.choose(without, lambda agent: self._fallback(agent, capability, grant) is not None)
        self.filled += _PASSED * fallbacks.passed
        return None if found is None else self._fallback(found.agent, capability, grant)

    @property
    def declared(self) -> Mapping[bytes, Collection[Registration]]:
        """{capability: who declares it}, in the order of registering."""
        return self._declared

    # -- the index -----------------------------------------------------------------------------------------------

    def _fallbacks(self, capability: bytes, grant: Grant) -> Iterator[Choice]:
        for fallback in islice(self._group(_ANY, EVERYTHING) or (), MOST_PASSED):
            choice = self._fallback(fallback.agent, capability, grant)
            if choice is not None:
                yield choice

    def _fallback(self, agent: Registration, capability: bytes, grant: Grant) -> Choice | None:
        choice = self.resolve(agent, capability)
        return choice if choice is not None and choice.tier == _FALLBACK and _permits(grant, choice) else None

    def _group(self, name: bytes, reach: _Reach) -> Holders | None:
        """Who may do it, of those that may be reached; None when nobody declares it."""
        groups = self._groups.get(name)
        group = groups.get(reach) if groups is not None else None
        if group is None and (declared := self._askable.get(name)) is not None:
            members = sum(len(self._declared[capability]) for capability in declared)
            self._make_room(members)
            self.filled += members
            group = self._made[name, reach] = self._open(name, reach)
        return group

    def _make_room(self, members: int) -> None:
        """Drop the oldest of the groups that were made when asked for, while they are too many with one more."""
        members += sum(map(len, self._made.values()))
        while self._made and (len(self._made) >= _MOST_GROUPS or members > _MOST_MEMBERS):
            (name, reach), group = next(iter(self._made.items()))
            del self._made[name, reach], self._groups[name][reach]
            members -= len(group)
            for choice in group:
                del choice.agent.groups[group]

    def _index(self, agent: Registration) -> None:
        interface = agent.manifest.interface
        agent.takes_any = not interface or Interface.DUAL_PHASE in interface or len(interface) > 1
        exact: dict[bytes, Choice] = {}
        for capability in agent.manifest.capabilities:
            declared = capability.name.encode()
            exact[declared] = Choice(agent, capability, declared, capability.idempotent, 0)
            if declared not in self._declared:
                self._declare(declared)
            self._declared[declared][agent] = None
        for name in {name: None for declared in exact for name in self._fed[declared]}:  # in each group once
            for reach, group in self._groups[name].items():
                self._add(exact.get(name) or _choice(agent, name), reach, group)
        for declared in exact:
            if EVERYTHING not in self._groups.get(declared, ()):
                self._open(declared, EVERYTHING)

    def _declare(self, capability: bytes) -> None:
        self._declared[capability] = {}
        self._capabilities.add(capability)
        fed = self._fed[capability] = {}
        for name in _asked_as(capability.decode()):
            self._askable.setdefault(name, {})[capability] = None
            if name in self._groups:
                fed[name] = None

    def _undeclare(self, capability: bytes) -> None:
        del self._declared[capability], self._fed[capability]
        self._capabilities.remove(capability)
        for name in _asked_as(capability.decode()):
            declared = self._askable[name]
            del declared[capability]
            if not declared:
                del self._askable[name]
                for reach in self._groups.pop(name, {}):
                    self._made.pop((name, reach), None)

    def _open(self, name: bytes, reach: _Reach) -> Holders:
        """Make a group of all who may do it."""
        if name not in self._groups:
            self._groups[name] = {}
            for capability in self._askable[name]:
                self._fed[capability][name] = None
        group = self._groups[name][reach] = Holders()
        for capability in self._askable[name]:
            for agent in self._declared[capability]:
                if group not in agent.groups:
                    self._add(_choice(agent, name), reach, group)
        return group

    def _add(self, choice: Choice | None, reach: _Reach, group: Holders) -> None:
        if choice is None or choice.tier == _FALLBACK or not _permits(reach, choice):
            return
        group.add(choice)
        agent = choice.agent
        agent.groups[group] = None
        members = len(group)
        if members == 2:  # noqa: PLR2004  with one there was nothing to choose from, and it was told nothing
            for other in group:
                other.agent.mailbox.on_fall = other.agent.load_fell
                group.update(other.agent)
        elif members > 2:  # noqa: PLR2004  one more of several
            agent.mailbox.on_fall = agent.load_fell

    def _unindex(self, agent: Registration) -> None:
        for group in agent.groups:
            group.discard(agent)
        agent.groups.clear()
        for capability in agent.manifest.capabilities:
            declared = capability.name.encode()
            del self._declared[declared][agent]
            if not self._declared[declared]:
                self._undeclare(declared)


def _choice(agent: Registration, asked: bytes) -> Choice | None:
    name = asked.decode(errors="replace")
    capability = agent.manifest.resolve(name)
    if capability is None:
        return None
    tier = 0 if capability.name == name else 2 if capability.name == ANY else 1
    if tier < _FALLBACK:
        return Choice(agent, capability, capability.name.encode(), capability.idempotent, tier)
    return Choice(agent, capability, asked, capability.idempotent, tier)


def _permits(reach: _Reach, choice: Choice) -> bool:
    if isinstance(reach, tuple):
        reach, kind = reach
        if not choice.agent.takes(kind):
            return False
    return reach is EVERYTHING or reach.permits(choice.name.decode(errors="replace"), choice.agent.manifest.agent)


@lru_cache(maxsize=4096)
def _asked_as(name: str) -> list[bytes]:
    """The names under which `Manifest.resolve` finds a capability: its own, what it ends with, and what it is below."""
    words = name.split(".")
    return [
        *(".".join(words[first:]).encode() for first in range(len(words))),
        *(".".join(words[:last]).encode() for last in range(1, len(words))),
    ]
