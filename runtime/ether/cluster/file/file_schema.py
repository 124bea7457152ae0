"""The schema of a cluster file, which the file loader validates against; its docstrings go into the JSON Schema."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ether.cluster.cluster_spec import DRAIN, INTENSITY, PERIOD, START_TIMEOUT, AgentSpec
from ether_actors.agent.scale import Scale
from ether_actors.backoff import Backoff
from ether_broker.envelope.model import AgentName
from ether_broker.errors import EtherError, InvalidSpec
from ether_broker.mailbox.mailbox_limits import LEAST, Limits
from ether_broker.timing import DEFAULT_TIMING, Timing
from ether_broker.transport.endpoint import check_endpoint

__all__ = ["START", "AccessSection", "ClusterFile", "ClusterSection"]

_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*"
START: Final = rf"^{_NAME}:{_NAME}$"
"""`module:Class`."""
_AGENT: Final = AgentSpec("module:Class")
_BACKOFF: Final = Backoff()
_SCALE: Final = Scale(max=1)


def _endpoint(value: Any) -> Any:
    if isinstance(value, str):
        try:
            check_endpoint(value)
        except EtherError as error:
            raise ValueError(str(error)) from None
    return value


class Section(BaseModel):
    """A mapping of the file: strict, and without keys that it does not know."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True
    )


class BackoffSection(Section):
    """The delays between restarts: the first is at once, and each further one waits longer than the one before."""

    initial: Annotated[float, Field(ge=0, allow_inf_nan=False)] = _BACKOFF.initial
    """Seconds before the second restart; 0: always at once."""
    factor: Annotated[float, Field(ge=1, allow_inf_nan=False)] = _BACKOFF.factor
    """What each further delay is multiplied by."""
    maximum: Annotated[float, Field(ge=0, allow_inf_nan=False)] = _BACKOFF.maximum
    """Seconds that no delay passes."""
    jitter: Annotated[float, Field(ge=0, le=1)] = _BACKOFF.jitter
    """The part of a delay that chance may take away."""

    @model_validator(mode="after")
    def _fit_each_other(self) -> Self:
        try:
            self.backoff()
        except InvalidSpec as error:
            raise ValueError(str(error).removeprefix("Backoff: ")) from None
        return self

    def backoff(self) -> Backoff:
        """What this section says.

        Raises:
            InvalidSpec: its values do not fit each other.
        """
        return Backoff(**dict(self))


class ClusterSection(Section):
    """The cluster as a whole."""

    name: AgentName = "default"
    """Of the cluster; its default address and its journal are made of it."""
    bind: Annotated[str | None, BeforeValidator(_endpoint)] = None
    """The broker's address: tcp://HOST:PORT or ipc:///PATH; default: the user's own for the cluster's name."""
    durability: Literal["journal", "memory"] = "journal"
    """What survives the broker: journal, everything that was accepted; memory, nothing."""
    journal: str | None = None
    """The journal's file; default: the user's own for the cluster's name."""
    advertise: bool = False
    """Whether other machines of the local network can find the broker by the cluster's name; needs bind tcp://*:PORT."""
    drain: Annotated[float, Field(ge=0, allow_inf_nan=False)] = DRAIN
    """Seconds that running work has when the cluster ends."""
    start_timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = START_TIMEOUT
    """Seconds that each process has to come up."""
    log_level: Literal["debug", "info", "warning", "error", "critical"] = "info"
    """Of the loggers in the nodes."""
    intensity: Annotated[int, Field(ge=0)] = INTENSITY
    """Restarts of one process within `period` that are allowed; at one more, the process is given up."""
    period: Annotated[float, Field(gt=0, allow_inf_nan=False)] = PERIOD
    """Seconds."""
    backoff: BackoffSection = BackoffSection()
    """The delays between restarts of one process."""
    escalate: bool = False
    """Whether the cluster ends with a node that is given up; it does with the broker, and with the last node."""


class SecuritySection(Section):
    """The keys by which TCP connections are let in."""

    keys: str | None = None
    """The folder of keys, as `ether keys new` makes it; a path that is not absolute starts where the file is."""
    insecure: bool = False
    """Whether the address may be one that other machines reach, without keys."""


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Patterns = Annotated[
    list[Annotated[str, Field(min_length=1)]], BeforeValidator(_listed, json_schema_input_type=list[str] | str)
]
"""One pattern or a list of them: `*` is anything, `review-*` a beginning."""


class DelegateEntry(Section):
    """Lets some delegate some capabilities to some."""

    who: Patterns
    """Agents, or nodes: all agents of them."""
    what: Patterns = ["*"]
    """Capabilities, as the specialist declares them."""
    to: Patterns = ["*"]
    """Agents."""


class RegisterEntry(Section):
    """Lets some nodes host some agents."""

    node: Patterns
    """Nodes."""
    agents: Patterns
    """Names of agents."""


class AdministerSection(Section):
    """The rules of who may ask the bus about itself."""

    read: Patterns = []
    """Agents, or nodes, that may ask: agents, nodes, statistics, dead letters with their contents."""
    change: Patterns = []
    """Agents, or nodes, that may also discard and redrive dead letters."""


class AccessSection(Section):
    """The access list: who may do what; with this section, whatever it does not allow is denied."""

    delegate: list[DelegateEntry] = []
    """Who may delegate what to whom."""
    observe: Patterns = []
    """Nodes that see every message."""
    administer: AdministerSection = AdministerSection()
    """Who may ask the bus about itself."""
    register_: Annotated[list[RegisterEntry], Field(alias="register")] = []
    """Which nodes may host which agents; those of this file may host theirs anyway."""


class LimitsSection(Section):
    """Bounds of each agent's mailbox at the broker, and of the broker."""

    mailbox_count: Annotated[int, Field(ge=LEAST["mailbox_count"])] = Limits().mailbox_count
    """Delegations that may wait; 0: none does."""
    mailbox_bytes: Annotated[int, Field(ge=LEAST["mailbox_bytes"])] = Limits().mailbox_bytes
    """Bytes that may wait."""
    window: Annotated[int, Field(ge=LEAST["window"])] = Limits().window
    """Delegations that a node may hold for one agent at a time."""
    total_bytes: Annotated[int, Field(ge=LEAST["total_bytes"])] = Limits().total_bytes
    """Bytes of all delegations together that the broker keeps."""
    memory_bytes: Annotated[int, Field(ge=LEAST["memory_bytes"])] = Limits().memory_bytes
    """Bytes of memory of the broker's process after which it shuts the connection that sends most, or cuts off the node for
    which it keeps most; 0 watches nothing. A quarter of it may wait for nodes, or for their acknowledgement."""


class TimingSection(Section):
    """The signs of life of the broker and its nodes, and for how long each waits for the other: seconds."""

    heartbeat: Annotated[float, Field(ge=0.2, le=3600)] = DEFAULT_TIMING.heartbeat
    """Between two signs of life, both ways."""
    silence: Annotated[float, Field(gt=0, le=3600)] = DEFAULT_TIMING.silence
    """Without a sign of life, after which a node is lost; more than two heartbeats."""
    patience: Annotated[float | None, Field(ge=0, le=3600)] = None
    """In which a node may reconnect after its connection broke; default: two heartbeats over TCP, 0 elsewhere."""
    grace: Annotated[float, Field(ge=0, le=3600)] = DEFAULT_TIMING.grace
    """After a deadline, in which the broker's TIMEOUT has to be there; else the delegator ends its delegation itself."""
    max_backoff: Annotated[float, Field(ge=0.25, le=3600)] = DEFAULT_TIMING.max_backoff
    """The longest pause between two attempts to get through on a connection."""

    @model_validator(mode="after")
    def _fit_each_other(self) -> Self:
        try:
            self.timing()
        except InvalidSpec as error:
            raise ValueError(str(error).removeprefix("timing.")) from None
        return self

    def timing(self) -> Timing:
        """What this section says.

        Raises:
            InvalidSpec: its values do not fit each other.
        """
        return Timing(**dict(self))


def _not_none(value: Any) -> Any:
    if type(value) is int and value == 0:
        raise ValueError("it has to be 1 or more: nobody can delegate to an agent without an instance")
    return value


def _by_queue(value: Any) -> Any:
    if isinstance(value, str) and value != "queue":
        raise ValueError(f"it is {value!r:.40}: give queue, or a whole number of delegations, 1 or more")
    return _SCALE.per if value == "queue" else value


_Positive = Annotated[int, Field(ge=1)]


class ScaleSection(Section):
    """The bounds within which the instances of an agent come and go with what waits for them."""

    min: Annotated[_Positive, BeforeValidator(_not_none, json_schema_input_type=_Positive)] = _SCALE.min
    """Instances at least."""
    max: Annotated[int, Field(ge=1, le=1_000)]
    """Instances at most."""
    per: Annotated[_Positive, BeforeValidator(_by_queue, json_schema_input_type=_Positive | Literal["queue"])] = (
        _SCALE.per
    )
    """Delegations that wait or run for each instance before there is another; the word queue is the default."""
    cooldown: Annotated[float, Field(gt=0, allow_inf_nan=False)] = _SCALE.cooldown
    """Seconds in which one instance fewer has to have been enough before one is taken away."""

    @model_validator(mode="after")
    def _fit_each_other(self) -> Self:
        try:
            self.scale()
        except InvalidSpec as error:
            raise ValueError(str(error).removeprefix("Scale: ")) from None
        return self

    def scale(self) -> Scale:
        """What this section says.

        Raises:
            InvalidSpec: its values do not fit each other.
        """
        return Scale(**dict(self))


class AgentEntry(Section):
    """An agent, or several of a kind."""

    start: Annotated[str, Field(pattern=START)]
    """module:Class."""
    name: AgentName | None = None
    """On the bus; default: the class's name."""
    count: Annotated[int, Field(ge=1, le=100_000)] = 1
    """How many."""
    args: list[Any] = []
    """For the class."""
    kwargs: dict[str, Any] = {}
    """For the class."""
    restart: Literal["permanent", "transient", "temporary"] = "permanent"
    """What follows a crash of the agent."""
    intensity: Annotated[int, Field(ge=0)] = _AGENT.intensity
    """Restarts of the agent within `period` that are allowed; at one more, it has given up, and leaves the bus."""
    period: Annotated[float, Field(gt=0, allow_inf_nan=False)] = _AGENT.period
    """Seconds."""
    backoff: BackoffSection = BackoffSection()
    """The delays between its restarts."""
    escalate: bool = False
    """Whether its node's process ends when it has given up, and is started again with all its agents."""
    scale: ScaleSection | None = None
    """Bounds within which instances come and go with what waits for them, instead of a count."""

    @model_validator(mode="after")
    def _has_one_number(self) -> Self:
        if self.scale is not None and self.count != 1:
            raise ValueError(f"count is {self.count} beside a scale: leave count out, and give scale.min")
        return self

    def spec(self) -> AgentSpec:
        """What this entry says."""
        scale = None if self.scale is None else self.scale.scale()
        return AgentSpec(**{**dict(self), "backoff": self.backoff.backoff(), "scale": scale})


class ObserverEntry(Section):
    """An observer, which sees every message of the bus."""

    start: Annotated[str, Field(pattern=START)]
    """module:Class."""
    args: list[Any] = []
    """For the class."""
    kwargs: dict[str, Any] = {}
    """For the class."""


class MetricsSection(Section):
    """The metrics of the whole bus as text for Prometheus, at http://HOST:PORT/metrics."""

    port: Annotated[int, Field(ge=0, le=65_535)]
    """0 takes a free one, which the node's log names."""
    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """The address to listen at; anything but a loopback address lets other machines read them, without a key."""


_Start = Annotated[str, Field(pattern=START)]


def _started(value: Any) -> Any:
    return {"start": value} if isinstance(value, str) else value


class NodeEntry(Section):
    """A process that hosts agents and observers."""

    name: AgentName
    """Unique on the bus."""
    threads: Annotated[int, Field(ge=1)] = 4
    """Handlers of plain methods that run at a time."""
    agents: list[Annotated[AgentEntry, BeforeValidator(_started, json_schema_input_type=AgentEntry | _Start)]] = []
    """Started in this order; module:Class alone stands for {start: module:Class}."""
    observers: list[
        Annotated[ObserverEntry, BeforeValidator(_started, json_schema_input_type=ObserverEntry | _Start)]
    ] = []
    """Attached before the agents start; module:Class alone stands for {start: module:Class}."""
    metrics: MetricsSection | None = None
    """Where Prometheus gets the metrics of the whole bus; default: nowhere."""


class ClusterFile(Section):
    """A cluster file."""

    cluster: ClusterSection = ClusterSection()
    security: SecuritySection = SecuritySection()
    access: AccessSection | None = None
    """Without it, everybody who gets in may do everything."""
    limits: LimitsSection = LimitsSection()
    timing: TimingSection = TimingSection()
    nodes: Annotated[list[NodeEntry], Field(min_length=1, max_length=1_000)]
    """Started side by side."""
