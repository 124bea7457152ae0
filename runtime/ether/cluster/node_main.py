"""The main function of a node's process: a node of the bus with its agents, and their orderly end.

`serve` is that for any process, as for `ether node`; `main` is it for a child of a cluster.
"""

from __future__ import annotations

import logging
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ether.cluster.agent_starts import RELEASED, start_named, start_under_free_names
from ether.cluster.cluster_spec import DRAIN, AgentSpec, NamedAgents, ObserverSpec
from ether.cluster.hosted_agents import HostedAgents
from ether.cluster.metrics_endpoint import MetricsEndpoint, MetricsSpec
from ether.cluster.start_check import check_arguments
from ether.errors import ProcessFailed
from ether.node.agents.agent_host import NotStarted
from ether.process.parent_link import ParentLink, end
from ether.process.signals import Stopping
from ether.runtime import Runtime
from ether.text_io.terminal import log_to_stderr, say
from ether_actors.observers.observer import Observer
from ether_actors.restarts.runner import load_class, resolve
from ether_broker.errors import EtherError, NameTaken
from ether_broker.text import error_with_class

if TYPE_CHECKING:
    from ether_broker.security.credentials import KeysLike, ServerKey

__all__ = ["ESCALATED", "join", "main", "serve"]

logger: logging.Logger = logging.getLogger("ether.node")

ESCALATED: Final = 70
"""Exit code when a supervision tree gave up: whoever started the process starts it again."""
_FAILED: Final = 1
_JOIN: Final = 30.0
_TELLING: Final = 3.0
"""Seconds before the end of `start_timeout` at which a node tells which of its agents have not started."""


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
        return [start_under_free_names(bus, agent) for agent in agents]

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
    limit = time.monotonic() + RELEASED
    while True:
        try:
            return connect().open()
        except NameTaken:
            if time.monotonic() > limit:
                raise
            time.sleep(0.1)


def _observe(bus: Runtime, observers: Sequence[ObserverSpec]) -> None:
    """Attach observers.

    Raises:
        InvalidSpec: a `module:Class` cannot be imported, is no observer, or does not take its arguments.
    """
    for spec in observers:
        make = load_class(spec.start, lambda cls: issubclass(cls, Observer), "Observer")
        try:
            observer = make(*spec.args, **spec.kwargs)
        except TypeError:
            check_arguments(spec.start, make, spec.args, spec.kwargs)
            raise
        bus.observe(observer)


def _start(bus: Runtime, named: NamedAgents) -> Sequence[str]:
    """Start agents; of arguments that their class does not take it is said which class that is, and what it takes.

    Raises:
        InvalidSpec: it does not take its arguments.
        NotStarted, EtherError: as `start_named`.
    """
    try:
        return start_named(bus, named)
    except NotStarted as failure:
        if isinstance(failure.error, TypeError):
            agent = named.agent
            check_arguments(agent.start, resolve(agent.start), agent.args, agent.kwargs)
        raise


def _serve_metrics(bus: Runtime, spec: MetricsSpec, *, may_wait: bool) -> MetricsEndpoint:
    """Serve metrics, as soon as the address is free if that `may_wait`.

    Raises:
        AddressInUse: they cannot be served there.
    """
    from ether_actors.observers.metrics.metrics import Metrics

    endpoint = MetricsEndpoint(spec, bus.observe(Metrics()), may_wait=may_wait)
    waits = "" if endpoint.is_listening else " once nobody else listens there"
    logging.getLogger("ether.node").info("%s serves metrics at %s%s", bus.name, endpoint.url, waits)
    return endpoint


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
    never_up: list[str] = []
    began = time.monotonic()

    def start(bus: Runtime) -> Sequence[Sequence[str]]:
        _observe(bus, observers)
        endpoint = None
        if metrics is not None:
            endpoint = _serve_metrics(bus, metrics, may_wait=request["takes_metrics_over"])
        hosted = HostedAgents(bus, request["drain"])
        if request["again"]:
            names = hosted.start(agents, _patience(request["start_timeout"], began), failed)
            never_up.extend(hosted.never_up)
        else:
            names = [_start(bus, named) for named in agents]
            hosted.note(NamedAgents(named.agent, tuple(own)) for named, own in zip(agents, names, strict=True))

        def answer(asked: dict[str, Any]) -> dict[str, object]:
            if "metrics" in asked and endpoint is not None:
                endpoint.check_listening(asked["patience"] if asked["metrics"] else 0.0)
                return {}
            return hosted.answer(asked)

        parent_link.serve(answer)
        return names

    options = {option: request[option] for option in ("name", "threads", "drain")} | _keys(request.get("security"))
    options["artifact_secret"] = bytes.fromhex(request["artifact_secret"])
    try:
        return _serve(
            lambda: Runtime.connect(request["url"], timeout=_JOIN, **options),
            start,
            request["drain"],
            on_event=logging.getLogger("ether.node").debug,
            on_ready=lambda names: parent_link.ready(
                agents=names, serial=request["serial"], failed=failed, never_up=never_up
            ),
        )
    except EtherError as error:
        parent_link.failed(error.code, str(error))
    except BaseException as error:  # noqa: BLE001  whatever an agent's code raised: the parent has to tell it
        trace = traceback.format_exc()
        parent_link.failed(ProcessFailed.code, error_with_class(error), trace)
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
