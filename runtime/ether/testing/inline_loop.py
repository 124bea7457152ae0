"""An event loop that runs when it is told to, on the bus's clock: `asyncio.sleep(5)` ends after `bus.advance(5)`."""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import threading
from asyncio import events
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any

from ether.testing.fiber import Abandoned
from ether_actors.threads.event_loop import EventLoop
from ether_broker.clock import Clock

__all__ = ["InlineLoop"]


class _Selector(selectors.SelectSelector):
    """Stops its loop where another would wait, and keeps for how long that would have been."""

    loop: _VirtualLoop
    patience: float | None = None
    """Seconds that the loop would have waited; None is for ever."""

    def select(self, timeout: float | None = None) -> Any:
        """What is ready now."""
        ready = super().select(0)
        self.patience = timeout
        if not ready and (timeout is None or timeout > 0):
            self.loop.stop()
        return ready

    @property
    def is_woken(self) -> bool:
        """Whether somebody called `call_soon_threadsafe`, as a handle does that an `async def` awaits."""
        return bool(super().select(0))


class _VirtualLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop with another clock, whose executor is the fibers of the bus."""

    def __init__(self, clock: Clock, run_aside: Callable[[Callable[[], None]], None]) -> None:
        self._clock = clock
        self._run_aside = run_aside
        self.waits = _Selector()
        self.waits.loop = self
        super().__init__(self.waits)

    def time(self) -> float:
        """The bus's clock."""
        return self._clock.monotonic()

    def run_in_executor(  # type: ignore[override]  # typeshed's has a TypeVarTuple of its own
        self,
        executor: Executor | None,  # noqa: ARG002  asyncio's
        func: Callable[..., Any],
        *args: Any,
    ) -> asyncio.Future[Any]:
        """Run a function at once, as far as it can go before the bus moves: a thread would take a time of its own.

        It runs in a fiber, so that it is in no event loop there, as in a thread, and may wait for the bus.
        """
        future = self.create_future()

        def settle(how: Callable[[Any], None], what: object) -> None:
            if not future.done():  # or the handler was cancelled meanwhile
                how(what)

        def work() -> None:
            how: Callable[[Any], None] = future.set_result
            try:
                what = func(*args)
            except Abandoned:
                return
            except BaseException as error:  # noqa: BLE001  whatever it is, the awaiting handler gets it
                how, what = future.set_exception, error
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                self.call_soon_threadsafe(settle, how, what)

        self._run_aside(work)
        return future


class InlineLoop(EventLoop):
    """An event loop that runs in the thread that calls `run`; asyncio's loop is made when first needed.

    Args:
        clock: what its timers go by.
        run_aside: runs a call in a fiber, until it ends or parks.
    """

    def __init__(self, clock: Clock, run_aside: Callable[[Callable[[], None]], None]) -> None:
        super().__init__()
        self._clock = clock
        self._run_aside = run_aside
        self._virtual: _VirtualLoop | None = None
        self._runs_in: int | None = None
        self._stood_still = 0.0

    def call(self, call: Callable[[], None]) -> bool:
        """Run a callable in the loop at the next `run`. False after `close`: it is dropped."""
        if self._closed:
            return False
        self._calls.append(call)
        return True

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a coroutine; in the loop only."""
        assert self._virtual is not None
        return self._virtual.create_task(coroutine)

    @property
    def is_current(self) -> bool:
        """Whether the caller is in the loop, which must not be blocked."""
        return self._runs_in == threading.get_ident()

    def run(self) -> bool:
        """Run until nothing can go on before the clock moves; whether there was anything to do."""
        if self._closed:
            return False
        virtual = self._virtual
        timer = self.next_timer()
        is_due = timer is not None and timer <= self._clock.monotonic()
        if not self._calls and not is_due and (virtual is None or not virtual.waits.is_woken):
            return False
        self._turn(virtual or self._make(), self._drain)
        return True

    def next_timer(self) -> float | None:
        """When the next of its timers is due, by the bus's clock; None when none is set."""
        virtual = self._virtual
        if virtual is None or virtual.waits.patience is None:
            return None
        return self._stood_still + virtual.waits.patience

    def close(self, timeout: float = 2.0) -> None:  # noqa: ARG002  no time passes here
        """Cancel what runs, and end."""
        self._closed = True
        virtual = self._virtual
        if virtual is not None:
            self._turn(virtual, self._drain)
            self._turn(virtual, lambda: [task.cancel() for task in asyncio.all_tasks(virtual)])
            self._turn(virtual, lambda: virtual.create_task(virtual.shutdown_asyncgens()))
            virtual.close()
            self._virtual = None

    def _make(self) -> _VirtualLoop:
        self._virtual = _VirtualLoop(self._clock, self._run_aside)
        return self._virtual

    def _turn(self, virtual: _VirtualLoop, call: Callable[[], object]) -> None:
        outer = events._get_running_loop()  # noqa: SLF001  the test may itself be a coroutine
        events._set_running_loop(None)  # noqa: SLF001
        self._runs_in = threading.get_ident()
        try:
            virtual.call_soon(call)
            virtual.run_forever()
        finally:
            self._runs_in = None
            self._stood_still = self._clock.monotonic()
            events._set_running_loop(outer)  # noqa: SLF001
