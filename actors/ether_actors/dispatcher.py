"""Where an agent's turns run: in a pool of threads (`ether_actors.pool.Pool`), or in the event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ether_actors.loop import LoopThread

__all__ = ["Dispatcher", "LoopDispatcher"]


class Dispatcher(Protocol):
    """Where an agent's turns run."""

    @property
    def has_more(self) -> bool:
        """Whether calls wait; their answers can go out together with the caller's."""
        ...

    def submit(self, call: Callable[[], None]) -> None:
        """Run a callable soon."""
        ...


class LoopDispatcher:
    """Turns in the event loop."""

    def __init__(self, loop: LoopThread) -> None:
        self._loop = loop

    @property
    def has_more(self) -> bool:
        """Not known of a loop."""
        return False

    def submit(self, call: Callable[[], None]) -> None:
        """Run a callable in the loop soon."""
        self._loop.call(call)
