"""The resources of a node: its threads, its event loop, its clock, its ids and its random numbers."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import nullcontext
from queue import SimpleQueue
from typing import ClassVar, TypeVar

from ether_actors.delegator.handle import Handle
from ether_actors.observers.observer import Observer
from ether_actors.observers.observer_thread import ObserverThread
from ether_actors.threads.event_loop import EventLoop
from ether_actors.threads.latch import Waitable
from ether_actors.threads.loop_queue import LoopQueue
from ether_actors.threads.pool import Pool, this_thread
from ether_broker.clock import Clock
from ether_broker.envelope.ids import new_id, to_text

__all__ = ["Resources"]

_T = TypeVar("_T")


class Resources:
    """The resources of a node: its threads, event loop, clock, ids and random numbers.

    The double of the runtime has another, in which nothing happens by itself.

    Args:
        clock: read for deadlines.
        pool: where plain handlers run.
        loop: where `async def` handlers run; default: one with a thread of its own.
        make_id: makes request ids of 16 bytes.
        chance: where the jitter of restarts comes from.
    """

    handle_type: ClassVar[type[Handle]] = Handle
    """What `delegate` gives."""

    def __init__(
        self, clock: Clock, *, pool: Pool, loop: EventLoop | None = None, make_id: Callable[[], bytes] = new_id,
        chance: random.Random | None = None,
    ) -> None:  # fmt: skip
        self.pool = pool
        self.loop: EventLoop = loop or EventLoop()
        self.random: random.Random = chance or random.Random()  # noqa: S311  jitter is no secret
        self.make_id = make_id
        """A new request id in 16 bytes."""
        self.monotonic: Callable[[], float] = clock.monotonic
        """The node's clock in seconds."""
        self.wall: Callable[[], float] = clock.wall
        """Seconds since 1970 in UTC."""
        self._private_pools: list[Pool] = []

    def new_id(self) -> str:
        """A request id as text."""
        return to_text(self.make_id())

    def run(self, call: Callable[[], None]) -> None:
        """Run a callable in the pool."""
        self.pool.submit(call)

    def make_pool(self, size: int, name: str) -> Pool:
        """Threads of an agent's own, which end with the node."""
        pool = Pool(size, name)
        self._private_pools.append(pool)
        return pool

    def make_observing(self, observer: Observer, acknowledge: Callable[[int], None]) -> ObserverThread:
        """Where an observer is to run."""
        return ObserverThread(observer, acknowledge)

    def wait(self, event: Waitable, timeout: float | None) -> bool:
        """Wait for an event; in a thread of a pool, another thread takes its place meanwhile."""
        waits = this_thread.waits
        if waits is nullcontext:  # as of most threads
            return event.wait(timeout)
        with waits():
            return event.wait(timeout)

    def take(self, queue: SimpleQueue[_T], timeout: float | None) -> _T:
        """Wait for the next of a queue; as `wait`.

        Raises:
            Empty: `timeout` seconds were not enough.
        """
        with this_thread.waits():
            return queue.get(timeout=timeout)

    async def take_in_loop(self, queue: LoopQueue[_T], timeout: float | None) -> _T:
        """Await the next of a queue; as `take`."""
        return await queue.get(timeout)

    def relieve(self) -> None:
        """Called about every 0.1 s: let what waits for a thread have one; see `Pool.relieve`."""
        self.pool.relieve()
        for pool in self._private_pools:
            pool.ask_again()

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs on them, or waits, that has to be looked after."""
        return self.loop.is_idle and self.pool.is_idle and all(pool.is_idle for pool in self._private_pools)

    def close(self, timeout: float) -> None:
        """End loop and threads, waiting at most `timeout` seconds for each."""
        self.loop.close(timeout)
        for pool in (self.pool, *self._private_pools):
            pool.close(timeout)
