"""A delegation with a retry policy: one handle for its user, and a delegation of its own for each attempt.

first() ──► handle of the attempt ── outcome ──► Retry.delay ─┬─ None ──► the user's handle
▲                                             └─ seconds ──► timer ──┐
└──────────────── again(copy of the first) ◄─────────────────────────┘
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from ether_actors.delegator.handle import Handle, HandleHost
from ether_actors.delegator.retry import Retry
from ether_actors.threads.pending_call import PendingCall
from ether_broker.encoding.frozen import freeze
from ether_broker.envelope.delegation import Delegation
from ether_broker.envelope.ids import foreign_id, to_text
from ether_broker.envelope.names import SUPERVISOR
from ether_broker.envelope.response import ErrorInfo, Response
from ether_broker.envelope.status import Status
from ether_broker.errors import BudgetExceeded, EtherError

if TYPE_CHECKING:
    from queue import SimpleQueue

    from ether_actors.execution.resources import Resources
    from ether_actors.threads.latch import Waitable
    from ether_actors.threads.loop_queue import LoopQueue
    from ether_broker.wire.frame import Header

__all__ = ["RetriedDelegation", "RetryHost"]

logger: logging.Logger = logging.getLogger("ether.retry")

_T = TypeVar("_T")
_MARK: Final = "retry"
"""The extension that tells of an attempt its number and the request id of the first."""
_BUDGET: Final = 0.1
"""Seconds until it is looked again whether the budget has room for an attempt, of which others have set all aside."""
_UNTAKEN: Final = frozenset({"journal_unavailable", "link_full"})
"""Codes with which the node and the supervisor refuse a request without regard to what became of its id before."""


class RetryHost(HandleHost, Protocol):
    """The interface of the node that makes the attempts."""

    @property
    def name(self) -> str:
        """The node's."""

    @property
    def default_timeout(self) -> float:
        """Seconds that a delegation has when nothing else is said."""

    @property
    def is_closed(self) -> bool:
        """Whether nothing is delegated any more."""

    @property
    def resources(self) -> Resources:
        """The node's."""

    def call_at(self, at: float, call: Callable[[], None], /) -> None:
        """Call something in the pool at a time by the node's clock."""

    def forget(self, retried: RetriedDelegation) -> None:
        """Learn that there will be no further attempt."""


class RetriedDelegation:
    """A delegation that is tried again by a policy; the owner of its user's handle, a `HandleHost`.

    Args:
        host: the node.
        policy: says which outcomes are tried again.
        first: makes the first attempt, which has so many seconds.
        again: makes another, a copy of the first with fields of its own.
        timeout: seconds for all attempts together; None is the bus's default.
        is_named: whether the request id of the first is the user's, who may send it again.
    """

    def __init__(
        self, host: RetryHost, policy: Retry, first: Callable[[float | None], Handle],
        again: Callable[[Delegation], Handle], timeout: float | None, *, is_named: bool,
    ) -> None:  # fmt: skip
        self._host = host
        self._policy = policy
        self._again = again
        self._is_named = is_named
        self._state_lock = threading.Lock()
        self._number = 1
        self._waiting: PendingCall | None = None
        """The next attempt, as long as it is waited for."""
        self.due: float | None = None
        """When the next attempt is due by the node's clock; None while one runs, and at the end."""
        self._is_cancelled = False
        self.earlier: list[Response] = []
        """The outcomes of the attempts before the last."""
        begun = self.resources.monotonic()
        self._current = first(_least(policy.timeout, timeout))
        self._first = self._current.key
        deadline = self._current.deadline
        if policy.timeout is not None:
            budget = self._current.delegation.budget
            limit = None if budget is None else budget.max_time_sec
            deadline = begun + (_least(timeout, limit) or host.default_timeout)
        self.handle: Handle = self._current.twin(self, deadline)
        """The user's."""

    def __str__(self) -> str:
        number = f"attempt {self._number + 1} of {self._policy.attempts}"
        return f"{self.handle.capability} ({self.handle.id}), which waits for {number}"

    def begin(self) -> Handle:
        """Follow the first attempt; returns the user's handle."""
        self._follow(self._current)
        return self.handle

    def _follow(self, current: Handle) -> None:
        def hear(update: tuple[Header, bytes] | None) -> None:
            if update is not None:
                self.handle.deliver(*update)
            else:
                self._ended(current)

        current.listen(hear)

    def _ended(self, current: Handle) -> None:
        """Decide on the outcome of an attempt."""
        try:
            response, now = current.outcome(), self.resources.monotonic()
            delay = self._policy.delay(response, self._number, self.handle.deadline - now, self.resources.random)
        except Exception:
            logger.exception("a retry policy failed; the outcome of the attempt stands")
            delay = None
        if delay is None or not self._wait(response, now + delay):
            self._end(current)

    def _wait(self, response: Response, due: float) -> bool:
        """Wait for the time of the next attempt, after one with that outcome; False if it was cancelled."""
        waiting = PendingCall(self._try_again)
        with self._state_lock:
            if self._is_cancelled:
                return False
            self.earlier.append(response)
            self._waiting = waiting
            self.due = due
        self._host.call_at(due, waiting)
        if self._host.is_closed:  # perhaps it has been through with those that wait
            self.close()
        return True

    def _try_again(self) -> None:
        """Make the next attempt, as its time has come."""
        self.due = None
        last, number, now = self._current, self._number + 1, self.resources.monotonic()
        left = self.handle.deadline - now
        current, is_put_off = None, False
        try:
            current = self._again(self._copy(number, _least(self._policy.timeout, left))) if left > 0.0 else None
        except EtherError as error:  # such as a budget that is used up, or the end of the runtime or of the task
            logger.debug("attempt %d of %s is not made: %s", number, self.handle.id, error)
            is_put_off = isinstance(error, BudgetExceeded) and error.retryable and left > _BUDGET
        except BaseException:
            logger.exception("attempt %d of %s cannot be made", number, self.handle.id)
        if current is None:
            response = self.earlier.pop()
            if not is_put_off or not self._wait(response, now + _BUDGET):
                self._end(last)
            return
        self._number = number
        self.handle.stand_for(current)
        with self._state_lock:
            self._current, is_cancelled = current, self._is_cancelled
        if is_cancelled:
            current.cancel()
        self._follow(current)

    def _copy(self, number: int, timeout: float | None) -> Delegation:
        """The first delegation as that attempt; the same each time if the request id is the user's, who may repeat it."""
        first, text = self.handle.delegation, to_text(self._first)
        request_id = self._next_name() if self._is_named else self.resources.make_id()
        return first.model_copy(update={
            "request_id": to_text(request_id), "timeout": timeout, "timestamp": self.resources.wall(),
            "extensions": freeze({**first.extensions, _MARK: {"attempt": number, "first": text}}),
        })  # fmt: skip

    def _next_name(self) -> bytes:
        """The request id of the next attempt of a request that is the user's.

        What was not taken keeps its id: an earlier process may have delegated it, so another id might run it twice.
        """
        last = self.earlier[-1]
        is_own = last.from_agent in {self._host.name, SUPERVISOR}
        if (
            is_own
            and last.status is Status.REJECTED_OVERLOAD
            and last.error is not None
            and last.error.code in _UNTAKEN
        ):
            return self._current.key
        return foreign_id(f"{to_text(self._current.key)}/again")

    def _end(self, current: Handle) -> None:
        self._host.forget(self)
        current.share(self.handle)

    def close(self) -> None:
        """End it if it waits for its next attempt, as the runtime is closed."""
        self._give_up("closed", "The runtime was closed.")

    def _give_up(self, code: str, message: str) -> bool:
        with self._state_lock:
            is_waiting = self._waiting is not None and self._waiting.cancel()
        if is_waiting:
            self.due = None
            self._host.forget(self)
            self.handle.end(Response(
                request_id=self.handle.id, status=Status.CANCELLED, from_agent=self._host.name, summary=message,
                error=ErrorInfo(code=code, message=message), timestamp=self.resources.wall(),
                external_id=self.handle.external_id,
            ))  # fmt: skip
        return is_waiting

    # -- what the user's handle needs ------------------------------------------------------------------------------

    @property
    def resources(self) -> Resources:
        """Of the node."""
        return self._host.resources

    @property
    def lock(self) -> AbstractContextManager[bool, None]:
        """The node's."""
        return self._host.lock

    def cancel(self, handle: Handle) -> None:  # noqa: ARG002  the only one
        """Cancel the attempt that runs, or the wait for the next; there will be none."""
        with self._state_lock:
            self._is_cancelled = True
            current = self._current
        if not self._give_up("cancelled", "The delegator cancelled it.") and not current.done:
            self._host.cancel(current)

    def flush(self) -> None:
        """Send what has been kept back."""
        self._host.flush()

    def call(self, call: Callable[[], object]) -> None:
        """As the node's."""
        self._host.call(call)

    def check_may_wait(self, *, in_own_loop: bool = False) -> None:
        """As the node's."""
        self._host.check_may_wait(in_own_loop=in_own_loop)

    def wait(self, event: Waitable, timeout: float | None) -> bool:
        """As the node's."""
        return self._host.wait(event, timeout)

    def take(self, queue: SimpleQueue[_T], timeout: float | None) -> _T:
        """As the node's."""
        return self._host.take(queue, timeout)

    async def take_in_loop(self, queue: LoopQueue[_T], timeout: float | None) -> _T:
        """As the node's."""
        return await self._host.take_in_loop(queue, timeout)


def _least(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else min(one, other)
