"""A double of the runtime: the same bus in memory, which moves when it is told to."""

from __future__ import annotations

import math
from typing import Any, NoReturn, Self, TypeVar

from ether.runtime import DRAIN, Runtime
from ether.testing.inline_node import InlineNode
from ether.testing.memory_broker import MemoryLink
from ether.testing.simulator import World
from ether_actors.observers.observer import Observer
from ether_actors.observers.probe import Probe
from ether_broker.clock import ManualClock
from ether_broker.errors import UsageError
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.number import is_number
from ether_broker.timing import DEFAULT_TIMING, Timing

__all__ = ["TestRuntime"]

_O = TypeVar("_O", bound=Observer)


class TestRuntime(Runtime):
    """A `Runtime` for tests: nothing happens but in your own calls, and always in the same order.

        class Sleeper(Agent):
            @capability("sleep")
            async def sleep(self) -> None:
                await asyncio.sleep(3600)

        with TestRuntime() as bus:
            bus.start(Sleeper)
            handle = bus.delegate("sleep", timeout=60)
            bus.advance(60.25)                               # a minute, in no time; deadlines are looked at each 0.25 s
            assert handle.result().status is Status.TIMEOUT

    It is the real supervisor, the real nodes and the real agents on a transport in memory; only threads, sockets and
    the clock are not. What an embedded `Runtime()` promises holds here too; a journal, keys, access lists and addresses
    it has not. What differs:

    - Handlers run inside `result()`, `run()`, `advance()` and whatever else waits; never two at once. A plain handler
      may wait for a sub-delegation: the others go on meanwhile.
    - Time moves by `advance` alone, and then deadlines, heartbeats, restarts' backoff and `asyncio.sleep` fall due in
      order. `time.sleep` in a handler sleeps for real.
    - `asyncio.to_thread` and `run_in_executor` in a handler run their call at once, alone, outside of the event loop; it
      may wait for a sub-delegation as a plain handler may.
    - Waiting for what cannot come before the clock moves raises `Stalled` and says what is under way; with a timeout
      it ends at once as if the time were up.
    - Request ids count up, and jitter is the same each time.

    All of it belongs to one thread.

    Args:
        name: of the node.
        clock: default: one of its own, that shows 1,000,000.0, as `ManualClock`; schedules of `@cron` go by it.
        limits: bounds of the agents' mailboxes.
        timing: as `Runtime`.
        drain: as `Runtime`; no time passes, so what is not done when the bus is at rest is cancelled.

    Raises:
        UsageError: the clock is no ManualClock.
    """

    __test__ = False  # pytest takes what is called Test… for tests

    def __init__(
        self,
        *,
        name: str = "test",
        clock: ManualClock | None = None,
        limits: Limits | None = None,
        timing: Timing = DEFAULT_TIMING,
        drain: float = DRAIN,
    ) -> None:
        super().__init__(name=name, limits=limits, timing=timing, drain=drain)
        if clock is not None and not isinstance(clock, ManualClock):
            msg = f"clock is {clock!r:.80}, and has to be a ManualClock: ManualClock(seconds since 1970)."
            raise UsageError(msg)
        self.clock: ManualClock = clock or ManualClock()
        """What the bus takes for the time; `advance` moves it."""
        self._world: World | None = None
        self._link: MemoryLink | None = None

    @classmethod
    def connect(cls, url: str, **options: Any) -> NoReturn:  # noqa: ARG003  as Runtime's
        """Not for the double, which is no place on a bus that is there.

        Raises:
            UsageError: always.
        """
        raise UsageError(f"There is no bus at {url} for a TestRuntime: bus.join(name) gives another node of its own.")

    # -- life ----------------------------------------------------------------------------------------------------

    def open(self) -> Self:
        """Start; the same as entering the `with` block.

        Raises:
            UsageError: it is open already.
            NodeRefused: another node of this bus has the name.
        """
        if self._node is not None:
            raise UsageError("The runtime is open already: open it once, or make another.")
        if self._world is None:
            self._world = World(self.clock, self._limits, self._timing)
        self._node, self._link = self._world.join(self._name)
        return self

    def close(self, drain: float | None = None) -> None:  # noqa: ARG002  no time passes here
        """Drain and end; a second call does nothing."""
        node, self._node = self._inline, None
        if node is not None and self._world is not None:
            self._world.run()
            node.close(0.0)
            self._world.run()
            self._forget(node)

    def join(self, name: str, *, drain: float = DRAIN) -> TestRuntime:
        """Another node of this bus, open; close it before this one, or use it in a `with` block of its own.

        Raises:
            NodeRefused: the name is taken.
            Closed: this runtime is not open.
        """
        assert self.node is not None
        other = TestRuntime(name=name, clock=self.clock, drain=drain)
        other._world = self._world
        return other.open()

    def kill(self) -> None:
        """End this node as `kill -9` would: nobody is told, and what it had is lost. The broker notices within 1 s."""
        node, self._node = self._inline, None
        if node is not None and self._world is not None and self._link is not None:
            self._link.cut()
            node.abandon()
            self._world.broker.disconnect(self._link)
            self._forget(node)

    def _forget(self, node: InlineNode) -> None:
        if self._world is not None and self._world.leave(node):
            self._world = None

    def __enter__(self) -> Self:
        """Open it, unless it is."""
        return self if self._node is not None else self.open()

    # -- moving --------------------------------------------------------------------------------------------------

    @property
    def link(self) -> MemoryLink:
        """The way to the broker, to cut and to mend.

        Raises:
            Closed: the runtime is not open.
        """
        assert self.node is not None
        assert self._link is not None
        return self._link

    def run(self) -> None:
        """Let everything happen that can happen before the clock moves.

        Raises:
            UsageError: called by a handler or an observer; only the test moves the bus.
            Stalled: it was not at rest after a million steps: something asks itself again and again.
        """
        self._moving.run()

    def advance(self, seconds: float) -> None:
        """Let time pass: all that falls due within it happens, in order, and what comes of it.

        Raises:
            ValueError: `seconds` is negative.
            UsageError: `seconds` is no number, or as `run`.
            Stalled: as `run`.
        """
        if not is_number(seconds) or not math.isfinite(seconds):
            raise UsageError(f"advance({seconds!r:.40}): seconds, as in bus.advance(2.5).")
        self._moving.advance(seconds)

    def observe(self, observer: _O, *, since: int = 0) -> _O:
        """Attach an observer; a `Probe` then runs the bus before each look. See `Runtime.observe`."""
        super().observe(observer, since=since)
        if isinstance(observer, Probe):
            observer.step = self._run_if_at_rest
        return observer

    def _run_if_at_rest(self) -> None:
        if self._node is not None and not self._moving.is_running:
            self.run()

    @property
    def _moving(self) -> World:
        assert self.node is not None
        assert self._world is not None
        return self._world

    @property
    def _inline(self) -> InlineNode | None:
        assert self._node is None or isinstance(self._node, InlineNode)
        return self._node
