"""The services of a node for its cells and their tasks.

Cell, Task ──► NodeServices ─┬─► Responder               what they answer
                             └─► OutgoingDelegations     what they delegate
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from ether.node.artifacts.artifact_server import ArtifactServer
from ether.node.connection.sender import Sender
from ether.node.delegations.outgoing import OutgoingDelegations
from ether.node.responder import Responder
from ether.node.unwatched_failures import UnwatchedFailures
from ether_actors.agent.agent_bus import NamedAgent
from ether_actors.delegator.handle import Handle
from ether_actors.delegator.options import check_keywords
from ether_actors.delegator.retry import Retry, check_retry
from ether_actors.execution.cell import BrokerOffset, Cell
from ether_actors.execution.resources import Resources
from ether_actors.task.task import Task
from ether_actors.task.work_item import Work
from ether_actors.threads.event_loop import EventLoop
from ether_actors.threads.latch import Latch, Waitable
from ether_broker.envelope.artifact import Artifact
from ether_broker.envelope.delegation import Delegation
from ether_broker.envelope.payload import Payload
from ether_broker.envelope.response import Response
from ether_broker.errors import Closed
from ether_broker.wire.saved_state import SavedState

__all__ = ["NodeServices"]

_STATE_TOLD: Final = 10.0
"""Seconds in which the bus has to tell the state of an agent that starts."""
_LATER: Final = frozenset({"broker_lost", "journal_unavailable"})
"""Why it may tell a moment later."""
_LOOK: Final = 0.2


class _Complete(Protocol):
    def __call__(self, work: Work, data: bytes, elapsed: float, *, more: bool) -> bool: ...


class NodeServices:
    """The services of a node for its cells and their tasks (`CellServices`).

    Args:
        sender: the way to the broker.
        responder: sends what they answer.
        outgoing: where sub-delegations go.
        resources: what the node runs on.
        broker_clock: by which deadlines travel.
        crashed: told of an agent that crashed, and why.
        stop_requested: told of an agent that was told to stop with its pykka ref.
        start_schedules: begins the schedules of a cell's agent.
        is_open: whether the bus knows an agent of this node; None if it has ended.
        call_at: calls something in the pool at a time by the node's clock.
        artifacts: the files that the node offers.
        unwatched: told of what fails and has nobody who waits for it.
    """

    def __init__(
        self, sender: Sender, responder: Responder, outgoing: OutgoingDelegations, resources: Resources,
        broker_clock: BrokerOffset, *,
        crashed: Callable[[Cell, BaseException], None], stop_requested: Callable[[Cell], None],
        start_schedules: Callable[[Cell], None], is_open: Callable[[NamedAgent], bool | None],
        call_at: Callable[[float, Callable[[], None]], None], artifacts: ArtifactServer, unwatched: UnwatchedFailures,
    ) -> None:  # fmt: skip
        self.answer: Callable[[Work, Response], bool] = responder.answer
        self.complete: _Complete = responder.complete
        self.progress: Callable[[Task, Response], None] = responder.progress
        self.delegate: Callable[[Delegation, float | None], Handle] = outgoing.delegate
        self.send: Callable[[Delegation], Handle] = outgoing.send
        self.check_may_wait: Callable[[], None] = outgoing.check_may_wait
        self.offer: Callable[[str | os.PathLike[str]], Artifact] = artifacts.offer
        self.sign: Callable[[Artifact, os.stat_result], Artifact] = artifacts.sign
        self.flush: Callable[[], None] = sender.flush
        self.watch: Callable[[Handle, str], None] = unwatched.watch
        self.loop: EventLoop = resources.loop
        self.wait: Callable[[Waitable, float | None], bool] = resources.wait
        self.monotonic: Callable[[], float] = resources.monotonic
        self.wall: Callable[[], float] = resources.wall
        self.new_id: Callable[[], str] = resources.new_id
        self.broker_clock: BrokerOffset = broker_clock
        self.crashed = crashed
        self.stop_requested = stop_requested
        self.start_schedules = start_schedules
        self._is_open = is_open
        self._call_at = call_at
        self._outgoing = outgoing
        self._node = outgoing.name

    def retry(
        self, policy: Retry, first: Callable[[float | None], Handle], again: Callable[[Delegation], Handle],
        timeout: float | None, *, is_named: bool,
    ) -> Handle:  # fmt: skip
        """As `OutgoingDelegations.retry`."""
        return self._outgoing.retry(policy, first, again, timeout, is_named=is_named)

    def delegate_as(
        self, agent: NamedAgent, capability: str, params: Any, to: str | None, options: Mapping[str, Any]
    ) -> Handle:  # fmt: skip
        """Delegate in an agent's name; in the node's as long as the bus does not know the agent.

        Raises:
            Closed: the agent has ended.
        """
        given: dict[str, Any] = dict(options)
        retry = given.pop("retry", None)
        if retry is not None:
            return self.retry(
                check_retry(retry),
                lambda timeout: self.delegate_as(agent, capability, params, to, {**given, "timeout": timeout}),
                self.send, given.get("timeout"), is_named="request_id" in given,
            )  # fmt: skip
        check_keywords(given)
        given["context_slice"] = given.pop("context", None)
        return self.send(Delegation.parse({
            "request_id": self.new_id(), "from_agent": self._name_of(agent), "to_agent": to,
            "capability": capability, "params": params, "timestamp": self.wall(),
            **{name: value for name, value in given.items() if value is not None},
        }))  # fmt: skip

    def _name_of(self, agent: NamedAgent) -> str:
        is_open = self._is_open(agent)
        if is_open is None:
            raise Closed(f"This {type(agent).__name__} has ended, and delegates nothing more.")
        return agent.agent_name if is_open else self._node

    def call_after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call something in the pool after some seconds."""
        self._call_at(self.monotonic() + seconds, call)

    def load_state(self, agent: str) -> SavedState | None:
        """The state that an agent of that name saved last; asks the bus, and waits for the answer.

        Raises:
            Rejected, TimedOut: the bus does not tell.
        """
        params, end = Payload.of({"agent": agent}), self.monotonic() + _STATE_TOLD
        while True:
            asked = self.send(Delegation(
                request_id=self.new_id(), from_agent=self._node, capability="ether.state", params=params,
                timeout=_STATE_TOLD, durability="memory",
            ))  # fmt: skip
            response = asked.answer(_STATE_TOLD + 5.0)
            if response.error is None or response.error.code not in _LATER or self.monotonic() >= end:
                return SavedState.of(response.unwrap().data)
            self.wait(Latch(), _LOOK)
