"""The specifications of a cluster, its nodes and their agents: values that start nothing.

ClusterSpec.of(2, ["agents:Scout"])                        # that agent on each of two nodes
ClusterSpec((NodeSpec("n1", (AgentSpec("agents:Scout", count=2),)),))
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import chain, combinations, islice
from pathlib import Path
from types import UnionType
from typing import Any, Final, NamedTuple

from ether.cluster.metrics_endpoint import MetricsSpec
from ether_actors.agent.agent import default_name, free_names
from ether_actors.agent.scale import Scale
from ether_actors.backoff import Backoff
from ether_actors.restarts.supervisor_spec import ChildSpec, Restart, SupervisorSpec
from ether_broker.envelope.names import NAME_PATTERN
from ether_broker.errors import InvalidEndpoint, InvalidSpec
from ether_broker.journal.location import default_journal
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.name_hint import hint_fields, nearest
from ether_broker.number import is_number
from ether_broker.security.access_list import Access
from ether_broker.timing import DEFAULT_TIMING, Timing
from ether_broker.transport.endpoint import check_endpoint, is_exposed

__all__ = [
    "DRAIN",
    "INTENSITY",
    "PERIOD",
    "START_TIMEOUT",
    "AgentLike",
    "AgentSpec",
    "ClusterSpec",
    "NamedAgents",
    "NodeSpec",
    "ObserverSpec",
    "agent_specs",
    "journal_of",
    "name_agents",
]

DRAIN: Final = 10.0
"""Seconds that running work has when a node is told to end."""
START_TIMEOUT: Final = 30.0
"""Seconds that each process has to come up."""
INTENSITY: Final = 5
"""Restarts of one process within `PERIOD` that are allowed."""
PERIOD: Final = 30.0
"""Seconds."""
_NAME: Final = re.compile(NAME_PATTERN)
_TREE: Final = SupervisorSpec("an agent alone")
"""What an agent that is started alone is restarted by, unless its spec says otherwise."""
DURABILITIES: Final = ("journal", "memory")
LOG_LEVELS: Final = ("debug", "info", "warning", "error", "critical")


@hint_fields
@dataclass(frozen=True, slots=True)
class AgentSpec:
    """The specification of an agent, or of several of one class, that a node's process starts.

    Example:
        agent = AgentSpec("crawlers:PageCrawler", count=4, restart=Restart.TRANSIENT)
        assert agent.base_name == "page-crawler"
        ClusterSpec(nodes=(NodeSpec("node-1", agents=(agent,)),))

    Raises:
        InvalidSpec: a field has a value that it cannot have; the message says which.
    """

    start: str
    """`module:Class`, importable in the node's process; a class is taken too, and turned into that."""
    name: str | None = None
    """On the bus; default: the class's name as `code-reviewer`. Where several would have it, all but the first
    get a number behind it."""
    count: int = 1
    """How many."""
    args: tuple[Any, ...] = ()
    """For the class; they travel as msgpack."""
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    """For the class; they travel as msgpack."""
    restart: Restart = Restart.PERMANENT
    """What follows a crash of the agent; the word itself is taken too."""
    intensity: int = _TREE.intensity
    """Restarts of the agent within `period` that are allowed; at one more, it has given up, and leaves the bus."""
    period: float = _TREE.period
    """Seconds."""
    backoff: Backoff = _TREE.backoff
    """The delays between its restarts."""
    escalate: bool = False
    """Whether its node's process ends when it has given up, and is started again, with its other agents; this counts as a
    crash of the node in the cluster's `intensity`."""
    scale: Scale | None = None
    """Bounds within which instances come and go with what waits for them, instead of `count`."""

    def __post_init__(self) -> None:
        """Check, and turn classes, words and lists into what the fields promise."""
        start: object = self.start
        if isinstance(start, type) or (isinstance(start, str) and start.startswith("__main__:")):
            start = _reference(start)
        if not _is_reference(start):
            raise InvalidSpec(f"An agent's start is {start!r}: write module:Class, as in 'reviews:Scout'.")
        _check_whole(f"{start}: count", self.count)
        if self.name is not None:
            _check_name(f"{start}", self.name)
        object.__setattr__(self, "start", start)
        object.__setattr__(self, "args", tuple(self.args))
        object.__setattr__(self, "kwargs", dict(self.kwargs))
        object.__setattr__(self, "restart", Restart(self.restart))
        if not isinstance(self.backoff, Backoff):
            raise InvalidSpec(
                f"{start}: backoff is {self.backoff!r:.80}: give a Backoff, as Backoff(initial=0.5, maximum=10.0)."
            )
        if not isinstance(self.escalate, bool):
            raise InvalidSpec(f"{start}: escalate is {self.escalate!r:.80}: give True or False.")
        if not isinstance(self.scale, Scale | None):
            raise InvalidSpec(f"{start}: scale is {self.scale!r:.80}: give a Scale, as Scale(max=8).")
        if self.scale is not None and self.count != 1:
            raise InvalidSpec(f"{start}: count is {self.count} beside a scale: leave count out, and give scale.min.")
        self.tree(self.base_name)

    def as_dict(self) -> dict[str, Any]:
        """Its fields as a request carries them; `of_dict` takes them again."""
        own = {one.name: getattr(self, one.name) for one in fields(self)}
        scale = None if self.scale is None else asdict(self.scale)
        return {**own, "restart": self.restart.value, "backoff": asdict(self.backoff), "scale": scale}

    @classmethod
    def of_dict(cls, carried: Mapping[str, Any]) -> AgentSpec:
        """The spec that `as_dict` gave."""
        scale = None if carried["scale"] is None else Scale(**carried["scale"])
        return cls(**{**carried, "backoff": Backoff(**carried["backoff"]), "scale": scale})

    def tree(self, name: str) -> SupervisorSpec:
        """The supervision tree of one of them: alone in it, so that its crashes affect no other agent.

        Raises:
            InvalidSpec: `intensity` or `period` is out of its range.
        """
        child = ChildSpec(name, self.start, self.args, self.kwargs, self.restart)
        return SupervisorSpec(
            name, intensity=self.intensity, period=self.period, backoff=self.backoff, children=(child,)
        )

    @property
    def most(self) -> int:
        """How many of them there may be at a time."""
        return self.count if self.scale is None else self.scale.max

    @property
    def base_name(self) -> str:
        """The name of the first of them, if nobody else has it."""
        last = self.start.rpartition(":")[2].rpartition(".")[2]
        return self.name or default_name(type(last, (), {}))


@hint_fields
@dataclass(frozen=True, slots=True)
class ObserverSpec:
    """The specification of an observer that a node's process attaches.

    Example:
        from ether.cluster import ObserverSpec

        node = NodeSpec("watch", observers=(ObserverSpec("ether.observers:Log"),))
        assert node.observers == (ObserverSpec("ether.observers:Log", kwargs={}),)

    Raises:
        InvalidSpec: a field has a value that it cannot have.
    """

    start: str
    """`module:Class` of an `ether.Observer`, importable in the node's process; a class is taken too."""
    args: tuple[Any, ...] = ()
    """For the class; they travel as msgpack."""
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    """For the class; they travel as msgpack."""

    def __post_init__(self) -> None:
        """Check, and turn classes and lists into what the fields promise."""
        start: object = self.start
        if isinstance(start, type) or (isinstance(start, str) and start.startswith("__main__:")):
            start = _reference(start)
        if not _is_reference(start):
            raise InvalidSpec(f"An observer's start is {start!r}: write module:Class, as in 'audit:Trail'.")
        object.__setattr__(self, "start", start)
        object.__setattr__(self, "args", tuple(self.args))
        object.__setattr__(self, "kwargs", dict(self.kwargs))

    def as_dict(self) -> dict[str, Any]:
        """Its fields as a request carries them; the class takes them again."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


AgentLike = AgentSpec | str | type
"""What stands for an agent: its spec, `module:Class`, or the class itself."""


@hint_fields
@dataclass(frozen=True, slots=True)
class NodeSpec:
    """The specification of a node: a process that hosts agents.

    Example:
        node = NodeSpec("node-1", agents=("crawlers:PageCrawler", AgentSpec("crawlers:Index", count=2)), threads=8)
        assert [agent.count for agent in node.agents] == [1, 2]

    Raises:
        InvalidSpec: a field has a value that it cannot have.
    """

    name: str
    """Unique on the bus."""
    agents: tuple[AgentSpec, ...] = ()
    """Started in this order; classes and `module:Class` are taken too."""
    threads: int = 4
    """Handlers of plain methods that run at a time, those that wait for sub-delegations not counted."""
    observers: tuple[ObserverSpec, ...] = ()
    """Attached before the agents start; classes and `module:Class` are taken too."""
    metrics: MetricsSpec | None = None
    """Where Prometheus gets the metrics of the whole bus; None is nowhere."""

    def __post_init__(self) -> None:
        """Check, and turn what stands for an agent or an observer into its spec."""
        _check_name("A node", self.name)
        _check_whole(f"Node {self.name!r}: threads", self.threads)
        object.__setattr__(self, "agents", agent_specs(self.agents))
        if isinstance(self.observers, str | type | ObserverSpec):
            raise InvalidSpec(f"observers is {self.observers!r}: give a list, as in ['audit:Trail'].")
        observers = (one if isinstance(one, ObserverSpec) else ObserverSpec(one) for one in self.observers)
        object.__setattr__(self, "observers", tuple(observers))
        if not isinstance(self.metrics, MetricsSpec | None):
            raise InvalidSpec(f"metrics is {self.metrics!r:.80}: give a MetricsSpec, as in MetricsSpec(port=9464).")


_BACKOFF: Final = (
    "a Backoff, the delays between restarts of one process, as Backoff(initial=0.5); the pauses between attempts to get "
    "through to a peer are Timing(max_backoff=…)"
)
_KINDS: Final[tuple[tuple[str, type | UnionType, str], ...]] = (
    ("access", Access | None, 'an Access, as Access(delegate=[DelegateRule("laptop*", "people.*")]), or None'),
    ("limits", Limits, "Limits, as Limits(mailbox_count=100)"),
    ("timing", Timing, "a Timing, as Timing(heartbeat=5.0, silence=15.0)"),
    ("backoff", Backoff, _BACKOFF),
)
"""Fields of a cluster's specification whose type would be missed much later, in its processes."""


@hint_fields
@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """The specification of a cluster: its broker, its nodes, and how their processes are kept running.

    A value that starts nothing; `Cluster(spec)` starts it.

    Example:
        spec = ClusterSpec(
            name="crawl",
            nodes=(NodeSpec("node-1", agents=("crawlers:PageCrawler",)), NodeSpec("node-2")),
            journal="crawl.db",
        )
        assert spec.nodes[0].agents == (AgentSpec("crawlers:PageCrawler"),)

    Raises:
        InvalidSpec: there is no node, two have one name, an agent has the name of a node, or a field has a value that it cannot
            have.
        InvalidEndpoint: `bind` is no address; or it is to be advertised, and no other machine reaches it.
    """

    nodes: tuple[NodeSpec, ...]
    """Started side by side, once the broker runs."""
    name: str = "default"
    """Of the cluster; the default address is made of it."""
    bind: str | None = None
    """The broker's address, `tcp://HOST:PORT` (`*` takes a free port) or `ipc:///PATH`. None is a socket in a
    private folder for `Cluster`, and the user's default address for `up`."""
    advertise: bool = False
    """Whether other machines of the local network can find the broker by the cluster's name; `bind` must be a TCP
    address that they reach."""
    keys: Path | str | None = None
    """The folder of keys: a TCP address is encrypted, and only keys that are allowed there get in, and the cluster's own
    nodes, which have a pair each that lives as long as the cluster. Other addresses need none."""
    insecure: bool = False
    """Whether `bind` may be an address that other machines reach, without keys."""
    access: Access | None = None
    """Who may do what; None is everybody everything. The cluster's nodes may host their agents in any case."""
    drain: float = DRAIN
    """Seconds that running work has when the cluster ends."""
    start_timeout: float = START_TIMEOUT
    """Seconds that each process has to come up."""
    limits: Limits = field(default_factory=Limits)
    """Bounds of the agents' mailboxes, and of the broker's memory."""
    timing: Timing = DEFAULT_TIMING
    """How often the broker and its nodes show that they live, and for how long each waits for the other; also those nodes and
    clients that join from elsewhere."""
    log_level: str = "info"
    """Of the loggers in the nodes: debug, info, warning, error or critical."""
    intensity: int = INTENSITY
    """Restarts of one process within `period` that are allowed; at one more, the process is given up."""
    period: float = PERIOD
    """Seconds."""
    backoff: Backoff = field(default_factory=Backoff)
    """The delays between restarts of one process."""
    escalate: bool = False
    """Whether the cluster ends with a node that is given up; it does with the broker, and with the last node."""
    journal: str | None = None
    """The file in which the broker keeps everything that passes (durability `journal`, G2); None keeps nothing."""

    def __post_init__(self) -> None:
        """Check."""
        object.__setattr__(self, "nodes", tuple(self.nodes))
        _check_given(self.name)
        names = _node_names(self.nodes)
        if self.bind is not None:
            check_endpoint(self.bind)
        if self.advertise:
            _check_advertised(self.name, self.bind)
        if self.log_level not in LOG_LEVELS:
            hint = nearest(self.log_level, LOG_LEVELS)
            raise InvalidSpec(f"{self.log_level!r} is no log level.{hint}")
        for what, seconds in (("drain", self.drain), ("start_timeout", self.start_timeout)):
            if not is_number(seconds) or not 0 <= seconds < float("inf"):
                raise InvalidSpec(f"{what} is {seconds!r}: give seconds, 0 or more.")
        if not isinstance(self.escalate, bool):
            raise InvalidSpec(f"escalate is {self.escalate!r:.80}: give True or False.")
        self._check_kinds()
        _check_shared_names(names, name_agents(self.nodes))

    def _check_kinds(self) -> None:
        for what, kind, example in _KINDS:
            if not isinstance(value := getattr(self, what), kind):
                raise InvalidSpec(f"{what} is {repr(value)[:80]}: give {example}.")

    @classmethod
    def of(
        cls, nodes: int | Iterable[NodeSpec], agents: Iterable[AgentLike] = (), *, durability: str | None = None,
        **fields: Any,
    ) -> ClusterSpec:  # fmt: skip
        """A spec from its short form.

        Args:
            nodes: the nodes; or a number of nodes, `node-1` and so on, on each of which the agents start.
            agents: only with a number.
            durability: `journal` or `memory`, as in a cluster file; None is as `journal` says.
            fields: the others of the spec.

        Raises:
            InvalidSpec, InvalidEndpoint: as the class; also agents beside nodes that have their own.
        """
        if durability is not None:
            fields["journal"] = journal_of(durability, fields.get("journal"), fields.get("name", "default"), Path.cwd())
        specs = agent_specs(agents)
        if isinstance(nodes, str | os.PathLike) and not (text := str(nodes)).isdecimal():
            file = f"a cluster file is read by ether.cluster.load, as in Cluster(load({text!r}))"
            meant = f"an agent, as in Cluster(agents=[{text!r}])" if _is_reference(text) else file
            raise InvalidSpec(f"nodes is {text!r}: give a number of nodes or NodeSpecs; {meant}.")
        if not isinstance(nodes, Iterable) or isinstance(nodes, str):
            number = _check_whole("nodes", nodes)
            return cls(tuple(NodeSpec(f"node-{index + 1}", specs) for index in range(number)), **fields)
        if specs:
            raise InvalidSpec("agents go with a number of nodes: put them into the NodeSpecs instead.")
        return cls(tuple(nodes), **fields)

    def bound_to(self, endpoint: str) -> ClusterSpec:
        """The same with another address."""
        return replace(self, bind=endpoint)


def journal_of(durability: str, journal: str | os.PathLike[str] | None, name: str, origin: Path) -> str | None:
    """The file of a cluster's journal, or None where it keeps none.

    Args:
        durability: `journal` or `memory`.
        journal: the file, if it was named.
        name: of the cluster, whose journal it is otherwise.
        origin: as of `default_journal`.

    Raises:
        InvalidSpec: no such durability; `memory` with a journal; or the name is no name of a folder.
    """
    if durability not in DURABILITIES:
        raise InvalidSpec(f"{durability!r} is no durability.{nearest(durability, DURABILITIES)}")
    if durability == "journal":
        return str(journal or default_journal(name, origin))
    if journal is not None:
        raise InvalidSpec(f"durability memory keeps no journal, and one is named, {journal}: leave one of the two out.")
    return None


class NamedAgents(NamedTuple):
    """Agents of one kind, with the names that they get."""

    agent: AgentSpec
    names: tuple[str, ...]

    @property
    def told(self) -> tuple[str, ...]:
        """The names by which a report tells of them: one that scales stands once, by its first."""
        return self.names if self.agent.scale is None else self.names[:1]

    @property
    def patterns(self) -> tuple[str, ...]:
        """What an access list has to let its node register: who was given no name takes another if its own is taken."""
        base = self.agent.base_name
        return self.names if self.agent.name is not None else (base, f"{base}-*")


def agent_specs(agents: Iterable[AgentLike]) -> tuple[AgentSpec, ...]:
    """Turn what stands for agents into their specs.

    Raises:
        InvalidSpec: as `AgentSpec`.
    """
    if isinstance(agents, str | type | AgentSpec):
        raise InvalidSpec(f"agents is {agents!r}: give a list, as in ['reviews:Scout'].")
    return tuple(agent if isinstance(agent, AgentSpec) else AgentSpec(agent) for agent in agents)  # type: ignore[arg-type]


def name_agents(nodes: Sequence[NodeSpec], taken: Iterable[str] = ()) -> list[list[NamedAgents]]:
    """Name every agent of every node; names are unique on the whole bus.

    Args:
        nodes: in whose order the numbers rise.
        taken: names that others have; an agent that was given a name keeps it all the same.

    Returns:
        For each node its agents.

    Raises:
        InvalidSpec: two different agents were given the same name, or one the name that another has by its class.
    """
    agents = [agent for node in nodes for agent in node.agents]
    named = [agent for agent in agents if agent.name is not None]
    _check_owners(named, [agent for agent in agents if agent.name is None])
    used: set[str] = set()
    names: dict[int, list[tuple[str, ...]]] = {}
    for group in (named, [agent for agent in agents if agent.name is None]):
        for agent in group:
            names.setdefault(id(agent), []).append(_names(agent, used))
        used.update(taken)
    return [[NamedAgents(agent, names[id(agent)].pop(0)) for agent in node.agents] for node in nodes]


def _check_owners(named: Iterable[AgentSpec], unnamed: Iterable[AgentSpec]) -> None:
    owners: dict[str, str] = {}
    for agent in named:
        owner = owners.setdefault(agent.base_name, agent.start)
        if owner != agent.start:
            raise InvalidSpec(f"{owner} and {agent.start} are both named {agent.name!r}: give each a name of its own.")
    for agent in unnamed:  # whose mailbox, and perhaps state, belong to that name
        owner = owners.get(agent.base_name, agent.start)
        if owner != agent.start:
            raise InvalidSpec(
                f"{owner} is named {agent.base_name!r}, the name that {agent.start} has by its class: give one of them another."
            )


def _check_shared_names(nodes: Iterable[str], agents: Iterable[Iterable[NamedAgents]]) -> None:
    """Check that no agent was given, or would be the first to get, the name of a node, as both have theirs in one registry."""
    of_nodes = set(nodes)
    for agent, names in chain.from_iterable(agents):
        shared = of_nodes.intersection(names if agent.name is not None else (agent.base_name,))
        if shared:
            msg = f"{min(shared)!r} is the name of a node, and {agent.start} has it too: nodes and agents share their names."
            raise InvalidSpec(f"{msg} Rename one of the two.")


def _names(agent: AgentSpec, used: set[str]) -> tuple[str, ...]:
    names = tuple(islice(free_names(agent.base_name, used), agent.most))
    used.update(names)
    return names


def _is_reference(start: object) -> bool:
    if not isinstance(start, str):
        return False
    module, colon, name = start.partition(":")
    return bool(colon) and all(part.isidentifier() for part in (*module.split("."), *name.split(".")))


def _reference(cls: type | str) -> str:
    """`module:Class` for a class, or for `__main__:Class`; what a script defines is importable by the script's file name."""
    module, _, name = cls.partition(":") if isinstance(cls, str) else (cls.__module__, "", cls.__qualname__)
    if module == "__main__":
        main = sys.modules["__main__"]
        spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
        if spec is None and (file is None or file.startswith("<")):
            raise InvalidSpec(f"{name} cannot be imported by another process: save it in a file, and run that.")
        module = spec.name if spec else Path(str(file)).stem
    if "<locals>" in name:
        raise InvalidSpec(f"{name} cannot be imported by another process: define it at the top of a module.")
    return f"{module}:{name}"


def _check_advertised(name: str, bind: str | None) -> None:
    from ether_broker.discovery.advert import MAX_LABEL

    if bind is None or not is_exposed(bind):
        now = "it has none" if bind is None else f"{bind} is for this machine only"
        raise InvalidEndpoint(
            f"A broker that is advertised needs an address that other machines reach, and {now}: "
            "say --bind 'tcp://*:7421', or `bind` in the file."
        )
    if len(name) > MAX_LABEL:
        raise InvalidSpec(f"The cluster is named {name!r}: to be advertised, take {MAX_LABEL} characters at most.")


def _node_names(nodes: tuple[NodeSpec, ...]) -> list[str]:
    """The names of a cluster's nodes, checked.

    Raises:
        InvalidSpec: there is no node, one is something else, two have one name or serve metrics at one address, or one has the
            name of the broker's process.
    """
    if not nodes:
        raise InvalidSpec("The cluster has no node: give it one with an agent, or name agents as module:Class.")
    for node in nodes:
        if not isinstance(node, NodeSpec):
            how = "NodeSpec('node-1', agents=['reviews:Scout'])"
            raise InvalidSpec(f"A node is {node!r:.80}: give a NodeSpec, as in {how}.")
    names = [node.name for node in nodes]
    for name in names:
        if names.count(name) > 1:
            raise InvalidSpec(f"Two nodes are named {name!r}: give each a name of its own.")
    if "broker" in names:
        raise InvalidSpec("A node is named 'broker', as the broker's process is: choose another name.")
    _check_metrics(nodes)
    return names


def _check_metrics(nodes: Iterable[NodeSpec]) -> None:
    for node, other in combinations([node for node in nodes if node.metrics is not None], 2):
        if node.metrics is not None and node.metrics.overlaps(other.metrics):
            where = f"{node.metrics.host}:{node.metrics.port}"
            raise InvalidSpec(
                f"{node.name} and {other.name} both serve metrics at {where}: give one of them another port."
            )


def _check_given(name: str) -> None:
    if not name:
        raise InvalidSpec("The name of the cluster is empty: give one, or leave it out for 'default'.")


def _check_name(what: str, name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidSpec(f"{what} is named {name!r}: give it a name of letters, digits and _ . : @ / -, such as 'n1'.")


def _check_whole(what: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidSpec(f"{what} is {value!r}: give a whole number, 1 or more.")
    return value
