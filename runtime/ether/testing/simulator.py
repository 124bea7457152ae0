"""The world of a test: a clock, a broker, and nodes, moved one thing at a time and always in the same order.

    World.run ──► frames to and from the broker
              ──► a plain handler that can go on, or the next one's turn     Fibers
              ──► the nodes' event loops                                     InlineLoop
              ──► the observers

When nothing of that can move, only the clock can: `World.advance`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ether.testing.fiber import Fibers
from ether.testing.inline_node import InlineNode
from ether.testing.memory_broker import MemoryBroker, MemoryLink
from ether_broker.clock import ManualClock
from ether_broker.errors import UsageError, WaitTimeout
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.timing import DEFAULT_TIMING, Timing

__all__ = ["Stalled", "World"]

MOST_STEPS: Final = 1_000_000
"""Steps of one `run`; a bus that is not at rest after so many is taken for one that never is."""


class Stalled(WaitTimeout):
    """The error that what is waited for cannot come before the clock moves; the message says what is under way."""

    code = "stalled"


class World:
    """The state that the runtimes of one test share: clock, broker and nodes.

    Args:
        clock: moved by `advance` only.
        limits: bounds of the agents' mailboxes.
        timing: which the broker and its nodes keep.
    """

    def __init__(self, clock: ManualClock, limits: Limits | None = None, timing: Timing = DEFAULT_TIMING) -> None:
        self.clock = clock
        self.broker: MemoryBroker = MemoryBroker(clock, limits=limits, timing=timing)
        self._nodes: list[InlineNode] = []
        self._fibers = Fibers()
        self._ids = 0
        self.is_running: bool = False
        """Whether it moves at the moment, so that the caller is a handler, an observer or a callback."""

    def join(self, name: str) -> tuple[InlineNode, MemoryLink]:
        """A new node, which has joined.

        Raises:
            NodeRefused: the name is taken.
        """
        link = self.broker.connect()
        node = InlineNode(name, link, self)
        try:
            node.join(0.0)
        except BaseException:
            self.broker.disconnect(link)
            raise
        self._nodes.append(node)
        return node, link

    def leave(self, node: InlineNode) -> bool:
        """Forget a node, and end what of it still waits; whether it was the last one."""
        self._fibers.abandon(node)
        self._nodes.remove(node)
        if self._nodes:
            return False
        self._fibers.close()
        return True

    def new_id(self) -> bytes:
        """16 bytes that count up, in the form of a UUIDv7."""
        self._ids += 1
        return (0x7 << 76 | 0b10 << 62 | self._ids).to_bytes(16)

    # -- moving --------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Move everything that can move before the clock does.

        Raises:
            UsageError: called by a handler or an observer; only the test moves the bus.
            Stalled: it was not at rest after a million steps: something asks itself again and again.
        """
        self._run_until(lambda: False)

    def advance(self, seconds: float) -> None:
        """Run, then move the clock on from one thing that is due to the next, and run each time.

        Raises:
            ValueError: `seconds` is negative.
            UsageError, Stalled: as `run`.
        """
        end = self.clock.monotonic() + seconds
        if seconds < 0:
            self.clock.advance(seconds)
        self.run()
        while (due := self._next_due()) < end:
            self._move_to(due)
        self._move_to(end)

    def wait(self, is_ready: Callable[[], bool], timeout: float | None) -> bool:
        """Let the bus move until something is ready.

        In a handler, the others go on meanwhile, and `timeout` counts by the bus's clock. In the test, the bus is run;
        the clock stands, so `timeout` seconds do not pass.

        Returns:
            Whether it is ready; False only with a timeout.

        Raises:
            Stalled: it is not ready, the bus is at rest, and there is no timeout.
        """
        if self._fibers.current() is not None:
            until = None if timeout is None else self.clock.monotonic() + timeout
            return self._fibers.wait(is_ready, until)
        self._run_until(is_ready)
        if is_ready():
            return True
        if timeout is not None:
            return False
        raise Stalled(self._explain())

    def run_aside(self, owner: InlineNode, call: Callable[[], None]) -> None:
        """Run a call of a node in a fiber, until it ends or waits."""
        self._fibers.run(owner, call)

    # -- one thing at a time -------------------------------------------------------------------------------------

    def _run_until(self, is_ready: Callable[[], bool]) -> None:
        if self.is_running or self._fibers.current() is not None:
            raise UsageError("The bus runs already: handlers and observers are moved by it, only the test moves it.")
        self.is_running = True
        try:
            for _ in range(MOST_STEPS):
                if is_ready() or not self._step():
                    return
        finally:
            self.is_running = False
        raise Stalled(f"The bus was not at rest after {MOST_STEPS:,} steps. {self._explain()}")

    def _step(self) -> bool:
        if self.broker.exchange() or self._fibers.resume_one(self.clock.monotonic()):
            return True
        for node in list(self._nodes):
            if node.turns:
                self.run_aside(node, node.turns.popleft())
                return True
            if node.loop.run() or node.let_observers_see():
                return True
        return False

    def _next_due(self) -> float:
        candidates = [self.broker.supervisor.next_wake(), self._fibers.next_patience()]
        for node in self._nodes:
            candidates += [node.next_tick(), node.loop.next_timer()]
        return min(at for at in candidates if at is not None)

    def _move_to(self, at: float) -> None:
        self.clock.advance(max(0.0, at - self.clock.monotonic()))
        now = self.clock.monotonic()
        for node in list(self._nodes):
            if node.next_tick() <= now:
                node.ticked()
        self.run()

    def _explain(self) -> str:
        now = self.clock.monotonic()
        lines = []
        for entry in self.broker.supervisor.state.ledger.running:
            left = entry.deadline - now
            due = f"in {left:g} s" if left > 0 else "now: its TIMEOUT comes within 0.25 s, bus.advance(0.25)"
            state = f"{entry.capability.decode()} at {entry.agent.name.decode()}: {entry.state.name}"
            lines.append(f"  {state}, deadline {due}")
        for node in self._nodes:
            lines += [f"  {what}, due in {max(0.0, due - now):g} s" for due, what in node.outgoing.awaiting_retry]
        under_way = "\n".join(["Under way:", *lines[:20]]) if lines else "No delegation is under way."
        how = "bus.advance(seconds); docs/testing.md says how for a loop over bus.map"
        return f"Nothing more happens before the clock moves: {how}. {under_way}"
