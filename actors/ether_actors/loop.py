"""The node's one event loop, in a thread of its own, for `async def` handlers. It is made when first needed."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

__all__ = ["LoopThread"]

logger = logging.getLogger("ether.loop")


class LoopThread:
    """Runs coroutines for other threads."""

    def __init__(self, name: str = "ether-loop") -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._calls: deque[Callable[[], None]] = deque()
        self._woken = False
        self._closed = False

    def call(self, call: Callable[[], None]) -> None:
        """Run a callable in the loop's thread soon; a burst of calls wakes the loop once. Dropped after `close`."""
        if self._closed:
            return
        self._calls.append(call)
        loop = self._loop or self._start()
        with self._lock:
            if self._woken or self._closed:
                return
            self._woken = True
        loop.call_soon_threadsafe(self._drain)

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a coroutine; in the loop's thread only."""
        assert self._loop is not None
        return self._loop.create_task(coroutine)

    def cancel(self, task: asyncio.Task[None]) -> None:
        """Cancel a coroutine; any thread may call it. One that was just spawned gets to its first await before.

        asyncio would end it without running a line of it, its `finally` included.
        """

        def after_its_start() -> None:
            task.get_loop().call_soon(task.cancel)

        self.call(after_its_start)

    @property
    def is_current(self) -> bool:
        """Whether the caller is the loop's thread, which must not be blocked."""
        return self._thread is threading.current_thread()

    def _drain(self) -> None:
        with self._lock:
            self._woken = False
        calls = self._calls
        while calls:
            try:
                calls.popleft()()
            except Exception:
                logger.exception("a call in the event loop raised; this is a bug of the bus")

    def _start(self) -> asyncio.AbstractEventLoop:
        import asyncio

        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._run, args=(self._loop,), name=self._name, daemon=True
                )  # fmt: skip
                self._thread.start()
            return self._loop

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        import asyncio

        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            pending = asyncio.all_tasks(loop)
            for task in pending:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    def close(self, timeout: float = 2.0) -> None:
        """Cancel what runs and end the thread, waiting at most `timeout` seconds."""
        with self._lock:
            self._closed = True
            loop, thread = self._loop, self._thread
        if loop is not None and thread is not None and thread.is_alive():
            loop.call_soon_threadsafe(loop.stop)
            thread.join(timeout)
