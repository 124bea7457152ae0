"""The delegations that this node has made: their handles, until their outcomes are there.

delegate, request ──► link.send        deliver ──► Handle ──► whoever waits for it
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Coroutine
from queue import SimpleQueue
from typing import Any, Final

from ether.node.connection.broker_clock import BrokerClock
from ether.node.connection.sender import SendCall, Sender
from ether.node.connection.session_state import SessionState
from ether.node.delegations.awaited_outcomes import COLLECT, AwaitedOutcomes
from ether.node.delegations.retried_delegation import RetriedDelegation
from ether_actors.delegator.handle import Handle
from ether_actors.delegator.retry import Retry
from ether_actors.execution.resources import Resources
from ether_actors.threads.latch import Waitable
from ether_actors.threads.loop_queue import LoopQueue
from ether_broker import errors
from ether_broker.envelope.delegation import LONGEST_TIMEOUT, Delegation
from ether_broker.envelope.payload import EMPTY
from ether_broker.envelope.response import ErrorInfo, Response
from ether_broker.envelope.status import Status
from ether_broker.wire.codec import id_bytes, pack_delegation, pack_plain_delegation
from ether_broker.wire.frame import Header, Kind, pack_envelope

__all__ = ["OutgoingDelegations"]

_STOOD_STILL: Final = 1.5
"""Heartbeats between two looks after which it was this process that was late."""
_OWN_GRACE: Final = 0.5
"""Seconds that the handle of a repeated request waits beyond its deadline, so that the supervisor's TIMEOUT is here first."""
_IN_LOOP: Final = (
    "This waits in the event loop, which then stands still: `await` the handle, `await bus.delegate(…)` instead of an ask, "
    "`async for` over a stream, as_completed or a map, and `async with` over a lease."
)
_CLOSED: Final = "The runtime has been closed and delegates nothing more."
_UNREACHABLE: Final = "The deadline passed and the supervisor did not say so: the broker is out of reach."
_NO_JOURNAL: Final = (
    "This bus keeps no journal, so nothing in it outlives the broker: start it with one, by journal=FILE of "
    "Runtime or Cluster, or by `ether up` without --durability memory."
)
_UNWRITTEN: Final = (
    "The deadline passed, and what became of it waits for the broker's journal, which cannot be written."
)


class OutgoingDelegations:
    """The delegations of one node that have no outcome yet, with their handles; a `HandleHost`.

    Args:
        name: of the node, in which plain code delegates.
        sender: the way to the broker.
        resources: what the node runs on.
        session_state: with the broker.
        broker_clock: by which deadlines travel.
        call_at: calls something in the pool at a time by the node's clock.
    """

    earlier: Final = ()

    def __init__(  # noqa: PLR0917  the parts of a node
        self, name: str, sender: Sender, resources: Resources, session_state: SessionState, broker_clock: BrokerClock,
        call_at: Callable[[float, Callable[[], None]], None],
    ) -> None:  # fmt: skip
        self.call_at: Callable[[float, Callable[[], None]], None] = call_at
        self.lock: threading.RLock = threading.RLock()  # a handle that follows another takes it while the other has it
        self.resources = resources
        self.wait: Callable[[Waitable, float | None], bool] = resources.wait
        self.take: Callable[[SimpleQueue[Any], float | None], Any] = resources.take
        self.take_in_loop: Callable[[LoopQueue[Any], float | None], Coroutine[Any, Any, Any]] = resources.take_in_loop
        self.flush: Callable[[], None] = sender.flush
        self.call: Callable[[Callable[[], object]], None] = sender.link.call
        self._name = name
        self._source = name.encode()
        self._sender = sender
        self._session_state = session_state
        self._broker_clock = broker_clock
        self._pending: dict[bytes, Handle] = {}
        self.awaited: AwaitedOutcomes = AwaitedOutcomes(sender, resources.make_id, self._pending)
        """Those of them from before this session."""
        self._followers: set[Handle] = set()
        """Handles of requests that were under way already."""
        self._looked = 0.0
        self._was_late = False
        self._is_closed = False
        self._retried: set[RetriedDelegation] = set()
        self.forget: Callable[[RetriedDelegation], None] = self._retried.discard

    @property
    def name(self) -> str:
        """The node's, in which plain code delegates."""
        return self._name

    @property
    def default_timeout(self) -> float:
        """Seconds that a delegation has when nothing else is said."""
        return self._session_state.default_timeout

    @property
    def is_closed(self) -> bool:
        """Whether nothing is delegated any more."""
        return self._is_closed

    def retry(
        self, policy: Retry, first: Callable[[float | None], Handle], again: Callable[[Delegation], Handle],
        timeout: float | None, *, is_named: bool,
    ) -> Handle:  # fmt: skip
        """Delegate by a retry policy; see `RetriedDelegation`.

        Raises:
            EtherError: as `first`.
        """
        retried = RetriedDelegation(self, policy, first, again, timeout, is_named=is_named)
        self._retried.add(retried)
        return retried.begin()

    @property
    def awaiting_retry(self) -> list[tuple[float, str]]:
        """What waits for its next attempt, in words, each with when that is due by the node's clock; the next first."""
        return sorted((retried.due, str(retried)) for retried in list(self._retried) if retried.due is not None)

    def send(self, delegation: Delegation) -> Handle:
        """Send a delegation whose timeout begins now; as `delegate`."""
        deadline = None if delegation.timeout is None else self.resources.monotonic() + delegation.timeout
        return self.delegate(delegation, deadline)

    def delegate(self, delegation: Delegation, deadline: float | None) -> Handle:
        """Send a delegation; every failure to do so is the handle's outcome, or raised before anything is sent.

        A request that is under way already is not sent again: its handles have one and the same outcome. The deadline is
        never later than the budget's `max_time_sec` from now.

        Args:
            delegation: with `from_agent` set.
            deadline: seconds by this node's clock; None takes the budget's `max_time_sec`, or else the bus's default.

        Raises:
            PayloadTooLarge, InvalidEnvelope: it cannot be sent as it is.
            Closed: the runtime has been closed.
        """
        session_state = self._session_state
        if session_state.is_draining and delegation.parent is None:
            raise errors.Closed(_CLOSED)
        if delegation.durability == "journal" and not session_state.journal:
            raise errors.UsageError(_NO_JOURNAL)
        now = self.resources.monotonic()
        budget = delegation.budget
        seconds = None if budget is None else budget.max_time_sec
        if deadline is None:
            deadline = now + (session_state.default_timeout if seconds is None else seconds)
        deadline = min(deadline, now + (LONGEST_TIMEOUT if seconds is None else min(seconds, LONGEST_TIMEOUT)))
        if delegation.context_sha256 is None and delegation.context_payload != EMPTY:
            delegation = delegation.model_copy(update={"context_sha256": delegation.context_payload.digest()})
        envelope = pack_delegation(delegation, deadline=deadline + self._broker_clock.offset, limit=session_state.limit)
        request_id = id_bytes(delegation.request_id)
        source = (delegation.from_agent or "").encode()
        return self._send(
            request_id, source, delegation.capability.encode(), envelope, deadline, delegation.external_id
        )  # fmt: skip

    def delegate_plain(
        self, target: str | None, capability: str, params: bytes, timeout: float | None, send: SendCall | None = None
    ) -> Handle:  # fmt: skip
        """Delegate from plain code what has nothing to say but what, to whom, and until when.

        Args:
            target: None lets the registry choose.
            capability: both names have been checked.
            params: packed.
            timeout: seconds, positive; None takes the bus's default.
            send: what sends it as long as BYE has not been said; None is the sender, as ever.

        Raises:
            PayloadTooLarge, Closed: as `delegate`.
        """
        session_state, resources = self._session_state, self.resources
        if session_state.is_draining:
            raise errors.Closed(_CLOSED)
        request_id = resources.make_id()
        name = capability.encode()
        timeout_or_default = session_state.default_timeout if timeout is None else min(timeout, LONGEST_TIMEOUT)
        deadline = resources.monotonic() + timeout_or_default
        envelope = pack_plain_delegation(
            request_id, self._source, b"" if target is None else target.encode(), name, params, timeout=timeout,
            timestamp=resources.wall(), deadline=deadline + self._broker_clock.offset, limit=session_state.limit,
        )  # fmt: skip
        handle = resources.handle_type(self, request_id, self._source, name, envelope, deadline)
        more = bool(self._pending)  # from here on as `_send`, without a call
        first = self._pending.setdefault(request_id, handle)
        if first is not handle:
            self._follow(first, handle)
            return handle
        if self._is_closed:
            self._end_closed(handle)
            return handle
        if send is None or self._sender.last_words:
            send = self._sender.send
        try:
            send(envelope, more_follows=more, is_new=True)
        except errors.MailboxFull as error:
            self._end(handle, Status.REJECTED_OVERLOAD, "link_full", str(error), retry_after=1.0)
        return handle

    def _send(  # noqa: PLR0917  as a handle is made
        self, request_id: bytes, source: bytes, capability: bytes, envelope: bytes, deadline: float,
        external_id: str | None = None,
    ) -> Handle:  # fmt: skip
        handle = self.resources.handle_type(self, request_id, source, capability, envelope, deadline, external_id)
        more = bool(self._pending)  # a delegator with others under way is likely to send yet another
        first = self._pending.setdefault(request_id, handle)
        if first is not handle:
            self._follow(first, handle)
            return handle
        if self._is_closed:
            self._end_closed(handle)
            return handle
        try:
            self._sender.send(envelope, more_follows=more, is_new=True)
        except errors.MailboxFull as error:
            self._end(handle, Status.REJECTED_OVERLOAD, "link_full", str(error), retry_after=1.0)
        return handle

    def _follow(self, first: Handle, handle: Handle) -> None:
        """Give a handle everything that comes for the same request, which was sent before."""
        if first.source != handle.source or first.capability not in {handle.capability, ""}:
            other = f"{first.capability} of {first.source}"
            message = f"This id is that of {other}, which is under way: choose another request id."
            self._end(handle, Status.REJECTED_CONTEXT, "duplicate_request", message)
            return
        self._followers.add(handle)

        def hear(update: tuple[Header, bytes] | None) -> None:
            if update is not None:
                handle.deliver(*update)
            else:
                self._followers.discard(handle)
                first.share(handle)

        first.listen(hear)

    def take_up(self, wanted: list[tuple[bytes, str, float | None]]) -> list[Handle]:
        """Wait for delegations that an earlier life of this node's name sent.

        Args:
            wanted: (request id, capability, seconds to the deadline; None when it has ended).
        """
        now = self.resources.monotonic()
        handles, fresh = [], []
        for request_id, capability, left in wanted:
            handle = self._pending.get(request_id)
            if handle is None:
                deadline = now + (COLLECT if left is None else left)
                made = self.resources.handle_type(self, request_id, self._source, capability.encode(), b"", deadline)
                handle = self._pending.setdefault(request_id, made)  # another thread may take it up too
                if handle is made:
                    fresh.append(request_id)
                    if self._is_closed:
                        self._end_closed(handle)
            handles.append(handle)
        self.awaited.ask(fresh)  # the outcome of what is waited for here already comes anyway
        self.flush()
        return handles

    def deliver(self, header: Header, envelope: bytes) -> None:
        """Hand a response to its handle."""
        handle = self._pending.get(header.request_id)
        if handle is not None and handle.deliver(header, envelope):
            self._pending.pop(header.request_id, None)
            if self.awaited.missing:
                self.awaited.came(header.request_id, self.resources.monotonic())

    # -- what a handle needs -------------------------------------------------------------------------------------

    def cancel(self, handle: Handle) -> None:
        """Ask the supervisor to cancel a delegation."""
        self._sender.send_now(pack_envelope(
            Kind.CANCEL, request_id=handle.key, source=handle.source.encode(), capability=handle.capability.encode()
        ))  # fmt: skip

    def check_may_wait(self, *, in_own_loop: bool = False) -> None:
        """Raise UsageError in a thread that runs an event loop or the link: it would stand still, or wait for itself.

        Args:
            in_own_loop: whether it may wait in an event loop of the user's own, as for an answer of the bus itself.
        """
        running = getattr(sys.modules.get("asyncio"), "_get_running_loop", None)  # as `runs_event_loop`, without a call
        if running is not None and running() is not None and (not in_own_loop or self.resources.loop.is_current):
            raise errors.UsageError(_IN_LOOP)
        if self._sender.link.is_receiving_thread:
            msg = "A callback of a handle runs in the receiving thread and must not wait: start a thread, or delegate."
            raise errors.UsageError(msg)

    # -- ends that the broker does not bring -----------------------------------------------------------------------

    @property
    def pending(self) -> list[Handle]:
        """What has no outcome yet, the oldest first."""
        return list(self._pending.values())

    def lose(self, handles: list[Handle]) -> None:
        """End what a broker owed us that was lost, or had given this node up."""
        message = "The broker was lost, or had given this node up, and this went with it."
        for handle in handles:
            self._end(handle, Status.FAILED_EXECUTION, "broker_lost", message)

    def end_overdue(self, now: float) -> None:
        """End what the supervisor ought to have ended `Timing.grace` ago; called at each heartbeat.

        After a time in which this very process stood still, the word may be here and not read yet: judged at the next one.
        """
        stood_still = now - self._looked > _STOOD_STILL * self._session_state.timing.heartbeat
        self._looked = now
        is_excused, self._was_late = stood_still and not self._was_late, stood_still
        if is_excused:
            return
        code, message = "broker_unreachable", _UNREACHABLE
        if self._session_state.trouble and self._session_state.is_heard(now):
            code, message = "journal_unavailable", f"{_UNWRITTEN} {self._session_state.trouble}"
        grace = self._session_state.timing.grace
        for handle in self.pending:
            if handle.deadline + grace < now and not self.awaited.may_come(handle.key, now):
                self._end(handle, Status.TIMEOUT, code, message)
        message = "The timeout of this handle ended; the same request was sent before with a longer one, and goes on."
        for handle in list(self._followers):
            if handle.deadline + _OWN_GRACE < now:
                self._end(handle, Status.TIMEOUT, "deadline", message)

    def close(self) -> None:
        """End what is still waited for, and what is yet to be."""
        self._is_closed = True  # first: a thread that notes its handle from now on ends it itself
        for handle in self.pending:
            self._end_closed(handle)
        for retried in list(self._retried):
            retried.close()

    def _end_closed(self, handle: Handle) -> None:
        self._end(handle, Status.CANCELLED, "closed", "The runtime was closed.")

    def _end(self, handle: Handle, status: Status, code: str, message: str, **fields: Any) -> None:
        if self._pending.get(handle.key) is handle:
            del self._pending[handle.key]
            self.awaited.gave_up(handle.key)
        self._followers.discard(handle)
        error = ErrorInfo(code=code, message=message, retryable=True)
        handle.end(Response(
            request_id=handle.id, status=status, from_agent=self._name, error=error, summary=message,
            timestamp=self.resources.wall(), external_id=handle.external_id, **fields,
        ))  # fmt: skip
