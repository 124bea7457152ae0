"""What a node runs on in a simulated process: turns and coroutines are events on the timeline, and there are no threads."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from random import Random
from typing import TYPE_CHECKING, Any

from ether_actors.delegator.handle import Handle
from ether_actors.execution.resources import Resources
from ether_actors.observers.observer import Observer
from ether_actors.observers.observer_thread import ObserverThread
from ether_actors.threads.event_loop import EventLoop
from ether_actors.threads.pool import Pool
from ether_broker.envelope.response import Response
from ether_broker.tap import read_batch
from tests.simulation.blocking import current

if TYPE_CHECKING:
    from tests.simulation.member import Life, Watcher

__all__ = ["SimulatedHandle", "SimulatedResources", "Sleep"]


class Sleep:
    """Awaited by a handler: virtual seconds."""

    __slots__ = ("_seconds",)

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __await__(self) -> Generator[Any, None, None]:
        yield self

    def arm(self, task: _Task) -> None:
        """Wake a task later."""
        step = task.pause()
        task.loop.life.after(self._seconds, lambda: task.wake(step))


class _Outcome:
    __slots__ = ("_handle",)

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def arm(self, task: _Task) -> None:
        step = task.pause()
        self._handle.add_done_callback(lambda _handle: task.wake(step))


class SimulatedHandle(Handle):
    """A handle that the coroutines of a simulated process await."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, Response]:
        """Wait for the outcome."""
        if not self.done:
            self._owner.flush()
            yield _Outcome(self)
        return self.outcome()


class _Task:
    """A coroutine on the timeline; as asyncio's task, as far as cells use it."""

    __slots__ = ("_coroutine", "_is_over", "_step", "loop")

    def __init__(self, loop: _Loop, coroutine: Coroutine[Any, Any, None]) -> None:
        self.loop = loop
        self._coroutine = coroutine
        self._is_over = False
        self._step = 0
        self.wake(0)

    def pause(self) -> int:
        return self._step

    def wake(self, step: int) -> None:
        self.loop.call(lambda: self._go_on(step, None))

    def cancel(self) -> None:
        self.loop.call(lambda: self._go_on(self._step, asyncio.CancelledError()))

    def _go_on(self, step: int, error: BaseException | None) -> None:
        if self._is_over or step != self._step:
            return
        self._step += 1
        try:
            awaited = self._coroutine.send(None) if error is None else self._coroutine.throw(error)
        except StopIteration:
            self._is_over = True
        else:
            awaited.arm(self)


class _Loop(EventLoop):
    """Calls in the order in which they came."""

    def __init__(self, life: Life) -> None:
        super().__init__()
        self.life = life
        self._is_scheduled = False

    def call(self, call: Callable[[], None]) -> bool:
        """Run a callable soon; False after `close`."""
        if self._closed:
            return False
        self._calls.append(call)
        if not self._is_scheduled:
            self._is_scheduled = True
            self.life.after(0.0, self._run_all)
        return True

    def _run_all(self) -> None:
        self._is_scheduled = False
        calls, self._calls = self._calls, deque()
        for call in calls:
            call()

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> Any:
        """Start a coroutine."""
        return _Task(self, coroutine)

    def cancel(self, task: Any) -> None:
        """Cancel a coroutine; one that was just spawned gets to its first await before."""
        self.call(task.cancel)

    @property
    def is_current(self) -> bool:
        """Nothing here ever blocks."""
        return False

    def close(self, timeout: float = 2.0) -> None:
        """Drop what has not run."""
        self._closed = True
        self._calls.clear()


class _Pool(Pool):
    """Turns, each a moment after it was asked for, as with threads that are busy; never two of them at once."""

    def __init__(self, life: Life) -> None:
        super().__init__(1)
        self._life = life

    def submit(self, call: Callable[[], None]) -> None:
        """Run a callable soon; two need not run in the order in which they came."""
        if not self._closed:
            self._life.after(self._life.chance.random() * 0.0005, call)

    def relieve(self) -> None:
        """Nothing to do: no thread can be stuck."""

    def close(self, timeout: float = 2.0) -> int:
        """Drop what has not run."""
        self._closed = True
        return 0


class _Observing(ObserverThread):
    """An observer that sees each batch a while after it came."""

    observer: Watcher

    def __init__(self, observer: Watcher, acknowledge: Callable[[int], None], life: Life) -> None:
        super().__init__(observer, acknowledge)
        self._life = life
        self._waiting: deque[bytes] = deque()
        self._is_busy = False

    def start(self, position: int) -> None:
        """Begin with the message of that number."""
        self.observer.position = position

    def post(self, batch: bytes) -> None:
        """Take a batch from the link."""
        self._following = int.from_bytes(batch[8:16])
        self._waiting.append(batch)
        if not self._is_busy:
            self._is_busy = True
            self._life.after(self.observer.pace, self._see)

    def _see(self) -> None:
        if not self._waiting:
            return  # stopped meanwhile
        batch = read_batch(self._waiting.popleft())
        self.observer.observe(batch)
        self._is_busy = bool(self._waiting)
        if self._is_busy:
            self._life.after(self.observer.pace, self._see)
        self._acknowledge(batch.next)

    def stop(self, timeout: float = 2.0) -> None:
        """End at once."""
        self._waiting.clear()


class SimulatedResources(Resources):
    """What the node of one life runs on."""

    handle_type = SimulatedHandle

    def __init__(self, life: Life, make_id: Callable[[], bytes], chance: Random) -> None:
        super().__init__(life.member.clock, pool=_Pool(life), loop=_Loop(life), make_id=make_id, chance=chance)
        self._life = life

    def make_pool(self, size: int, name: str) -> Pool:
        """The same place as for all other turns."""
        return self.pool

    def make_observing(self, observer: Observer, acknowledge: Callable[[int], None]) -> ObserverThread:
        """A place on the timeline."""
        return _Observing(observer, acknowledge, self._life)  # type: ignore[arg-type]  # all observers here are

    def wait(self, event: threading.Event, timeout: float | None) -> bool:
        """Wait for it in a call that may; whoever else asks goes on as if it had come."""
        call = current()
        return True if call is None else call.wait(event, timeout)
