"""A map of delegations: one for each item, some open at a time, their outcomes in the order of the items."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from queue import SimpleQueue
from typing import Any, Final, Self, TypeVar

from ether_actors.delegator.handle import Handle, HandleHost
from ether_actors.threads.loop_queue import LoopQueue
from ether_broker.envelope.response import ErrorInfo, Response
from ether_broker.envelope.status import Status
from ether_broker.errors import BudgetExceeded, EtherError, InvalidEnvelope, PayloadTooLarge, UsageError

__all__ = ["WINDOW", "Mapped"]

WINDOW: Final = 64
"""Delegations that are open at a time."""
_Queue = TypeVar("_Queue", SimpleQueue[Handle], LoopQueue[Handle])
_NOTHING: Final = object()
_AHEAD: Final = 16
"""Windows of outcomes that are kept for an item before them that takes long; then nothing further is begun."""


class Mapped:
    """The outcomes of `bus.map`, in the order of the items; iterate with for or async for, once.

    An item whose work fails has its outcome in its place, as every delegation has, and so has one that cannot be sent:
    REJECTED_CONTEXT. An item for which the task has no budget left waits until one that is open has an outcome. What keeps
    all further items from being begun, such as Closed or what the iterable raises, is raised when the outcomes before it have
    been given. Items are taken as they are needed, none before the iteration begins; one that is never iterated is told as a
    RuntimeWarning. Whoever leaves the iteration begins nothing more, and `close`, or the end of a `with` or `async with` block,
    cancels what is open. For one thread, or one task, at a time.

    Example:
        texts = [{"text": "word " * n} for n in range(100)]
        outcomes = bus.map("text.count", texts, window=8)
        assert [response.data for response in outcomes] == list(range(100))
        assert (outcomes.done, outcomes.failed, outcomes.total) == (100, 0, 100)
    """

    def __init__(
        self, delegate: Callable[[Any], Handle], items: Iterable[Any], window: int, check_may_wait: Callable[[], None],
        note: Callable[[BudgetExceeded], None] = lambda _refusal: None,
    ) -> None:  # fmt: skip
        if isinstance(window, bool) or not isinstance(window, int) or window < 1:
            raise UsageError(f"window={window!r:.40}: delegations that are open at a time, 1 or more.")
        if isinstance(items, str | bytes | dict):
            kind = type(items).__name__
            raise UsageError(
                f"map takes the params of many delegations, as in [{{'text': 'a'}}, …]; this is one {kind}."
            )
        if not hasattr(items, "__iter__"):
            raise UsageError(
                f"map takes the items from a list or a plain (not async) generator; this is {items!r:.80}."
            )
        self.done: int = 0
        """Items that have an outcome."""
        self.failed: int = 0
        """Those whose outcome is not COMPLETED."""
        self.total: int | None = len(items) if isinstance(items, Sized) else None
        """Items in all; None if they do not say how many they are."""
        self._delegate = delegate
        self._check_may_wait = check_may_wait
        self._note_refusal = note
        self._error: Exception | None = None
        """What kept the items that are left from being begun."""
        self._items: Iterator[Any] = iter(items)
        self._put_back: Any = _NOTHING
        """An item that the budget has no room for, until an outcome is here."""
        self._window = window
        self._order: deque[Handle | Response] = deque()
        """What has been begun and not been given yet."""
        self._open: set[Handle] = set()
        """Those of it whose outcome has not been noted."""
        self._ended: SimpleQueue[Handle] | LoopQueue[Handle] | None = None
        self._is_used = False

    def __iter__(self) -> Self:
        """Wait for each."""
        return self

    def __next__(self) -> Response:
        """Wait for the next."""
        self._is_used = True
        self._check_may_wait()
        if not isinstance(self._ended, SimpleQueue):
            self._ended = self._move_to(SimpleQueue())
        if not self._begin(self._ended):
            raise self._stop(StopIteration)
        while (response := self._first()) is None:
            self._note(self._owner.take(self._ended, None))
            self._begin(self._ended)
        return response

    def __aiter__(self) -> Self:
        """Await each."""
        return self

    async def __anext__(self) -> Response:
        """Await the next; a task that is cancelled meanwhile has taken nothing."""
        self._is_used = True
        if not isinstance(self._ended, LoopQueue) or not self._ended.is_of_this_loop:
            self._ended = self._move_to(LoopQueue())
        if not self._begin(self._ended):
            raise self._stop(StopAsyncIteration)
        while (response := self._first()) is None:
            self._note(await self._owner.take_in_loop(self._ended, None))
            self._begin(self._ended)
        return response

    def _stop(self, end: type[Exception]) -> Exception:
        """What is raised when all that was begun has been given: the end, or what kept the rest from being begun."""
        error, self._error = self._error, None
        return error or end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Cancel what is open, and begin and give nothing more."""
        self._items, self._put_back, self._error, self._is_used = iter(()), _NOTHING, None, True
        for handle in self._order:
            if isinstance(handle, Handle):
                handle.cancel()
        self._order.clear()

    def __del__(self) -> None:
        """Warn that nothing was done, if nothing was ever taken."""
        if not getattr(self, "_is_used", True) and self.total != 0:
            msg = (
                "A map was never iterated over, so none of its delegations was made: use `for response in bus.map(…)`."
            )
            warnings.warn(msg, RuntimeWarning, stacklevel=2)

    def _move_to(self, ended: _Queue) -> _Queue:
        """Have what is open told to another queue, as the iteration goes on in another way."""
        for handle in self._open:
            if not handle._when_done(ended.put):  # noqa: SLF001  the handle's own
                ended.put(handle)
        return ended

    @property
    def _owner(self) -> HandleHost:
        return next(one for one in self._order if isinstance(one, Handle))._owner  # noqa: SLF001  one waits as the other

    def _begin(self, ended: SimpleQueue[Handle] | LoopQueue[Handle]) -> bool:
        """Begin what the window has room for; whether anything is left to give."""
        while not ended.empty():
            self._note(ended.get_nowait())
        last: Handle | None = None
        while len(self._open) < self._window and len(self._order) < _AHEAD * self._window:
            item = self._take()
            if item is _NOTHING:
                break
            try:
                last = self._delegate(item)
            except (InvalidEnvelope, PayloadTooLarge) as error:
                self._order.append(_refused(error))
                self.done += 1
                self.failed += 1
                continue
            except BudgetExceeded as refusal:
                if refusal.retryable and self._open:  # what is open leaves something of it
                    self._put_back = item
                    break
                self._note_refusal(refusal)
                self._items, self._error = iter(()), refusal
                break
            except EtherError as error:  # such as a runtime that was closed
                self._items, self._error = iter(()), error
                break
            self._order.append(last)
            self._open.add(last)
            if not last._when_done(ended.put):  # noqa: SLF001  as above
                ended.put(last)
        if last is not None:
            last._owner.flush()  # noqa: SLF001  as above
        return bool(self._order)

    def _take(self) -> Any:
        """The next item, or `_NOTHING`."""
        item, self._put_back = self._put_back, _NOTHING
        if item is not _NOTHING:
            return item
        try:
            return next(self._items, _NOTHING)
        except Exception as error:  # noqa: BLE001  the iterable's own: what was begun before has its outcomes first
            self._items, self._error = iter(()), error
            return _NOTHING

    def _note(self, handle: Handle) -> None:
        """Note an outcome, once: when it is told or given, whatever comes first."""
        if handle in self._open:
            self._open.discard(handle)
            self.done += 1
            self.failed += not handle.outcome().ok

    def _first(self) -> Response | None:
        """The outcome that is to be given next, once it is there."""
        first = self._order[0]
        if isinstance(first, Response):
            self._order.popleft()
            return first
        if not first.done:
            return None
        self._order.popleft()
        self._note(first)
        return first.outcome()


def _refused(error: InvalidEnvelope | PayloadTooLarge) -> Response:
    return Response(
        request_id="",
        status=Status.REJECTED_CONTEXT,
        summary=str(error),
        error=ErrorInfo(code=error.code, message=str(error)),
    )
