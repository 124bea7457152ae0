"""Calls of a process that wait: in threads that take turns with the timeline, so that nothing ever happens at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Final

from ether_actors.threads.latch import Waitable

if TYPE_CHECKING:
    from tests.simulation.member import Life

__all__ = ["Blocking", "VirtualTime", "current"]

_LOOK: Final = 0.01
"""Seconds between two looks at what is waited for."""
_here: Final = threading.local()


class _Abandoned(BaseException):
    """The world is over, or the process."""


class Blocking:
    """A call that waits. It begins at once, and what made it goes on when it waits for the first time.

    Args:
        life: the process; the call waits for ever when that crashes.
        call: what is done.
    """

    def __init__(self, life: Life, call: Callable[[], None]) -> None:
        self._life = life
        self._call = call
        self._turn, self._pause = threading.Semaphore(0), threading.Semaphore(0)
        self._error: BaseException | None = None
        self._is_abandoned = False
        self.is_over = False
        """Whether it has returned."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        life.member.world.blocking[self] = None
        self._go_on()

    def wait(self, event: Waitable, timeout: float | None) -> bool:
        """Wait for an event, in the call's thread; False when `timeout` seconds were not enough."""
        clock = self._life.member.clock
        end = inf if timeout is None else clock.monotonic() + timeout

        def look() -> None:
            if event.is_set() or clock.monotonic() >= end:
                self._go_on()
            else:
                self._life.after(_LOOK, look)

        if not event.is_set() and clock.monotonic() < end:
            self._rest(min(_LOOK, end - clock.monotonic()), look)
        return event.is_set()

    def sleep(self, seconds: float) -> None:
        """Wait, in the call's thread."""
        self._rest(seconds, self._go_on)

    def monotonic(self) -> float:
        """The time of its process."""
        return self._life.member.clock.monotonic()

    def abandon(self) -> None:
        """End it where it is."""
        self._is_abandoned = True
        self._go_on()
        self._thread.join()

    def _rest(self, seconds: float, then: Callable[[], None]) -> None:
        self._life.after(seconds, then)
        self._pause.release()
        self._turn.acquire()
        if self._is_abandoned:
            raise _Abandoned

    def _go_on(self) -> None:
        """Let it run until it waits again, or returns."""
        self._turn.release()
        self._pause.acquire()
        if self.is_over:
            self._life.member.world.blocking.pop(self, None)
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        self._turn.acquire()
        _here.call = self
        try:
            self._call()
        except _Abandoned:
            pass
        except BaseException as error:
            self._error = error
        finally:
            self.is_over = True
            self._pause.release()


def current() -> Blocking | None:
    """The call in whose thread this is asked, if it is one's."""
    return getattr(_here, "call", None)


class VirtualTime:
    """What modules of the product that wait take for `time`: the process's in a call that waits, else the system's."""

    @staticmethod
    def monotonic() -> float:
        """See `time.monotonic`."""
        call = current()
        return time.monotonic() if call is None else call.monotonic()

    @staticmethod
    def sleep(seconds: float) -> None:
        """See `time.sleep`."""
        call = current()
        assert call is not None
        call.sleep(seconds)
