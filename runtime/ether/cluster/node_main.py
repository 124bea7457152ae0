"""The main function of a node's process: a node of the bus with its agents, and their orderly end.

`serve` is that for any process, as for `ether node`; `main` is it for a child of a cluster.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ether.cluster.agent_starts import told
from ether.cluster.cluster_spec import DRAIN, AgentSpec, NamedAgents, NodeSpec, ObserverSpec, name_agents
from ether.cluster.hosted_agents import HostedAgents
from ether.cluster.metrics_endpoint import MetricsEndpoint, MetricsSpec
from ether.errors import ProcessFailed
from ether.node.agents.agent_host import NotStarted, warn_of_own_states
from ether.node.agents.scaled_agent import ScaledAgent
from ether.process.parent_link import ParentLink, end
from ether.process.signals import Stopping
from ether.runtime import Runtime
from ether.text_io.terminal import log_to_stderr, say
from ether_actors.agent.agent import Agent
from ether_actors.observers.observer import Observer
from ether_actors.restarts.runner import load_class, resolve
from ether_broker.errors import AccessDenied, DuplicateAgent, EtherError, InvalidSpec, NameTaken, Rejected, WaitTimeout

if TYPE_CHECKING:
    from ether_broker.security.credentials import KeysLike, ServerKey

__all__ = ["ESCALATED", "join", "main", "serve"]

logger: logging.Logger = logging.getLogger("ether.node")

ESCALATED: Final = 70
"""Exit code when a supervision tree gave up: whoever started the process starts it again."""
_FAILED: Final = 1
_JOIN: Final = 30.0
_RELEASED: Final = 6.0
"""Seconds in which a lost node's name is free again; the broker notices its end after 3 s at the latest."""
_TRIES: Final = 20
_TELLING: Final = 3.0
"""Seconds before the end of `start_timeout` at which a node tells which of its agents have not started."""
_AHEAD: Final = 10_000
"""Names that are asked for at a time beyond those that are wanted, while all of them are taken."""


def serve(
    url: str,
    agents: Sequence[AgentSpec],
    *,
    name: str | None = None,
    threads: int = 4,
    drain: float = DRAIN,
    on_event: Callable[[str], None],
    on_up: Callable[[str], None] = lambda _url: None,
    keys: KeysLike | None = None,
    server_key: ServerKey | None = None,
) -> int:
    """Join the bus at `url`, host the agents, and return when told to end; in the main thread only.

    SIGTERM, SIGINT and SIGHUP drain: no new work, `drain` seconds for what runs; what was not started goes back to
    the broker, which finds another holder or says so. A second signal ends the process at once; the broker then
    rules on its work by G3. A broker that is lost is waited for, and joined again when it is back.

    Args:
        url: `tcp://HOST:PORT` or `ipc:///PATH`.
        agents: those without a name take the next that is free on the bus.
        name: of the node, unique on the bus; default: as `Runtime`.
        threads: as `Runtime`.
        drain: seconds.
        on_event: told in words what happens.
        on_up: told the bus's URL when the agents are up.
        keys: as `Runtime.connect`.
        server_key: as `Runtime.connect`.

    Returns:
        The exit code: 0 after a drain; `ESCALATED` when a supervision tree gave up.

    Raises:
        InvalidEndpoint, InvalidKey, BrokerUnavailable, AuthenticationFailed, NodeRefused: as `Runtime.connect`.
        InvalidSpec: an agent's `module:Class` cannot be imported, or is no agent.
        DuplicateAgent: a name is taken.
        Exception: what an agent's `__init__` or `on_start` raised.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)

    def connect() -> Runtime:
        return Runtime.connect(url, name=name, threads=threads, drain=drain, keys=keys, server_key=server_key)

    def start(bus: Runtime) -> list[Sequence[str]]:
        return [_start_under_free_names(bus, agent) for agent in agents]

    return _serve(connect, start, drain, on_event=on_event, on_ready=lambda _names: on_up(url))


def _serve(
    connect: Callable[[], Runtime],
    start: Callable[[Runtime], Sequence[Sequence[str]]],
    drain: float,
    *,
    on_event: Callable[[str], None],
    on_ready: Callable[[Sequence[Sequence[str]]], None],
) -> int:
    with Stopping() as stopping:

        def give_up(tree: str, reason: str) -> None:
            if tree in supervision.ends_process:
                escalated.append(tree)
                stopping.post(f"{tree} gave up: {reason}")
            else:
                on_event(f"{tree} gave up, and is gone from the bus: {reason}")

        escalated: list[str] = []
        bus = join(connect)
        supervision = bus.node.supervision
        supervision.on_escalation = give_up
        try:
            names = start(bus)
        except NotStarted as failure:
            bus.close(0.0)
            raise failure.error from None
        except BaseException:
            bus.close(0.0)
            raise
        on_event(f"{bus.name} at {bus.url}: {', '.join(chain.from_iterable(names)) or 'no agents'}")
        on_ready(names)
        on_event(f"{bus.name} ends ({stopping.wait()}); running work has {drain:g} s")
        bus.close()
    return ESCALATED if escalated else 0


def join(connect: Callable[[], Runtime]) -> Runtime:
    """Join the bus; a name that its last bearer, who has died, seems to have still is waited for.

    Args:
        connect: makes the runtime, not yet open, for each try.

    Raises:
        InvalidEndpoint, BrokerUnavailable, NodeRefused: as `Runtime.connect`.
    """
    limit = time.monotonic() + _RELEASED
    while True:
        try:
            return connect().open()
        except NameTaken:
            if time.monotonic() > limit:
                raise
            time.sleep(0.1)


def _start_under_free_names(bus: Runtime, agent: AgentSpec) -> Sequence[str]:
    if _has_state(agent):
        [[named]] = name_agents([NodeSpec("here", (agent,))], set())
        return _start_with_state(bus, named)
    refused: set[str] = set()
    for attempt in range(_TRIES):
        taken = {*_taken(bus, agent), *refused}
        [[named]] = name_agents([NodeSpec("here", (agent,))], taken)
        try:
            _start(bus, named)
        except DuplicateAgent:  # somebody else took the name since we asked, or we may not ask
            refused.update(named.names)
            if agent.name is not None or attempt == _TRIES - 1:
                raise
        else:
            break
    return named.names


def _has_state(agent: AgentSpec) -> bool:
    _, cls = _maker(agent)
    return cls is not None and cls.state_model() is not None


def _start_with_state(bus: Runtime, named: NamedAgents) -> Sequence[str]:
    """Start agents under the names that their states belong to; one that a lost node still seems to have is waited for.

    Raises:
        DuplicateAgent: another agent has one of the names.
    """
    limit = time.monotonic() + _RELEASED
    while _held(bus, named.names) and time.monotonic() < limit:
        time.sleep(0.1)
    try:
        _start(bus, named)
    except DuplicateAgent as error:
        msg = (
            f"{error} {named.agent.start} has a state, which belongs to its name, so it is given no other: give it a `name` in "
            "a cluster file, or name= in bus.start."
        )
        raise DuplicateAgent(msg) from None
    return named.names


def _taken(bus: Runtime, agent: AgentSpec) -> set[str]:
    """Names that an agent would be given if others had not got them; none for who may not ask.

    It is asked for twice as many each time, until enough of them are free.
    """
    taken: set[str] = set()
    wanted = agent.most if agent.name is None else 0
    while wanted:
        [[named]] = name_agents([NodeSpec("here", (replace(agent, count=wanted, scale=None),))], taken)
        found = _held(bus, named.names)
        taken |= found
        wanted = 0 if wanted - len(found) >= agent.most else min(2 * wanted, agent.most + _AHEAD)
    return taken


def _held(bus: Runtime, names: Sequence[str]) -> set[str]:
    """Those of the names that others have; none for who may not ask. What an earlier life of the node had is its own."""
    known = _known(bus, names)
    return {str(one["agent"]) for one in known if (one["condition"], one["node"]) != ("down", bus.name)}


def _known(bus: Runtime, names: Sequence[str]) -> list[dict[str, Any]]:
    """The agents on the bus that have one of the names; none for who may not ask."""
    try:
        return list(bus.iter_agents(names))
    except Rejected as error:
        if error.response.error.code != AccessDenied.code:
            raise
        return []


def _start(bus: Runtime, named: NamedAgents) -> None:
    agent, supervision = named.agent, bus.node.supervision
    if agent.scale is not None:
        known = _known(bus, named.names) if len(named.names) > agent.most else []  # else each is to be free
        taken = [one["agent"] for one in known if one["condition"] != "down" and one["node"] != bus.name]
        bus.node.scaling.add(_scaled(bus, named), taken)
        return
    if agent.escalate:
        supervision.ends_process.update(named.names)
    _start_batch(bus, named)


def _scaled(bus: Runtime, named: NamedAgents) -> ScaledAgent:
    """The instances of an agent that scales, which may have these names."""
    agent = named.agent
    assert agent.scale is not None
    one = replace(agent, scale=None)
    names = named.names
    return ScaledAgent(
        names[0], lambda: names, agent.scale, lambda some: _start(bus, NamedAgents(one, tuple(some)))
    )  # fmt: skip


def _start_batch(bus: Runtime, named: NamedAgents) -> None:
    """Start agents together, each of which gets its tree when it crashes."""
    agent = named.agent
    bus.node.supervision.trees.update(dict.fromkeys(named.names, agent.tree(agent.base_name)))
    resolve(agent.start)
    warn_of_own_states(bus.node.agent_host.start_agents(list(named.names), *_maker(agent)), agent.base_name)


def _maker(agent: AgentSpec) -> tuple[Callable[[], Any], type[Agent] | None]:
    """What makes an agent, and its class if that can be known before."""
    with contextlib.suppress(InvalidSpec):  # then each start says so
        make = resolve(agent.start)
        cls = make if isinstance(make, type) and issubclass(make, Agent) else None
        return lambda: make(*agent.args, **agent.kwargs), cls
    return lambda: resolve(agent.start)(*agent.args, **agent.kwargs), None


def _start_or_go_on(bus: Runtime, named: NamedAgents, failed: dict[str, str]) -> Sequence[str]:
    """Start agents; if one of them does not start, each alone, by its restart type, noted in `failed`.

    Raises:
        EtherError: the registry did not take them.
    """
    try:
        return _start_named(bus, named)
    except (NotStarted, InvalidSpec, WaitTimeout) as failure:
        found: BaseException = failure
    if named.agent.scale is not None:
        error = found.error if isinstance(found, NotStarted) else found
        logger.error(
            "%s did not start: %s", named.names[0], error, exc_info=None if isinstance(error, EtherError) else error
        )
        failed[named.names[0]] = told(error)
        bus.node.scaling.follow(_scaled(bus, named))
        return named.names
    stopped = found.stopped if isinstance(found, NotStarted) else ()
    starts = {name: _replace(bus, named.agent, name) for name in named.names if name not in stopped}
    for name, start in starts.items():
        try:
            start()
        except (EtherError, NotStarted) as error:
            failed[name] = told(error)  # whoever starts it again has logged it
    return named.names


def _replace(bus: Runtime, agent: AgentSpec, name: str) -> Callable[[], None]:
    """Prepare an agent in the place of one that was taken down or has left; `AgentSupervision.replace`."""
    ends_process = bus.node.supervision.ends_process
    (ends_process.add if agent.escalate else ends_process.discard)(name)
    scaled = bus.node.agent_host.scaled
    (scaled.discard if agent.scale is None else scaled.add)(name)
    return bus.node.supervision.replace(name, agent.tree(name), *_maker(agent))


def _observe(bus: Runtime, observers: Sequence[ObserverSpec], metrics: MetricsSpec | None) -> None:
    """Attach observers, and serve the metrics.

    Raises:
        InvalidSpec: a `module:Class` cannot be imported, or is no observer.
        AddressInUse: the metrics cannot be served there.
    """
    for spec in observers:
        make = load_class(spec.start, lambda cls: issubclass(cls, Observer), "Observer")
        bus.observe(make(*spec.args, **spec.kwargs))
    if metrics is not None:
        from ether_actors.observers.metrics.metrics import Metrics

        endpoint = MetricsEndpoint(metrics, bus.observe(Metrics()))
        logging.getLogger("ether.node").info("%s serves metrics at %s", bus.name, endpoint.url)


def _start_named(bus: Runtime, named: NamedAgents) -> Sequence[str]:
    """Start agents under the names that the cluster wishes them to have; another's they leave to it, if they may."""
    try:
        _start(bus, named)
    except DuplicateAgent:
        if named.agent.name is not None:
            raise
        if _has_state(named.agent):
            return _start_with_state(bus, named)
        agent = named.agent if named.agent.scale is not None else replace(named.agent, count=len(named.names))
        return _start_under_free_names(bus, agent)
    return named.names


def main() -> None:
    """Serve as a child of a cluster."""
    parent_link = ParentLink()
    request = parent_link.request
    log_to_stderr(request["log_level"].upper())
    end(_serve_request(parent_link, request))


def _serve_request(parent_link: ParentLink, request: dict[str, Any]) -> int:
    agents = [NamedAgents(AgentSpec.of_dict(item["agent"]), tuple(item["names"])) for item in request["agents"]]
    observers = [ObserverSpec(**item) for item in request["observers"]]
    metrics = None if request["metrics"] is None else MetricsSpec(**request["metrics"])
    failed: dict[str, str] = {}
    began = time.monotonic()

    def start(bus: Runtime) -> Sequence[Sequence[str]]:
        _observe(bus, observers, metrics)
        hosted = HostedAgents(bus, request["drain"], _start_or_go_on, _replace, _scaled)
        if request["again"]:
            names = hosted.start(agents, _patience(request["start_timeout"], began), failed)
        else:
            names = [_start_named(bus, named) for named in agents]
            hosted.note(NamedAgents(named.agent, tuple(own)) for named, own in zip(agents, names, strict=True))
        parent_link.serve(hosted.answer)
        return names

    options = {option: request[option] for option in ("name", "threads", "drain")} | _keys(request.get("security"))
    options["artifact_secret"] = bytes.fromhex(request["artifact_secret"])
    try:
        return _serve(
            lambda: Runtime.connect(request["url"], timeout=_JOIN, **options),
            start,
            request["drain"],
            on_event=logging.getLogger("ether.node").debug,
            on_ready=lambda names: parent_link.ready(agents=names, serial=request["serial"], failed=failed),
        )
    except EtherError as error:
        parent_link.failed(error.code, str(error))
    except BaseException as error:  # noqa: BLE001  whatever an agent's code raised: the parent has to tell it
        trace = traceback.format_exc()
        parent_link.failed(ProcessFailed.code, f"{type(error).__name__}: {error}", trace)
        say(trace.rstrip())
    return _FAILED


def _patience(start_timeout: float, began: float) -> float:
    """Seconds that agents have to start, so that the process can still tell in time who has not; half of it at least."""
    return max(start_timeout / 2, began + start_timeout - _TELLING - time.monotonic())


def _keys(security: dict[str, Any] | None) -> dict[str, Any]:
    """The pair that the cluster made for this node, and where the broker's public key stands."""
    if security is None:
        return {}
    from ether_broker.security.keys import KeyPair

    pair = KeyPair(security["public"], security["secret"])
    return {"keys": pair, "server_key": Path(security["server_key"])}


if __name__ == "__main__":
    main()
