"""The nodes of a running cluster, and the names that the agents of a changed specification get there.

known ────┐
          ├── place ──► wanted: each node with its agents, under the names that the known ones have already
nodes ────┘
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count, islice
from typing import Final, NamedTuple

from ether.cluster.cluster_spec import AgentSpec, NamedAgents, NodeSpec
from ether.cluster.reloading.spec_changes import changed_fields
from ether_actors.agent.agent import free_names

__all__ = ["HostedNode", "agents_by_name", "place", "without"]

_serials: Final = count(1)


class HostedNode(NamedTuple):
    """A node of a running cluster: its specification, and its agents under the names that they have."""

    spec: NodeSpec
    agents: Sequence[NamedAgents]
    serial: int
    """Of this state of the node: a process says which one it tells of."""

    @classmethod
    def of(cls, spec: NodeSpec, agents: Sequence[NamedAgents]) -> HostedNode:
        """A new state of a node."""
        return cls(spec, [agent for agent in agents if agent.names], next(_serials))

    @property
    def names(self) -> list[tuple[str, ...]]:
        """The names of its agents, kind by kind."""
        return [agent.names for agent in self.agents]


def place(known: Mapping[str, HostedNode], nodes: Iterable[NodeSpec]) -> dict[str, HostedNode]:
    """Give the agents of a new specification the names of the known ones, and the others free ones: {node: its new state}.

    On one node, the agents of an entry keep their names if there was an equal entry, or else one of the same name or class;
    one that scales keeps all, whatever its bounds are, so that each instance that is up may stay. One that is new on its node
    may have its first name and as many as it has instances that no agent of another node has: so it starts before those go.
    A name that the new specification gives is never another's.
    """
    nodes = list(nodes)
    given = {agent.name for node in nodes for agent in node.agents if agent.name is not None}
    kept: dict[int, list[str]] = {}
    """{place of an agent: names}, of which those are still missing that no agent had."""
    agents = [agent for node in nodes for agent in node.agents]
    first = 0
    for node in nodes:
        left = list(known[node.name].agents) if node.name in known else []
        for but in (("count",), ("count", "scale"), None):
            for at, agent in enumerate(node.agents, first):
                found = next((one for one in left if _fits(one.agent, agent, but)), None)
                if at not in kept and found is not None:
                    left.remove(found)
                    names = [name for name in found.names if name not in given or name == agent.name]
                    may_be_up = found.agent.scale is not None and agent.scale is not None
                    kept[at] = names if may_be_up else names[: agent.most]
        first += len(node.agents)
    used = {name for names in kept.values() for name in names}
    homes = [node.name for node in nodes for _ in node.agents]
    for is_named in (True, False):
        for at, (agent, home) in enumerate(zip(agents, homes, strict=True)):
            if (agent.name is not None) is is_named:
                names = kept.setdefault(at, [])
                free = free_names(agent.base_name, used)
                held = set[str]()
                if agent.scale is not None:
                    held = {name for node, one in known.items() if node != home for own in one.names for name in own}
                    if not names:
                        names.append(next(free))  # by which a report tells of it, also while another has that
                missing = agent.most - sum(name not in held for name in names)
                names += islice((name for name in free if name not in held), max(0, missing))
                used.update(names)
        used |= given
    places = iter(range(len(agents)))
    return {
        node.name: HostedNode.of(node, [NamedAgents(agent, tuple(kept[next(places)])) for agent in node.agents])
        for node in nodes
    }


def agents_by_name(hosted: HostedNode | None) -> dict[str, AgentSpec]:
    """{name: its specification}, of the agents of a node, each as if it were the only one of its entry."""
    alone = [] if hosted is None else [(replace(agent, count=1, name=None), names) for agent, names in hosted.agents]
    return {name: agent for agent, names in alone for name in names}


def without(agents: Iterable[NamedAgents], names: Iterable[str]) -> list[NamedAgents]:
    """The agents but those of some names."""
    gone = frozenset(names)
    return [NamedAgents(agent, tuple(name for name in own if name not in gone)) for agent, own in agents]


def _fits(old: AgentSpec, new: AgentSpec, but: Sequence[str] | None) -> bool:
    """Whether an entry takes another's place: it says the same but for some fields, or else it names the same."""
    if but is not None:
        return not changed_fields(old, new, *but)
    return (old.name is None, old.base_name) == (new.name is None, new.base_name)
