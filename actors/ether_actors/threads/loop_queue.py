"""A queue into an event loop: other threads put, and one task of the loop gets."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import asyncio

__all__ = ["LoopQueue", "call_in"]

_T = TypeVar("_T")


class LoopQueue(Generic[_T]):
    """A queue of what other threads bring to a task of the running event loop."""

    def __init__(self) -> None:
        import asyncio

        self._loop = asyncio.get_running_loop()
        self._items: SimpleQueue[_T] = SimpleQueue()
        self._has_news = asyncio.Event()

    @property
    def is_of_this_loop(self) -> bool:
        """Whether it is of the loop that runs here."""
        import asyncio

        return asyncio.get_running_loop() is self._loop

    def put(self, item: _T) -> None:
        """Add an item; from any thread."""
        self._items.put(item)
        call_in(self._loop, self._has_news.set)

    def get_nowait(self) -> _T:
        """Take the next.

        Raises:
            Empty: there is none.
        """
        return self._items.get_nowait()

    def empty(self) -> bool:
        """Whether there is none."""
        return self._items.empty()

    async def get(self, timeout: float | None) -> _T:
        """Await the next.

        Raises:
            Empty: `timeout` seconds were not enough.
        """
        import asyncio

        try:
            async with asyncio.timeout(timeout):
                while self._items.empty():
                    self._has_news.clear()
                    if self._items.empty():
                        await self._has_news.wait()
        except TimeoutError:
            raise Empty from None
        return self._items.get_nowait()


def call_in(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
    """Have a loop call something; not if it was closed meanwhile, where nobody waits any more."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(call)
