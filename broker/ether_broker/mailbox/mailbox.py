"""An agent's mailbox at the broker: bounded in count and in bytes, emptied by credit."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Generic, Protocol, TypeVar

from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.mailbox.priority_queue import PriorityQueue, RebalancedQueue

__all__ = ["Letter", "Mailbox", "Offer"]


class Letter(Protocol):
    """The interface of a mailbox's items: a size, and an end that may come while it waits; compared by identity."""

    size: int
    is_over: bool
    priority: int
    """Its class, as of `priority_of`."""


_L = TypeVar("_L", bound=Letter)


class Offer(Enum):
    """The results of offering a delegation to a mailbox."""

    SEND = auto()
    """There is credit: send it now; the credit is taken."""
    QUEUED = auto()
    """It waits."""
    FULL = auto()
    """A bound is reached; it was not taken."""


_SEND, _QUEUED, _FULL = Offer  # a member of an Enum costs a look-up each time that it is named


class Mailbox(Generic[_L]):
    """The queue of an agent's delegations at the broker, bounded in count and in bytes; each priority is first in, first out.

    A letter leaves when the agent's node has credit for it, or when it ends.

    Keeps nothing that it does not count. Every method but `keep` is O(1), amortised; nothing here reads a clock.
    """

    __slots__ = ("_waiting", "in_flight", "is_open", "limits", "on_change", "waiting_bytes", "waiting_count")

    is_open: bool
    """False while its agent restarts, drains or is down: then it gives nothing out."""
    in_flight: int
    """Letters that the node holds, and so credit taken."""
    waiting_count: int
    """Letters that wait."""
    waiting_bytes: int
    """Bytes that wait."""
    on_change: Callable[[], None] | None
    """Called when `outstanding` has changed."""

    def __init__(self, limits: Limits) -> None:
        self.limits: Limits = limits
        self.in_flight = 0
        self._waiting: PriorityQueue[_L] = PriorityQueue()
        self.waiting_count = 0
        self.waiting_bytes = 0
        self.is_open = True
        self.on_change = None

    @property
    def outstanding(self) -> int:
        """Letters that wait or are with the node; what the choice among holders compares."""
        return self.waiting_count + self.in_flight

    def offer(self, letter: _L) -> Offer:
        """Take a letter, or say that there is no room; as `FastPath` does without a call."""
        limits = self.limits
        if self.is_open and self.in_flight < limits.window and not self.waiting_count:
            self.in_flight += 1
            if self.on_change is not None:
                self.on_change()
            return _SEND
        if self.waiting_count >= limits.mailbox_count or self.waiting_bytes + letter.size > limits.mailbox_bytes:
            return _FULL
        self._waiting.append(letter, letter.priority)
        self._count(letter, 1)
        return _QUEUED

    def put_back(self, letter: _L) -> None:
        """Place a letter that was accepted before at the front, whatever the bounds: it is not refused now."""
        self._waiting.put_back(letter, letter.priority)
        self._count(letter, 1)

    def restore(self, letter: _L) -> None:
        """Place a letter that was accepted before at the end, whatever the bounds: its broker was restarted."""
        self._waiting.append(letter, letter.priority)
        self._count(letter, 1)

    def forget(self, letter: _L) -> None:
        """Make room for another: the letter waits here and has ended, or was taken and goes elsewhere."""
        self._waiting.discard(letter, letter.priority)
        self._count(letter, -1)

    def _count(self, letter: _L, more: int) -> None:
        self.waiting_count += more
        self.waiting_bytes += more * letter.size
        if self.on_change is not None:
            self.on_change()

    def take_credit(self) -> None:
        """Count a letter that the node has already, as another broker gave it."""
        self.in_flight += 1
        if self.on_change is not None:
            self.on_change()

    def release(self) -> None:
        """Give one credit back: the node has answered; as `FastPath` does without a call."""
        assert self.in_flight > 0
        self.in_flight -= 1
        if self.on_change is not None:
            self.on_change()

    def next(self) -> _L | None:
        """The next letter to send, its credit taken; None when there is none or no credit."""
        if not self.is_open or self.in_flight >= self.limits.window:
            return None
        letter = self._waiting.pop()
        if letter is None:
            return None
        self.waiting_count -= 1
        self.waiting_bytes -= letter.size
        self.in_flight += 1
        return letter

    def pause(self) -> None:
        """Keep what comes and send nothing: the agent restarts."""
        self.is_open = False

    def resume(self, *, reset: bool = False) -> None:
        """Send again; with `reset`, all credit is back because the node that had it is gone."""
        self.is_open = True
        if reset:
            self.in_flight = 0
            if self.on_change is not None:
                self.on_change()

    def track_movable(self, is_movable: Callable[[_L], bool]) -> None:
        """Know from now on which of the letters that come may wait in another mailbox instead.

        Args:
            is_movable: whether one may, as it comes.
        """
        if not isinstance(self._waiting, RebalancedQueue):
            self._waiting = RebalancedQueue(self._waiting, is_movable)

    @property
    def next_movable(self) -> _L | None:
        """The first of those, the highest priority before all others."""
        queue = self._waiting
        return next(iter(queue.movable), None) if isinstance(queue, RebalancedQueue) else None

    def withhold(self, letter: _L) -> None:
        """Count a letter that waits here as none of those any more."""
        if isinstance(self._waiting, RebalancedQueue):
            self._waiting.withhold(letter)

    def close(self) -> None:
        """Let go of what has ended and of who is told: the agent is taken out, and nothing of its waits any more."""
        self._waiting.clear()
        self.on_change = None

    # Going through what waits, a few letters at a time: each that is taken goes elsewhere (`forget`), or is kept.

    def has_room(self, letter: _L) -> bool:
        """Whether a letter that waits elsewhere may wait here too."""
        limits = self.limits
        return self.waiting_count < limits.mailbox_count and self.waiting_bytes + letter.size <= limits.mailbox_bytes

    def take(self) -> _L | None:
        """Take the first that waits, whatever the credit; it counts as waiting until `forget`. None when there is none."""
        return self._waiting.pop()

    def keep(self, letters: list[_L]) -> None:
        """Place letters that were taken at the front again, in their order, but for those that have ended meanwhile."""
        for letter in reversed(letters):
            if not letter.is_over:
                self._waiting.put_back(letter, letter.priority)
