"""The registry: which agents there are, what they can do, and which of them gets a piece of work."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Container
from dataclasses import dataclass, field
from enum import StrEnum, unique
from typing import TYPE_CHECKING, Any, NamedTuple

from ether_broker.errors import DuplicateAgent
from ether_broker.mailbox import Limits, Mailbox
from ether_broker.manifest import ANY, Capability, Manifest
from ether_broker.model import CAPABILITY_PATTERN, MAX_NAME

if TYPE_CHECKING:
    from ether_broker.router import Session

__all__ = ["Choice", "Condition", "Registration", "Registry"]


@unique
class Condition(StrEnum):
    """How an agent is; *busy* is no condition of its health (design page, G3)."""

    UP = "up"
    """Takes work."""
    RESTARTING = "restarting"
    """Crashed and comes back; its mailbox is kept and takes more."""
    DRAINING = "draining"
    """Finishes what it has and takes nothing new."""
    DOWN = "down"
    """Its node is gone, or its supervisor gave up; its mailbox is kept until the deadlines in it."""


@dataclass(eq=False, slots=True)
class Registration:
    """One agent in the registry."""

    manifest: Manifest
    name: bytes
    session: Session
    mailbox: Mailbox[Any]
    """Of ledger entries."""
    condition: Condition = Condition.UP
    load: dict[str, object] = field(default_factory=dict)
    """What its node said of it with its last heartbeat: running, waiting, busy_for; empty when it had nothing to do."""
    ended: dict[int, int] = field(default_factory=dict)
    """Outcomes so far: {status: count}."""
    recent: deque[float] | None = None
    """Seconds from acceptance to outcome of the last 256; None before the first."""


class Choice(NamedTuple):
    """Who gets a delegation."""

    agent: Registration
    capability: Capability
    """As declared; the delegation's may be a short form or a prefix of it."""
    name: bytes
    """The capability's name as it travels: what is declared, but for a fallback agent, which is told what was asked."""
    idempotent: bool
    tier: int
    """0 for the capability itself, 1 for one below it or a short form, 2 for a fallback agent's `*`."""


class Registry:
    """Agents by name and by capability."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._agents: dict[bytes, Registration] = {}
        self._holders: dict[bytes, list[Choice]] = {}
        self._askable: dict[str, dict[Registration, None]] = {}
        """{each name under which a capability can be asked for: who declares it}, in the order of registering."""
        self._resolved: dict[tuple[bytes, bytes], Choice | None] = {}
        self._turn = 0

    def __len__(self) -> int:
        return len(self._agents)

    @property
    def agents(self) -> list[Registration]:
        """All agents, in the order in which they first registered."""
        return list(self._agents.values())

    def get(self, name: bytes) -> Registration | None:
        """The agent of that name."""
        return self._agents.get(name)

    def register(self, manifest: Manifest, session: Session) -> Registration:
        """Enter an agent, or bring back one that was down: its mailbox is kept.

        Raises:
            DuplicateAgent: a living agent has the name.
        """
        name = manifest.agent.encode()
        known = self._agents.get(name)
        is_taken = known is not None and known.condition is not Condition.DOWN and not known.session.lost
        if known is not None and is_taken and known.session is not session:
            msg = f"An agent named {manifest.agent!r} lives on node {known.session.node!r}: choose another name."
            raise DuplicateAgent(msg)
        self._forget_choices()
        session.agents.add(name)
        if known is not None:
            self._unindex(known)
            known.manifest, known.condition, known.load = manifest, Condition.UP, {}
            known.mailbox.resume(reset=known.session is not session)
            known.session = session
            self._index(known)
            return known
        agent = self._agents[name] = Registration(manifest, name, session, Mailbox(self._limits))
        self._index(agent)
        return agent

    def restore(self, manifest: Manifest, session: Session, condition: Condition) -> Registration:
        """Enter an agent as a journal knows it; its mailbox takes work and gives none until it registers again."""
        agent = self._agents[manifest.agent.encode()] = Registration(
            manifest, manifest.agent.encode(), session, Mailbox(self._limits)
        )  # fmt: skip
        session.agents.add(agent.name)
        self._index(agent)
        self._forget_choices()
        self.condition(agent, condition)
        return agent

    def remove(self, agent: Registration) -> None:
        """Take an agent out for good."""
        self._forget_choices()
        agent.session.agents.discard(agent.name)
        if self._agents.pop(agent.name, None) is not None:
            self._unindex(agent)

    def _index(self, agent: Registration) -> None:
        """Enter an agent under what it can be asked for, so that a choice looks at few and not at all of them."""
        for capability in agent.manifest.capabilities:
            for name in _asked_as(capability.name):
                self._askable.setdefault(name, {})[agent] = None

    def _unindex(self, agent: Registration) -> None:
        for capability in agent.manifest.capabilities:
            for name in _asked_as(capability.name):
                declaring = self._askable.get(name, {})
                declaring.pop(agent, None)
                if not declaring:
                    self._askable.pop(name, None)

    def _forget_choices(self) -> None:
        self._holders.clear()
        self._resolved.clear()

    def condition(self, agent: Registration, condition: Condition) -> None:
        """Note how an agent is."""
        agent.condition = condition
        if condition is Condition.UP:
            agent.mailbox.resume()
        else:
            agent.mailbox.pause()

    def holders(self, capability: bytes) -> list[Choice]:
        """Everybody who may do it, whatever their condition.

        Whoever declares the capability itself comes before those who declare something below it, and these before
        the fallback agents (spec 3, "Agent Lookup").
        """
        found = self._holders.get(capability)
        if found is None:
            if len(self._holders) > _MOST_CACHED:
                self._holders.clear()
            found = self._holders[capability] = self._find(capability.decode(errors="replace"))
        return found

    def _find(self, name: str) -> list[Choice]:
        declaring = {**self._askable.get(name, {}), **self._askable.get(ANY, {})}
        found = [choice for agent in declaring if (choice := _choice(agent, name)) is not None]
        return sorted(found, key=_standing)

    def resolve(self, agent: Registration, capability: bytes) -> Choice | None:
        """What the agent makes of a capability that it is asked for by name, or None (G10)."""
        key = (agent.name, capability)
        if key not in self._resolved:
            if len(self._resolved) > _MOST_CACHED:
                self._resolved.clear()
            self._resolved[key] = _choice(agent, capability.decode(errors="replace"))
        return self._resolved[key]

    def choose(self, capability: bytes, without: Container[Registration] = ()) -> Choice | None:
        """The best of the holders that take work: fewest outstanding, then lightest, then most confident.

        Holders of the capability itself come before all others, and fallback agents come last. Among equals the turn
        goes round.
        """
        holders = self.holders(capability)
        count = len(holders)
        if count == 1 and not without:
            return holders[0] if holders[0].agent.condition in _TAKES else None
        best: Choice | None = None
        best_rank: tuple[int, int, float, float] = (0, 0, 0.0, 0.0)
        start = self._turn = (self._turn + 1) % (count or 1)
        first = _standing(holders[0]) if holders else None
        for index in range(count):
            choice = holders[(start + index) % count]
            if choice.agent.condition not in _TAKES or choice.agent in without:
                continue
            tier, weight, confidence = standing = _standing(choice)
            rank = (tier, choice.agent.mailbox.outstanding, weight, confidence)
            if rank[1] == 0 and standing == first:
                return choice
            if best is None or rank < best_rank:
                best, best_rank = choice, rank
        return best

    def capabilities(self) -> dict[str, list[str]]:
        """{capability: names of its holders}."""
        found: dict[str, list[str]] = {}
        for agent in self._agents.values():
            for capability in agent.manifest.capabilities:
                found.setdefault(capability.name, []).append(agent.manifest.agent)
        return dict(sorted(found.items()))


_MOST_CACHED = 10_000
_FALLBACK = 2
_IS_NAME = re.compile(CAPABILITY_PATTERN).fullmatch
_TAKES = frozenset({Condition.UP, Condition.RESTARTING})


def _choice(agent: Registration, name: str) -> Choice | None:
    capability = agent.manifest.resolve(name)
    if capability is None:
        return None
    tier = 0 if capability.name == name else 2 if capability.name == ANY else 1
    if tier < _FALLBACK:
        return Choice(agent, capability, capability.name.encode(), capability.idempotent, tier)
    if len(name) > MAX_NAME or not _IS_NAME(name):
        return None
    return Choice(agent, capability, name.encode(), capability.idempotent, tier)


def _asked_as(name: str) -> list[str]:
    """The names under which `Manifest.resolve` finds a capability: its own, what it ends with, and what it is below."""
    words = name.split(".")
    return [
        *(".".join(words[first:]) for first in range(len(words))),
        *(".".join(words[:last]) for last in range(1, len(words))),
    ]


def _standing(choice: Choice) -> tuple[int, float, float]:
    """What ranks a holder apart from its load: the smaller the better."""
    return choice.tier, choice.capability.latency_weight, -choice.capability.confidence
