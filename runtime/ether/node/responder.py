"""The answers of this node's agents to the bus: outcomes, progress, refusals.

Cell, Task ──► NodeServices ─┐
AgentHost ───────────────────┴► Responder ──► link
"""

from __future__ import annotations

import threading
from typing import Any, Final

from ether.node.connection.broker_clock import BrokerClock
from ether.node.connection.sender import Sender
from ether.node.connection.session_state import SessionState
from ether.node.unwatched_failures import UnwatchedFailures
from ether_actors.execution.resources import Resources
from ether_actors.task.task import Task
from ether_actors.task.work_item import Work
from ether_broker import errors
from ether_broker.envelope.ids import to_text
from ether_broker.envelope.names import EVENT_PREFIX
from ether_broker.envelope.payload import pack
from ether_broker.envelope.response import ErrorInfo, Response
from ether_broker.envelope.status import Status
from ether_broker.errors import EtherError
from ether_broker.wire.codec import pack_outcome, pack_response
from ether_broker.wire.frame import Flag, Header, Kind, pack_envelope, read_header, rehead
from ether_broker.wire.saved_state import BroughtState, join_state

__all__ = ["Responder"]

_FAILED: Final = frozenset({Status.FAILED_EXECUTION, Status.REJECTED_CONTEXT, Status.TIMEOUT})
_REMEMBERED: Final = 4096
"""Answered delegations that are remembered at least: as many as can be under way in a link when its broker ends."""


class Responder:
    """The answers of a node's agents, to the broker.

    Args:
        sender: the way to the broker.
        resources: by whose clocks it goes.
        session_state: with the broker.
        broker_clock: by which deadlines travel.
        unwatched: told of handlers of events that fail.
    """

    def __init__(
        self, sender: Sender, resources: Resources, session_state: SessionState, broker_clock: BrokerClock,
        unwatched: UnwatchedFailures,
    ) -> None:  # fmt: skip
        self._monotonic = resources.monotonic
        self._wall = resources.wall
        self._broker_clock = broker_clock
        self._unwatched = unwatched
        self._sender = sender
        self._session_state = session_state
        self._answered: dict[bytes, int] = {}
        self._answered_before: dict[bytes, int] = {}
        self._progress: dict[bytes, tuple[bytes, int]] = {}
        """{request id: (its newest PROGRESS, how many older ones were folded into it)} while the link has no room."""
        self._progress_lock = threading.Lock()
        """Held from when such is taken out until it is sent, so that nothing newer goes before it."""

    # -- what a cell and its tasks say ----------------------------------------------------------------------------

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
                envelope = _with_state(envelope, work.state, limit)
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
            envelope = pack_outcome(work.header, data, elapsed=elapsed, timestamp=self._wall(), limit=limit)
            if work.state is not None:
                envelope = _with_state(envelope, work.state, limit)
        except errors.PayloadTooLarge as error:
            self.refuse(work.header, Status.FAILED_EXECUTION, error)
            return False
        if more:
            self._sender.send(envelope, more_follows=True)
        else:
            self._sender.send_last(envelope)
        return True

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
        if work.task is not None and self._monotonic() >= header.deadline - self._broker_clock.offset:
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


def _with_state(envelope: bytes, state: BroughtState, limit: int) -> bytes:
    """The envelope of an outcome that brings a state.

    Raises:
        PayloadTooLarge: both together have more than the bus takes.
    """
    joined = join_state(envelope, state)
    if len(joined) > limit:
        raise errors.PayloadTooLarge(len(joined), limit, len(joined) - len(envelope))
    return joined
