"""The messages of this node's agents to the bus: outcomes, progress, refusals.

Cell, Task ──► Responder ──► link
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from ether.node.artifacts.artifact_server import ArtifactServer
from ether.node.connection.broker_clock import BrokerClock
from ether.node.connection.sender import Sender
from ether.node.connection.session_state import SessionState
from ether.node.outgoing import OutgoingDelegations
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
from ether_broker import errors
from ether_broker.envelope.artifact import Artifact
from ether_broker.envelope.delegation import Delegation
from ether_broker.envelope.ids import to_text
from ether_broker.envelope.names import EVENT_PREFIX
from ether_broker.envelope.payload import Payload, pack
from ether_broker.envelope.response import ErrorInfo, Response
from ether_broker.envelope.status import Status
from ether_broker.errors import EtherError
from ether_broker.wire.codec import pack_outcome, pack_response
from ether_broker.wire.frame import Flag, Header, Kind, pack_envelope, read_header, rehead
from ether_broker.wire.saved_state import SavedState, join_state

__all__ = ["Responder"]

_STATE_TOLD: Final = 10.0
"""Seconds in which the bus has to tell the state of an agent that starts."""
_LATER: Final = frozenset({"broker_lost", "journal_unavailable"})
"""Why it may tell a moment later."""
_LOOK: Final = 0.2
_FAILED: Final = frozenset({Status.FAILED_EXECUTION, Status.REJECTED_CONTEXT, Status.TIMEOUT})
_REMEMBERED: Final = 4096
"""Answered delegations that are remembered at least: as many as can be under way in a link when its broker ends."""


class Responder:
    """The services of a node for its cells and their tasks (`CellServices`): above all the sending of what agents answer.

    Args:
        sender: the way to the broker.
        outgoing: where sub-delegations go.
        resources: what the node runs on.
        session_state: with the broker.
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
        self, sender: Sender, outgoing: OutgoingDelegations, resources: Resources, session_state: SessionState,
        broker_clock: BrokerClock, *,
        crashed: Callable[[Cell, BaseException], None], stop_requested: Callable[[Cell], None],
        start_schedules: Callable[[Cell], None], is_open: Callable[[NamedAgent], bool | None],
        call_at: Callable[[float, Callable[[], None]], None], artifacts: ArtifactServer, unwatched: UnwatchedFailures,
    ) -> None:  # fmt: skip
        self.offer: Callable[[str | os.PathLike[str]], Artifact] = artifacts.offer
        self.sign: Callable[[Artifact, os.stat_result], Artifact] = artifacts.sign
        self.start_schedules = start_schedules
        self._is_open = is_open
        self._call_at = call_at
        self._unwatched = unwatched
        self.watch: Callable[[Handle, str], None] = unwatched.watch
        self._node = outgoing.name
        self.loop: EventLoop = resources.loop
        self.delegate: Callable[[Delegation, float | None], Handle] = outgoing.delegate
        self._outgoing = outgoing
        self.send: Callable[[Delegation], Handle] = outgoing.send
        self.check_may_wait: Callable[[], None] = outgoing.check_may_wait
        self.flush: Callable[[], None] = sender.flush
        self.wait: Callable[[Waitable, float | None], bool] = resources.wait
        self.monotonic: Callable[[], float] = resources.monotonic
        self.wall: Callable[[], float] = resources.wall
        self.new_id: Callable[[], str] = resources.new_id
        self.broker_clock: BrokerOffset = broker_clock
        self.crashed = crashed
        self.stop_requested = stop_requested
        self._sender = sender
        self._session_state = session_state
        self._answered: dict[bytes, int] = {}
        self._answered_before: dict[bytes, int] = {}
        self._progress: dict[bytes, tuple[bytes, int]] = {}
        """{request id: (its newest PROGRESS, how many older ones were folded into it)} while the link has no room."""
        self._progress_lock = threading.Lock()
        """Held from when such is taken out until it is sent, so that nothing newer goes before it."""

    # -- what a cell and its tasks say ----------------------------------------------------------------------------

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
            raise errors.Closed(f"This {type(agent).__name__} has ended, and delegates nothing more.")
        return agent.agent_name if is_open else self._node

    def call_after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call something in the pool after some seconds."""
        self._call_at(self.monotonic() + seconds, call)

    def answer(self, work: Work, response: Response) -> bool:
        """Send an outcome; one that cannot travel becomes FAILED_EXECUTION. Whether it went as it is, with its state."""
        if work.is_disowned:
            return False
        header, limit = work.header, self._session_state.limit
        self.remember(header)
        if self._progress:
            self._tell_last_progress(header.request_id)
        is_sent = True
        try:
            envelope = pack_response(response, capability=header.capability, target=header.source, limit=limit)
            if work.state is not None:
                envelope = join_state(envelope, work.state)
                if len(envelope) > limit:
                    raise errors.PayloadTooLarge(len(envelope), limit)
        except EtherError as error:
            failure = Response(
                request_id=response.request_id, status=Status.FAILED_EXECUTION, from_agent=response.from_agent,
                error=ErrorInfo(code=error.code, message=str(error)), summary=str(error),
            )  # fmt: skip
            envelope = pack_response(failure, capability=header.capability, target=header.source)
            response, is_sent = failure, False
        self._sender.send(envelope)
        if work.cancelled:
            self._tell_late_event(work)
        else:
            self._tell_failed_event(header, response)
        return is_sent

    def complete(self, work: Work, data: bytes, elapsed: float, *, more: bool) -> bool:
        """Send the outcome of a handler that has nothing to say but its packed data; `more` outcomes follow at once.

        Whether it went as it is, with its state.
        """
        if work.is_disowned:
            return False
        self.remember(work.header)
        if work.cancelled:
            self._tell_late_event(work)
        if self._progress:
            self._tell_last_progress(work.header.request_id)
        limit = self._session_state.limit
        try:
            envelope = pack_outcome(work.header, data, elapsed=elapsed, timestamp=self.wall(), limit=limit)
            if work.state is not None:
                envelope = join_state(envelope, work.state)
                if len(envelope) > limit:
                    raise errors.PayloadTooLarge(len(envelope), limit)  # noqa: TRY301  one way out for both
        except errors.PayloadTooLarge as error:
            self.refuse(work.header, Status.FAILED_EXECUTION, error)
            return False
        if more:
            self._sender.send(envelope, more_follows=True)
        else:
            self._sender.send_last(envelope)
        return True

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

    def remember(self, header: Header) -> None:
        """Note that nothing more is to be done here for this attempt at a delegation."""
        answered = self._answered
        answered[header.request_id] = header.attempt
        if len(answered) >= _REMEMBERED:
            self._answered_before, self._answered = answered, {}

    def has_answered(self, header: Header) -> bool:
        """Whether this attempt at a delegation was answered not long ago."""
        request_id = header.request_id
        attempt = self._answered.get(request_id) or self._answered_before.get(request_id)
        return attempt == header.attempt

    def progress(self, task: Task, response: Response) -> None:
        """Send a PROGRESS response; of those that come while the link is full, the newest when it has room, or at the end."""
        delegation = task.delegation
        envelope = pack_response(
            response, capability=delegation.capability.encode(), target=(delegation.from_agent or "").encode(),
            limit=self._session_state.limit,
        )  # fmt: skip
        if not self._progress and not self._sender.link.is_full:
            self._sender.send(envelope)
            return
        request_id = read_header(envelope).request_id
        with self._progress_lock:
            before = self._progress.get(request_id)
            self._progress[request_id] = envelope, 0 if before is None else before[1] + 1
        self.tell_progress()

    def tell_progress(self) -> bool:
        """Send the progress that waits as far as the link has room; whether any was sent."""
        is_said = False
        for request_id in list(self._progress):
            if self._sender.link.is_full:
                break
            self._tell_last_progress(request_id)
            is_said = True
        return is_said

    def _tell_last_progress(self, request_id: bytes) -> None:
        """Send the progress of a delegation that waits, if any does."""
        with self._progress_lock:
            waiting = self._progress.get(request_id)
            if waiting is not None:
                envelope, folded = waiting
                self._sender.send(rehead(read_header(envelope), envelope, deadline=float(folded)))
                del self._progress[request_id]  # last: who finds nothing waiting goes past the lock

    # -- what the node says for them ------------------------------------------------------------------------------

    def accept(self, work: Work) -> None:
        """Say ACCEPTED: it is still worked on."""
        self._say(work.header, Status.ACCEPTED, body=pack({}))

    def refuse(self, header: Header, status: Status, error: EtherError, **fields: Any) -> None:
        """Answer a delegation with an error."""
        response = Response(
            request_id=to_text(header.request_id), status=status, from_agent=header.target.decode(),
            error=ErrorInfo(code=error.code, message=str(error), retryable=error.retryable), **fields,
        )  # fmt: skip
        self._sender.send(pack_response(response, capability=header.capability, target=header.source))
        self._tell_failed_event(header, response)

    def _tell_failed_event(self, header: Header, response: Response) -> None:
        """Tell that a handler of an event failed; what the bus answers otherwise, such as for overload, it acts on itself."""
        if response.status in _FAILED and header.capability.startswith(EVENT_PREFIX):
            topic = header.capability.removeprefix(EVENT_PREFIX).decode()
            self._unwatched.tell(header.target.decode(), f"the event {topic}", response)

    def _tell_late_event(self, work: Work) -> None:
        """Tell that a handler of an event went on beyond its timeout; if it ended for something else, nobody failed."""
        header = work.header
        if work.task is not None and self.monotonic() >= header.deadline - self.broker_clock.offset:
            error = ErrorInfo(code="deadline", message="its handler had not ended by the timeout.")
            self._tell_failed_event(header, Response(
                request_id=to_text(header.request_id), status=Status.TIMEOUT, from_agent=header.target.decode(), error=error
            ))  # fmt: skip

    def hand_back(self, works: list[Work]) -> None:
        """Give back to the broker what was not started, for other holders; the oldest comes to stand first again."""
        for work in reversed(works):
            self._say(work.header, Status.REJECTED_OVERLOAD, flags=Flag.HANDED_BACK)

    def _say(self, header: Header, status: Status, **fields: Any) -> None:
        self._sender.send(pack_envelope(
            Kind.RESPONSE, status=status, request_id=header.request_id, source=header.target, target=header.source,
            capability=header.capability, attempt=header.attempt, **fields,
        ))  # fmt: skip

    def confirm(self, cancel: Header) -> None:
        """Answer a CANCEL of what is not here any more: the broker waits for a last word to give the credit back."""
        self._sender.send(pack_envelope(
            Kind.RESPONSE, status=Status.CANCELLED, request_id=cancel.request_id, source=cancel.target,
            capability=cancel.capability, attempt=cancel.attempt, body=pack({}),
        ))  # fmt: skip
