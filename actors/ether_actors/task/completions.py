"""The handles of several delegations in the order in which they end."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from queue import Empty, SimpleQueue
from typing import Self

from ether_actors.task.handle import Handle, HandleHost, patience_of
from ether_actors.threads.loop_queue import LoopQueue
from ether_broker.errors import WaitTimeout

__all__ = ["Completions", "as_completed"]


def as_completed(handles: Iterable[Handle], timeout: float | None = None) -> Completions:
    """Yield the handles as their outcomes come, whichever is first; iterate with for or async for.

    Args:
        handles: of one runtime or several; a handle that is there twice is yielded once.
        timeout: seconds to wait for all of them together; None and infinity wait for all outcomes.

    Raises:
        WaitTimeout: in the iteration; not all ended within `timeout` seconds. The delegations continue.
        UsageError: `timeout` is no number; or in the iteration with for, as `Handle.result`.
    """
    return Completions(handles, timeout)


class Completions:
    """The handles of `as_completed`, in the order in which they end. They can be iterated once.

    Example:
        handles = [bus.delegate("text.count", {"text": "word " * n}) for n in range(1, 4)]
        assert sorted(handle.outcome().data for handle in as_completed(handles)) == [1, 2, 3]
    """

    def __init__(self, handles: Iterable[Handle], timeout: float | None) -> None:
        self._waiting = set(handles)
        self._patience = patience_of(timeout)
        self._timeout = timeout
        self._ended: Iterator[Handle] | None = None
        self._ended_in_loop: AsyncIterator[Handle] | None = None

    def __iter__(self) -> Self:
        """Wait for each."""
        return self

    def __next__(self) -> Handle:
        """Wait for the next."""
        if self._ended is None:
            self._ended = self._wait()
        return next(self._ended)

    def __aiter__(self) -> Self:
        """Await each."""
        return self

    async def __anext__(self) -> Handle:
        """Await the next."""
        if self._ended_in_loop is None:
            self._ended_in_loop = self._await()
        return await anext(self._ended_in_loop)

    def _wait(self) -> Iterator[Handle]:
        queue: SimpleQueue[Handle] = SimpleQueue()
        end = self._begin(queue.put, may_wait=False)
        while self._waiting:
            try:
                handle = self._any.take(queue, _left(end))
            except Empty:
                raise self._overdue() from None
            self._waiting.discard(handle)
            yield handle

    async def _await(self) -> AsyncIterator[Handle]:
        queue: LoopQueue[Handle] = LoopQueue()
        end = self._begin(queue.put, may_wait=True)
        while self._waiting:
            try:
                handle = await self._any.take_in_loop(queue, _left(end))
            except Empty:
                raise self._overdue() from None
            self._waiting.discard(handle)
            yield handle

    @property
    def _any(self) -> HandleHost:
        return next(iter(self._waiting))._owner  # noqa: SLF001  one waits as the other

    def _begin(self, ended: Callable[[Handle], None], *, may_wait: bool) -> float | None:
        """Have `ended` called with each handle as it ends; when to stop waiting, by the clock of this process."""
        end = None if self._patience is None else time.monotonic() + self._patience
        for handle in list(self._waiting):
            owner = handle._owner  # noqa: SLF001  as above
            if not may_wait:
                owner.check_may_wait()
            owner.flush()
            if not handle._when_done(ended):  # noqa: SLF001  as above
                ended(handle)
        return end

    def _overdue(self) -> WaitTimeout:
        return WaitTimeout(f"{len(self._waiting)} delegations had no outcome after {self._timeout} s; they go on.")


def _left(end: float | None) -> float | None:
    return None if end is None else max(0.0, end - time.monotonic())
