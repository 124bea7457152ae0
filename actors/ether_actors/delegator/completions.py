"""The handles of several delegations in the order in which they end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from typing import Self

from ether_actors.delegator.handle import Handle, HandleHost, checked_timeout
from ether_actors.delegator.mapped import Mapped
from ether_actors.threads.loop_queue import LoopQueue
from ether_broker.errors import UsageError, WaitTimeout

__all__ = ["Completions", "as_completed"]


def as_completed(handles: Iterable[Handle], timeout: float | None = None) -> Completions:
    """Yield the handles as their outcomes come, whichever is first; iterate with for or async for.

    Args:
        handles: of one runtime or several; a handle that is there twice is yielded once.
        timeout: seconds to wait for all of them together; None and infinity wait for all outcomes.

    Raises:
        WaitTimeout: in the iteration; not all ended within `timeout` seconds. The delegations continue.
        UsageError: `timeout` is no number, or one of them is no handle; or in the iteration with for, as `Handle.result`.
    """
    return Completions(handles, timeout)


class Completions:
    """The handles of `as_completed`, in the order in which they end. Each is given once.

    For one thread, or one task, at a time.

    Example:
        handles = [bus.delegate("text.count", {"text": "word " * n}) for n in range(1, 4)]
        assert sorted(handle.outcome().data for handle in as_completed(handles)) == [1, 2, 3]
    """

    def __init__(self, handles: Iterable[Handle], timeout: float | None) -> None:
        if isinstance(handles, Mapped):
            raise UsageError("as_completed takes handles, and a map gives outcomes already: iterate over it.")
        self._waiting = set(handles)
        for other in self._waiting:
            if not isinstance(other, Handle):
                raise UsageError(
                    f"as_completed takes handles, as `delegate` gives them; one of these is {other!r:.80}."
                )
        self._patience = checked_timeout(timeout)
        self._timeout = timeout
        self._end: float | None = None
        self._ended: SimpleQueue[Handle] | LoopQueue[Handle] | None = None

    def __iter__(self) -> Self:
        """Wait for each."""
        return self

    def __next__(self) -> Handle:
        """Wait for the next."""
        if not self._waiting:
            raise StopIteration
        if not isinstance(self._ended, SimpleQueue):
            for handle in self._waiting:
                handle._owner.check_may_wait()  # noqa: SLF001  the handle's own
            self._ended = SimpleQueue()
            self._begin(self._ended.put)
        try:
            return self._taken(self._owner.take(self._ended, _left(self._end)))
        except Empty:
            raise self._overdue() from None

    def __aiter__(self) -> Self:
        """Await each."""
        return self

    async def __anext__(self) -> Handle:
        """Await the next; a task that is cancelled meanwhile has taken nothing."""
        if not self._waiting:
            raise StopAsyncIteration
        if not isinstance(self._ended, LoopQueue) or not self._ended.is_of_this_loop:
            self._ended = LoopQueue()
            self._begin(self._ended.put)
        try:
            return self._taken(await self._owner.take_in_loop(self._ended, _left(self._end)))
        except Empty:
            raise self._overdue() from None

    @property
    def _owner(self) -> HandleHost:
        return next(iter(self._waiting))._owner  # noqa: SLF001  one waits as the other

    def _begin(self, ended: Callable[[Handle], None]) -> None:
        """Have `ended` called with each handle as it ends; the patience begins with the first wait."""
        if self._end is None and self._patience is not None:
            self._end = time.monotonic() + self._patience
        for handle in list(self._waiting):
            handle._owner.flush()  # noqa: SLF001  as above
            if not handle._when_done(ended):  # noqa: SLF001  as above
                ended(handle)

    def _taken(self, handle: Handle) -> Handle:
        self._waiting.discard(handle)
        return handle

    def _overdue(self) -> WaitTimeout:
        return WaitTimeout(f"{len(self._waiting)} delegations had no outcome after {self._timeout} s; they go on.")


def _left(end: float | None) -> float | None:
    return None if end is None else max(0.0, end - time.monotonic())
