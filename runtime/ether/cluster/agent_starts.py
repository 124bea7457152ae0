"""The starts of a cluster's agents on a node: under the names wished for or free ones, in another's place, alone if need be."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ether.cluster.cluster_spec import AgentSpec, NamedAgents, NodeSpec, name_agents
from ether.cluster.start_threads import words_of
from ether.node.agents.agent_host import NotStarted, warn_of_own_states
from ether.node.agents.scaled_agent import ScaledAgent
from ether_actors.agent.agent import Agent
from ether_actors.restarts.runner import resolve
from ether_broker.errors import AccessDenied, DuplicateAgent, EtherError, InvalidSpec, Rejected, WaitTimeout
from ether_broker.timing import DEFAULT_TIMING

if TYPE_CHECKING:
    from ether.runtime import Runtime

__all__ = ["RELEASED", "replace_agent", "scaled_agent", "start_named", "start_or_go_on", "start_under_free_names"]

logger: logging.Logger = logging.getLogger("ether.node")

RELEASED: Final = 2 * DEFAULT_TIMING.silence + 1.0
"""Seconds in which a lost node's name is free again, also if much of what it sent was still to be handled."""
_TRIES: Final = 20
_AHEAD: Final = 10_000
"""Names that are asked for at a time beyond those that are wanted, while all of them are taken."""


def start_named(bus: Runtime, named: NamedAgents) -> Sequence[str]:
    """Start agents under the names that the cluster wishes them to have; another's they leave to it, if they may."""
    try:
        _start(bus, named)
    except DuplicateAgent:
        if named.agent.name is not None:
            raise
        if _has_state(named.agent):
            return _start_with_state(bus, named)
        agent = named.agent if named.agent.scale is not None else replace(named.agent, count=len(named.names))
        return start_under_free_names(bus, agent)
    return named.names


def start_under_free_names(bus: Runtime, agent: AgentSpec) -> Sequence[str]:
    """Start agents under the next names that are free on the bus, and return these; with a state, under their own alone.

    Raises:
        DuplicateAgent: its `name` is taken; or one with a state has a name that is taken.
        EtherError: as `AgentHost.start_agents`.
    """
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


def start_or_go_on(bus: Runtime, named: NamedAgents, failed: dict[str, str]) -> Sequence[str]:
    """Start agents; if one of them does not start, each alone, by its restart type, noted in `failed`.

    Raises:
        EtherError: the registry did not take them.
    """
    try:
        return start_named(bus, named)
    except (NotStarted, InvalidSpec, WaitTimeout) as failure:
        found: BaseException = failure
    if named.agent.scale is not None:
        error = found.error if isinstance(found, NotStarted) else found
        logger.error(
            "%s did not start: %s", named.names[0], error, exc_info=None if isinstance(error, EtherError) else error
        )
        failed[named.names[0]] = words_of(error)
        bus.node.scaling.follow(scaled_agent(bus, named))
        return named.names
    stopped = found.stopped if isinstance(found, NotStarted) else ()
    starts = {name: replace_agent(bus, named.agent, name) for name in named.names if name not in stopped}
    for name, start in starts.items():
        try:
            start()
        except (EtherError, NotStarted) as error:
            failed[name] = words_of(error)  # whoever starts it again has logged it
    return named.names


def replace_agent(bus: Runtime, agent: AgentSpec, name: str) -> Callable[[], None]:
    """Prepare an agent in the place of one that was taken down or has left; `AgentSupervision.replace`."""
    ends_process = bus.node.supervision.ends_process
    (ends_process.add if agent.escalate else ends_process.discard)(name)
    scaled = bus.node.agent_host.scaled
    (scaled.discard if agent.scale is None else scaled.add)(name)
    return bus.node.supervision.replace(name, agent.tree(name), *_maker(agent))


def scaled_agent(bus: Runtime, named: NamedAgents) -> ScaledAgent:
    """The instances of an agent that scales, which may have these names."""
    agent = named.agent
    assert agent.scale is not None
    one = replace(agent, scale=None)
    names = named.names
    return ScaledAgent(
        names[0], lambda: names, agent.scale, lambda some: _start(bus, NamedAgents(one, tuple(some)))
    )  # fmt: skip


def _start_with_state(bus: Runtime, named: NamedAgents) -> Sequence[str]:
    """Start agents under the names that their states belong to; one that a lost node still seems to have is waited for.

    Raises:
        DuplicateAgent: another agent has one of the names.
    """
    limit = time.monotonic() + RELEASED
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


def _start(bus: Runtime, named: NamedAgents) -> None:
    agent, supervision = named.agent, bus.node.supervision
    if agent.scale is not None:
        known = _known(bus, named.names) if len(named.names) > agent.most else []  # else each is to be free
        taken = [one["agent"] for one in known if one["condition"] != "down" and one["node"] != bus.name]
        bus.node.scaling.add(scaled_agent(bus, named), taken)
        return
    if agent.escalate:
        supervision.ends_process.update(named.names)
    _start_batch(bus, named)


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


def _has_state(agent: AgentSpec) -> bool:
    _, cls = _maker(agent)
    return cls is not None and cls.state_model() is not None


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
