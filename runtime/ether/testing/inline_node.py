"""A node without threads: a `World` moves what it has to do, one thing at a time."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Generator
from queue import Empty, SimpleQueue
from random import Random
from typing import Any, ClassVar, Final, Protocol, TypeVar

from ether.node.delegations.outgoing import OutgoingDelegations
from ether.node.node import Node
from ether.testing.inline_loop import InlineLoop
from ether_actors.delegator.handle import Handle
from ether_actors.execution.resources import Resources
from ether_actors.observers.observer import Observer
from ether_actors.observers.observer_thread import ObserverThread
from ether_actors.threads.latch import Waitable
from ether_actors.threads.loop_queue import LoopQueue
from ether_actors.threads.pool import Pool
from ether_broker.clock import ManualClock
from ether_broker.envelope.response import Response
from ether_broker.errors import WaitTimeout
from ether_broker.tap import read_batch
from ether_broker.transport.link import Link

__all__ = ["InlineHandle", "InlineNode", "InlineResources"]

_T = TypeVar("_T")
_PATIENCE: Final = 1.0
"""Seconds in which another task of the event loop has to move the bus's clock, when nothing else helps."""
_PAUSE: Final = 0.001


class _World(Protocol):
    """The interface of the `World` that a node is in."""

    clock: ManualClock

    def new_id(self) -> bytes:
        """A request id."""

    def wait(self, is_ready: Callable[[], bool], timeout: float | None) -> bool:
        """Move until something is ready."""

    def run_aside(self, owner: InlineNode, call: Callable[[], None]) -> None:
        """Run a call of a node on a stack of its own, until it ends or waits."""


class _InlinePool(Pool):
    """A pool that keeps the turns of plain handlers until the world runs them."""

    def __init__(self) -> None:
        super().__init__(1)
        self.turns: deque[Callable[[], None]] = deque()

    def submit(self, call: Callable[[], None]) -> None:
        """Run a callable when its turn comes."""
        self.turns.append(call)

    def relieve(self) -> None:
        """Nothing to do: no thread can be stuck."""

    def close(self, timeout: float = 2.0) -> int:  # noqa: ARG002  no time passes here
        """Drop what has not run."""
        self.turns.clear()
        return 0


class _InlineObserving(ObserverThread):
    """A queue of the tap's batches, until the world lets the observer see them."""

    def __init__(self, observer: Observer, acknowledge: Callable[[int], None], world: _World) -> None:
        super().__init__(observer, acknowledge)
        self._world = world
        self._is_started = False

    def start(self, position: int) -> None:
        """Begin with the message of that number."""
        self.observer.position = position
        self._is_started = True
        self.observer.guard(self.observer.on_start)

    def work(self) -> bool:
        """Let the observer see the next batch; whether there was one."""
        if not self._is_started or self._batches.empty():
            return False
        body = self._batches.get_nowait()
        assert body is not None
        batch = read_batch(body)
        self.observer.observe(batch)
        self._acknowledge(batch.next)
        return True

    def wait(self, number: int, timeout: float) -> bool:  # noqa: ARG002  no time passes here
        """Run the bus; whether everything below `number` has been handled."""
        self._world.wait(lambda: self.observer.position >= number, 0.0)
        return self.observer.position >= number

    def stop(self, timeout: float = 2.0) -> None:  # noqa: ARG002  no time passes here
        """End after the batches that are there."""
        while self.work():
            pass
        if self._is_started:
            self._is_started = False
            self.observer.guard(self.observer.on_stop)


class InlineHandle(Handle):
    """A handle that, awaited or followed in an event loop of the test's own, runs the bus."""

    __slots__ = ()

    _owner: OutgoingDelegations

    def __await__(self) -> Generator[Any, None, Response]:
        """Await the outcome in any event loop."""
        if self.done or self._owner.resources.loop.is_current:
            return (yield from super().__await__())
        try:
            yield from _moved(lambda: self._wait(None), self._owner.resources).__await__()
        except asyncio.CancelledError:
            self.cancel()
            raise
        return self.outcome()

    def _wait(self, timeout: float | None) -> None:
        """Run the bus until there is an outcome."""
        clock = self._owner.resources.monotonic
        began = clock()
        try:
            super()._wait(timeout)
        except WaitTimeout as error:
            if timeout is None or clock() > began:  # `Stalled`, or a handler waited
                raise
            msg = f"{self.capability} ({self.id}) has no outcome, and the clock stands: bus.advance(seconds) moves it."
            raise WaitTimeout(msg) from error


class InlineResources(Resources):
    """The resources of a node of a `World`."""

    handle_type: ClassVar[type[Handle]] = InlineHandle

    pool: _InlinePool
    loop: InlineLoop

    def __init__(self, world: _World, run_aside: Callable[[Callable[[], None]], None]) -> None:
        clock = world.clock
        chance = Random(0)  # noqa: S311  the same jitter each time
        loop = InlineLoop(clock, run_aside)
        super().__init__(clock, pool=_InlinePool(), loop=loop, make_id=world.new_id, chance=chance)
        self._world = world

    def make_pool(self, size: int, name: str) -> Pool:  # noqa: ARG002  one place for all turns
        """The same place as for all other turns."""
        return self.pool

    def make_observing(self, observer: Observer, acknowledge: Callable[[int], None]) -> ObserverThread:
        """A place where the world lets it see."""
        return _InlineObserving(observer, acknowledge, self._world)

    def wait(self, event: Waitable, timeout: float | None) -> bool:
        """Let the bus move until an event is set; see `World.wait`."""
        return event.is_set() or self._world.wait(event.is_set, timeout)

    def take(self, queue: SimpleQueue[_T], timeout: float | None) -> _T:
        """Let the bus move until a queue has something; see `World.wait`.

        Raises:
            Empty: as `Resources.take`.
        """
        if queue.empty() and not self._world.wait(lambda: not queue.empty(), timeout):
            raise Empty
        return queue.get_nowait()

    async def take_in_loop(self, queue: LoopQueue[_T], timeout: float | None) -> _T:
        """As `take`; in the bus's own event loop, whatever runs there moves on by itself."""
        if self.loop.is_current:
            return await queue.get(timeout)

        def move() -> None:
            if queue.empty() and not self._world.wait(lambda: not queue.empty(), timeout):
                raise Empty

        await _moved(move, self)
        return queue.get_nowait()


async def _moved(move: Callable[[], None], resources: Resources) -> None:
    """Let the bus move in a test's own event loop; while only the clock can help, let other tasks move that.

    Raises:
        Stalled: nobody has for a second.
    """
    began, clock = resources.monotonic(), time.monotonic
    end = clock() + _PATIENCE
    while True:
        try:
            move()
        except WaitTimeout:  # `Stalled`
            now = resources.monotonic()
            if now > began:
                began, end = now, clock() + _PATIENCE
            if clock() >= end:
                raise
            await asyncio.sleep(_PAUSE)
        else:
            await asyncio.sleep(0)
            return


class InlineNode(Node):
    """One node of a `World`."""

    resources: InlineResources

    def __init__(self, name: str, link: Link, world: _World) -> None:
        super().__init__(name, link, InlineResources(world, lambda call: world.run_aside(self, call)))

    @property
    def turns(self) -> deque[Callable[[], None]]:
        """Turns of its plain handlers that can be run now."""
        return self.resources.pool.turns

    @property
    def loop(self) -> InlineLoop:
        """Where its `async def` handlers run."""
        return self.resources.loop

    def let_observers_see(self) -> bool:
        """Give one observer its next batch; whether there was any."""
        return any(isinstance(found, _InlineObserving) and found.work() for found in self.observers.all_observing)
