"""The comparison of a running cluster with a changed specification: what a reload may change, and what it is to start and stop.

    running ──┐
              ├── place ──► wanted: each node with its agents, under the names that the running ones have already
    nodes ────┘

What is the same is compared whole, field by field, whatever fields a specification has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import count, islice
from typing import Any, Final, NamedTuple

from ether.cluster.cluster_spec import AgentSpec, ClusterSpec, NamedAgents, NodeSpec, ObserverSpec
from ether_actors.agent.agent import free_names
from ether_broker.envelope.payload import pack
from ether_broker.errors import InvalidSpec

__all__ = [
    "HostedNode",
    "ReloadReport",
    "agents_by_name",
    "changed_fields",
    "check_reload",
    "must_be_another",
    "place",
    "without",
]

_KEYS: Final = {
    "keys": "security.keys", "insecure": "security.insecure", "access": "access", "limits": "limits", "timing": "timing",
    "journal": "cluster.journal or cluster.durability",
}  # fmt: skip
"""{field: where it stands in a cluster file}, unless it is a key of `cluster`."""
_SHOWN: Final = 60
_serials: Final = count(1)


@dataclass(frozen=True, slots=True)
class ReloadReport:
    """The report of a reload: what became of each node, and of each agent as `NODE/AGENT`.

    An agent that scales stands once, by the name of its first instance, however many it has.

    Example:
        from ether.cluster import ReloadReport

        report = ReloadReport(started=("n2", "n2/counter"), restarted={"n1/scout": "kwargs"}, unchanged=("n1",))
        assert report.is_complete
    """

    started: tuple[str, ...] = ()
    """Came with the new specification, or had given up and was started again."""
    restarted: Mapping[str, str] = field(default_factory=dict)
    """Drained and started anew, and which of its fields had changed; of a node, with all its agents."""
    stopped: tuple[str, ...] = ()
    """Drained, and left the bus."""
    rescaled: tuple[str, ...] = ()
    """Agents that scale, and have other bounds; the instances that are within them noticed nothing."""
    unchanged: tuple[str, ...] = ()
    """Noticed nothing, those among them that had left the bus by themselves; of a node, its process."""
    overran: tuple[str, ...] = ()
    """Agents that had not ended what they worked at when `drain` was over: the bus has ruled on it."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """What did not start, or had not started or answered in time, and why."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing failed."""
        return not self.failed

    def lines(self) -> list[str]:
        """The report for people, a line for each word that something is told of."""
        restarted = [f"{name} ({changed})" for name, changed in self.restarted.items()]
        told: dict[str, Sequence[str]] = {
            "started": self.started, "restarted": restarted, "rescaled": self.rescaled, "stopped": self.stopped,
            "overran": self.overran, "unchanged": self.unchanged,
        }  # fmt: skip
        lines = [f"{word:<10}{', '.join(names)}" for word, names in told.items() if names]
        return [*lines, *(f"{'failed':<10}{name}: {why}" for name, why in self.failed.items())]

    def as_dict(self) -> dict[str, Any]:
        """Its fields, as JSON carries them; the class takes them again."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


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


def check_reload(old: ClusterSpec, new: ClusterSpec) -> None:
    """Check that a reload may turn one specification into another.

    Raises:
        InvalidSpec: something else than the nodes has changed; the message names each.
        Unserialisable: an argument of an agent or observer cannot travel to its node's process.
    """
    if changed := changed_fields(old, new, "nodes"):
        told = (
            f"{_KEYS.get(name, f'cluster.{name}')} ({_shown(old, name)}, now {_shown(new, name)})" for name in changed
        )
        raise InvalidSpec(
            f"A reload cannot change {', '.join(told)}: it changes the nodes, and the rest belongs to the broker or to the "
            "cluster as a whole. Nothing was changed; end the cluster and start it again for this, or undo it in the file."
        )
    for node in new.nodes:
        specs: tuple[AgentSpec | ObserverSpec, ...] = (*node.agents, *node.observers)
        for one in specs:
            pack(one.as_dict(), where=f"{one.start} of {node.name}")


def changed_fields(old: Any, new: Any, *but: str) -> list[str]:
    """The fields in which two values of one dataclass differ, other than some."""
    names = (one.name for one in fields(new) if one.name not in but)
    return [name for name in names if not _is_same(getattr(old, name), getattr(new, name))]


def must_be_another(old: AgentSpec, new: AgentSpec) -> bool:
    """Whether an agent, or an instance, must be replaced: anything but how many there may be has changed."""
    return (old.scale is None) is not (new.scale is None) or bool(changed_fields(old, new, "count", "name", "scale"))


def place(running: Mapping[str, HostedNode], nodes: Iterable[NodeSpec]) -> dict[str, HostedNode]:
    """Give the agents of a new specification the names of those that run, and the others free ones: {node: its new state}.

    On one node, the agents of an entry keep their names if there was an equal entry, or else one of the same name or class;
    one that scales keeps all, whatever its bounds are, so that each instance that is up may stay.
    A name that the new specification gives is never another's.
    """
    nodes = list(nodes)
    given = {agent.name for node in nodes for agent in node.agents if agent.name is not None}
    kept: dict[int, list[str]] = {}
    """{place of an agent: names}, of which those are still missing that no agent had."""
    agents = [agent for node in nodes for agent in node.agents]
    first = 0
    for node in nodes:
        left = list(running[node.name].agents) if node.name in running else []
        for but in (("count",), ("count", "scale"), None):
            for at, agent in enumerate(node.agents, first):
                found = next((known for known in left if _fits(known.agent, agent, but)), None)
                if at not in kept and found is not None:
                    left.remove(found)
                    names = [name for name in found.names if name not in given or name == agent.name]
                    may_be_up = found.agent.scale is not None and agent.scale is not None
                    kept[at] = names if may_be_up else names[: agent.most]
        first += len(node.agents)
    used = {name for names in kept.values() for name in names}
    for is_named in (True, False):
        for at, agent in enumerate(agents):
            if (agent.name is not None) is is_named:
                names = kept.setdefault(at, [])
                names += islice(free_names(agent.base_name, used), max(0, agent.most - len(names)))
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


def _is_same(old: Any, new: Any) -> bool:
    """Whether two values are equal and of the same types: to Python, 1 is True."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return old.keys() == new.keys() and all(_is_same(value, new[key]) for key, value in old.items())
    if isinstance(old, list | tuple) and isinstance(new, list | tuple):
        return len(old) == len(new) and all(map(_is_same, old, new))
    return type(old) is type(new) and bool(old == new)


def _shown(spec: ClusterSpec, name: str) -> str:
    text = repr(getattr(spec, name))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
