"""Fibers: calls that may stop in the middle and go on later, one at a time.

A plain handler that waits for a sub-delegation has to stand still while the rest of the bus goes on, on its own stack.
So each runs on a thread of its own, but never two at once: who starts or resumes a fiber stands still until it has
parked or ended. All that happens is in one order, which is the same in each run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

__all__ = ["Abandoned", "Fiber", "Fibers"]

_here = threading.local()


class Abandoned(BaseException):
    """Raised in a parked fiber whose bus was closed or whose node was killed; nothing waits for it any more."""


class Fiber:
    """One call at a time, on a thread of its own; used by `Fibers` only."""

    def __init__(self, number: int) -> None:
        self.is_ready: Callable[[], bool] = bool
        """Whether what it waits for has come; asked while it is parked."""
        self.until: float | None = None
        """When its patience ends, by the bus's clock; None is never."""
        self.owner: object = None
        """Whose call it runs."""
        self._call: Callable[[], None] | None = None
        self._is_over = False
        self._is_abandoned = False
        self._go = threading.Semaphore(0)
        self._back = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, name=f"ether-test-{number}", daemon=True)

    def run(self, call: Callable[[], None]) -> bool:
        """Run a call until it ends or parks; whether it ended."""
        self._call = call
        self._is_over = False
        if self._thread.ident is None:
            self._thread.start()
        return self.resume()

    def resume(self) -> bool:
        """Let a parked call go on until it ends or parks again; whether it ended."""
        self._go.release()
        self._back.acquire()
        return self._is_over

    def park(self) -> None:
        """Stand still until resumed; in the fiber itself.

        Raises:
            Abandoned: it is to end.
        """
        self._back.release()
        self._go.acquire()
        if self._is_abandoned:
            raise Abandoned

    def abandon(self) -> None:
        """Raise `Abandoned` in a parked call, and run what it does about that."""
        self._is_abandoned = True
        while not self.resume():
            pass
        self._is_abandoned = False

    def end(self) -> None:
        """End the thread; the fiber has no call."""
        self._call = None
        if self._thread.ident is not None:
            self._go.release()
            self._thread.join()

    def _run(self) -> None:
        _here.fiber = self
        while True:
            self._go.acquire()
            if self._call is None:
                return
            try:
                self._call()
            finally:
                self._is_over = True
                self._back.release()


class Fibers:
    """The fibers of one bus."""

    def __init__(self) -> None:
        self.parked: list[Fiber] = []
        """Those that wait, in the order in which they began to."""
        self._idle: list[Fiber] = []
        self._made = 0

    @staticmethod
    def current() -> Fiber | None:
        """The fiber that runs this code; None outside of all."""
        return getattr(_here, "fiber", None)

    def run(self, owner: object, call: Callable[[], None]) -> None:
        """Run a call until it ends or waits for something; not to be called in a fiber."""
        if self._idle:
            fiber = self._idle.pop()
        else:
            self._made += 1
            fiber = Fiber(self._made)
        fiber.owner = owner
        self._note(fiber, is_over=fiber.run(call))

    def resume_one(self, now: float) -> bool:
        """Let the first parked fiber go on that can; False when none can."""
        for fiber in self.parked:
            if fiber.is_ready() or (fiber.until is not None and fiber.until <= now):
                self.parked.remove(fiber)
                self._note(fiber, is_over=fiber.resume())
                return True
        return False

    def next_patience(self) -> float | None:
        """When the patience of the first of them ends; None when none has a limit."""
        return min((fiber.until for fiber in self.parked if fiber.until is not None), default=None)

    def wait(self, is_ready: Callable[[], bool], until: float | None) -> bool:
        """Park the calling fiber until it is ready, or its patience ends; whether it is ready."""
        fiber: Final = self.current()
        assert fiber is not None
        if not is_ready():
            fiber.is_ready, fiber.until = is_ready, until
            fiber.park()
        return is_ready()

    def abandon(self, owner: object = None) -> None:
        """End the parked calls of an owner, or of all."""
        for fiber in [fiber for fiber in self.parked if owner is None or fiber.owner is owner]:
            self.parked.remove(fiber)
            fiber.abandon()
            self._idle.append(fiber)

    def close(self) -> None:
        """End all parked calls and all threads."""
        self.abandon()
        while self._idle:
            self._idle.pop().end()

    def _note(self, fiber: Fiber, *, is_over: bool) -> None:
        (self._idle if is_over else self.parked).append(fiber)
