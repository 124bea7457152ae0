"""Dispatchers, which run an agent's turns: in a pool of threads (`ether_actors.threads.pool.Pool`), or in the event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ether_actors.threads.pool import Room

if TYPE_CHECKING:
    from ether_actors.threads.event_loop import EventLoop

__all__ = ["Dispatcher", "LoopDispatcher"]


class Dispatcher(Protocol):
    """The interface of what runs an agent's turns."""

    def backlog(self) -> int:
        """How many calls wait; their answers could go out together with the caller's."""

    @property
    def room(self) -> Room:
        """What may be begun in a turn now."""

    def submit(self, call: Callable[[], None]) -> None:
        """Run a callable soon."""

    def call_when_room(self, wake: Callable[[], None]) -> None:
        """Call `wake` when there is room for all."""


class LoopDispatcher:
    """A dispatcher that runs an agent's turns in the event loop."""

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop

    def backlog(self) -> int:
        """Not known of a loop."""
        return 0

    @property
    def room(self) -> Room:
        """For all: what waits in a loop takes no thread."""
        return Room.ALL

    def submit(self, call: Callable[[], None]) -> None:
        """Run a callable in the loop soon."""
        self._loop.call(call)

    def call_when_room(self, wake: Callable[[], None]) -> None:
        """Call it soon; there is always room."""
        self._loop.call(wake)
