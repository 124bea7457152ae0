"""The node's one event loop, in a thread of its own, for `async def` handlers. It is made when first needed."""

from __future__ import annotations

import contextlib
import contextvars
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ClassVar, Final

if TYPE_CHECKING:
    import asyncio
    from traceback import StackSummary

__all__ = ["EventLoop"]

logger = logging.getLogger("ether.loop")

_ANSWERED: Final = -1
_TICKS: Final = 5
"""Without an answer; they pass only while this process runs."""
_FRAMES: Final = 12


class EventLoop:
    """An asyncio event loop in a thread of its own, which runs coroutines for other threads."""

    STANDS_STILL: ClassVar = 0.5
    """Seconds without coming round after which it stands still."""

    def __init__(self, name: str = "ether-loop") -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._left: list[threading.Thread] = []
        """Threads of loops that were given up."""
        self._calls: deque[Callable[[], None]] = deque()
        self._woken = False
        self._closed = False
        self._tasks = 0
        self._is_draining = False
        self._unanswered = _ANSWERED

    def call(self, call: Callable[[], None]) -> bool:
        """Run a callable in the loop's thread soon; a burst of calls wakes it once. False after `close`: it is dropped."""
        with self._lock:
            if self._closed:
                return False
            self._calls.append(call)
            if self._woken:
                return True
            self._woken = True
            loop = self._loop or self._start()
        self._wake(loop)
        return True

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        with contextlib.suppress(RuntimeError):  # it was closed meanwhile, and has run the call before
            loop.call_soon_threadsafe(self._drain, loop)

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a coroutine; in the loop's thread only."""
        assert self._loop is not None
        task = self._loop.create_task(coroutine)
        self._tasks += 1
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.get_loop() is self._loop:
            self._tasks -= 1

    def cancel(self, task: asyncio.Task[None]) -> None:
        """Cancel a coroutine; any thread may call it. One that was just spawned gets to its first await before.

        asyncio would end it without running a line of it, its `finally` included.
        """
        loop = task.get_loop()
        with contextlib.suppress(RuntimeError):  # the loop was given up, and has ended since
            loop.call_soon_threadsafe(lambda: loop.call_soon(task.cancel))

    @property
    def is_current(self) -> bool:
        """Whether the caller is the loop's thread, which must not be blocked."""
        return self._thread is not None and self._thread is threading.current_thread()

    def _drain(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        with self._lock:
            if loop is not self._loop:
                return
            self._woken = False
        self._is_draining = True
        while self._calls and loop is self._loop:
            try:
                contextvars.Context().run(self._calls.popleft())  # a handler does not see what another has set
            except Exception:
                logger.exception("a call in the event loop raised; this is a bug of the bus")
        if loop is self._loop:
            self._is_draining = False

    # -- a loop that stands still --------------------------------------------------------------------------------

    def ticked(self) -> bool:
        """Called about every 0.1 s; whether something has kept the loop from coming round for half a second.

        An idle loop is not woken.
        """
        loop = self._loop
        if loop is None or self._closed:
            return False
        if self._unanswered == _ANSWERED:
            if self._tasks or self._is_draining or self._calls:
                self._unanswered = 0
                loop.call_soon_threadsafe(self._came_round, loop)
        else:
            self._unanswered += 1
        return self.stands_still

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs in it, or waits."""
        return not (self._tasks or self._calls or self._is_draining or self._unanswered != _ANSWERED)

    @property
    def stands_still(self) -> bool:
        """Whether something keeps it; where neither a call nor a task does, the machine gives its thread no time."""
        return self._unanswered >= _TICKS and (self._is_draining or self.task is not None)

    def _came_round(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop is self._loop:
            self._unanswered = _ANSWERED

    @property
    def task(self) -> asyncio.Task[Any] | None:
        """What the loop runs at the moment; None for a plain call, too."""
        import asyncio

        return None if self._loop is None else asyncio.current_task(self._loop)

    def stack(self) -> StackSummary:
        """Where the loop's thread is at the moment: its newest frames, the newest last."""
        import sys
        import traceback

        thread = self._thread
        frames = sys._current_frames()  # noqa: SLF001  there is no other way to another thread's stack
        frame = None if thread is None else frames.get(thread.ident or 0)
        return traceback.StackSummary() if frame is None else traceback.extract_stack(frame, _FRAMES)

    def give_up(self) -> None:
        """Leave the loop to what it stands still in; another one takes what comes. The old one ends when it can."""
        with self._lock:
            loop, thread = self._loop, self._thread
            if loop is None or thread is None or self._closed:
                return
            self._left = [left for left in self._left if left.is_alive()] + [thread]
            self._loop = self._thread = None
            self._is_draining = False
            self._tasks, self._unanswered = 0, _ANSWERED
            new = self._start() if self._calls else None
            self._woken = new is not None
        loop.call_soon_threadsafe(loop.stop)
        if new is not None:
            self._wake(new)

    def _start(self) -> asyncio.AbstractEventLoop:
        import asyncio

        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(self._loop,), name=self._name, daemon=True)
        self._thread.start()
        return self._loop

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        import asyncio

        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            loop.run_until_complete(self._run_last(loop))
            pending = asyncio.all_tasks(loop)
            for task in pending:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    async def _run_last(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run what was called before `close`, and each task to its first await: one that is never begun is a warning."""
        import asyncio

        self._drain(loop)
        await asyncio.sleep(0)

    def close(self, timeout: float = 2.0) -> None:
        """Run what was called, cancel what then runs and end the thread, waiting at most `timeout` seconds."""
        with self._lock:
            self._closed = True
            loop, thread = self._loop, self._thread
            left = self._left
        if loop is not None and thread is not None and thread.is_alive():
            loop.call_soon_threadsafe(loop.stop)
            thread.join(timeout)
        for thread in left:
            thread.join(timeout / len(left))
