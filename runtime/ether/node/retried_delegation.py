"""A delegation with a retry policy: one handle for its user, and a delegation of its own for each attempt.

delegate(1) ──► handle of the attempt ── outcome ──► Retry.delay ─┬─ None ──► the user's handle
▲                                              └─ seconds ──► timer ──┐
└─────────────────────── delegate(n + 1) ◄────────────────────────────┘
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from ether_actors.task.handle import Handle, HandleHost
from ether_actors.task.retry import Retry
from ether_broker import errors
from ether_broker.envelope.ids import to_text
from ether_broker.envelope.response import ErrorInfo, Response
from ether_broker.envelope.status import Status

if TYPE_CHECKING:
    from queue import SimpleQueue

    from ether_actors.execution.resources import Resources
    from ether_actors.threads.latch import Waitable
    from ether_actors.threads.loop_queue import LoopQueue
    from ether_broker.wire.frame import Header

__all__ = ["Attempt", "RetriedDelegation", "RetryHost"]

_ID: Final = 8
"""Bytes of a request id that its attempts share: its time."""
_VARIANT: Final = 0x80
"""What the ninth byte of a UUID begins with."""
_T = TypeVar("_T")


class Attempt(Protocol):
    """The signature of what makes an attempt: `delegate` of who delegates, with these fields of its own."""

    def __call__(self, timeout: float | None, **fields: Any) -> Handle:
        """Delegate."""
        ...


class RetryHost(HandleHost, Protocol):
    """The interface of the node that makes the attempts."""

    @property
    def name(self) -> str:
        """The node's."""

    @property
    def default_timeout(self) -> float:
        """Seconds that a delegation has when nothing else is said."""

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
        attempt: makes one.
        timeout: seconds for all attempts together.
    """

    def __init__(self, host: RetryHost, policy: Retry, attempt: Attempt, timeout: float | None) -> None:
        self._host = host
        self._policy = policy
        self._attempt = attempt
        self._state_lock = threading.Lock()
        self._number = 1
        self._is_waiting = False
        self._is_cancelled = False
        self.earlier: list[Response] = []
        """The outcomes of the attempts before the last."""
        begun = self.resources.monotonic()
        self._current = attempt(_least(policy.timeout, timeout))
        if policy.timeout is None:
            self._deadline = self._current.deadline
        else:
            self._deadline = begun + (host.default_timeout if timeout is None else timeout)
        self._first = self._current.key
        self.handle: Handle = self._current.twin(self, self._deadline)
        """The user's."""

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
        response, now = current.outcome(), self.resources.monotonic()
        delay = self._policy.delay(response, self._number, self._deadline - now, self.resources.random)
        with self._state_lock:
            is_over = delay is None or self._is_cancelled
            self._is_waiting = not is_over
        if is_over:
            self._end(current)
            return
        assert delay is not None
        self.earlier.append(response)
        self._host.call_at(now + delay, self._try_again)

    def _try_again(self) -> None:
        with self._state_lock:
            if not self._is_waiting:
                return  # cancelled or closed meanwhile
            self._is_waiting = False
        last, first = self._current, self.handle.delegation
        number, left = self._number + 1, self._deadline - self.resources.monotonic()
        marked = {**first.extensions, "retry": {"attempt": number, "first": to_text(self._first)}}
        try:
            if left <= 0.0:
                raise errors.WaitTimeout("The deadline passed during the delay.")
            current = self._attempt(
                _least(self._policy.timeout, left), request_id=_id_of(self._first, number), extensions=marked
            )
        except errors.EtherError:  # such as a budget that is used up, or the end of the runtime or of the task
            self.earlier.pop()
            self._end(last)
            return
        self._number = number
        self.handle.stand_for(current)
        with self._state_lock:
            self._current, is_cancelled = current, self._is_cancelled
        if is_cancelled:
            current.cancel()
        self._follow(current)

    def _end(self, current: Handle) -> None:
        self._host.forget(self)
        current.share(self.handle)

    def close(self) -> None:
        """End it if it waits for its next attempt, as the runtime is closed."""
        self._give_up("closed", "The runtime was closed.")

    def _give_up(self, code: str, message: str) -> bool:
        with self._state_lock:
            is_waiting, self._is_waiting = self._is_waiting, False
        if is_waiting:
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

    def check_may_wait(self) -> None:
        """As the node's."""
        self._host.check_may_wait()

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


def _id_of(first: bytes, attempt: int) -> str:
    """The request id of an attempt: the same each time that the first has the same, so that nothing runs once more for it."""
    digest = hashlib.sha256(first + attempt.to_bytes(2)).digest()[: 16 - _ID]
    return to_text(first[:_ID] + bytes([_VARIANT | digest[0] & 0x3F]) + digest[1:])
