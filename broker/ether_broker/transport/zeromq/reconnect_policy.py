"""The policy of when a node replaces a connection that is broken though ZeroMQ reports no fault. Sans-IO.

A routing id belongs to one connection. If a connection breaks at the node's end only, or breaks while the broker has
not read all that came on it, the next one comes while the broker's ROUTER still has the old one. It is taken in under
no id at all: what the node sends is dropped, and neither end ever closes it. Only who waits for an answer sees that
there is none. What a frame is told by is the broker's heartbeat, which says what has come, and not the acknowledgement, which
waits for the broker's disk.
"""

from __future__ import annotations

from typing import Final

from ether_broker.timing import DEFAULT_TIMING, Timing

__all__ = ["PAUSE", "ReconnectPolicy"]

MUTE: Final = 1.75
"""Heartbeats without a word that a frame has come after which the talking side is: each of the broker says it."""
_AGAIN: Final = 2.0
"""Heartbeats after which a listening side that was replaced is replaced once more: HELLO is said with each."""
PAUSE: Final = 0.3
"""Seconds between closing a connection and connecting again, in which the broker notices the end of the old one."""
_LATELY: Final = 1.5
"""Heartbeats in which something was heard of a broker that is there."""


class ReconnectPolicy:
    """The rule by which a node replaces a connection of which its transport reports no fault.

    Args:
        now: seconds by the node's clock, as everywhere here.
        timing: as WELCOME says. One heartbeat after a silence, when HELLO has been said, the listening side is replaced. Each
            attempt at the talking side waits twice as long as the one before, up to `max_backoff`, as a slow network may need.
    """

    __slots__ = ("_beat", "_deaf_after", "_deaf_at", "_first", "_max_backoff", "_mute_at", "_mute_for", "heard")

    def __init__(self, now: float, timing: Timing = DEFAULT_TIMING) -> None:
        self._beat = timing.heartbeat
        self._max_backoff = timing.max_backoff
        self._deaf_after = timing.silence + timing.heartbeat
        self.heard: float = now
        """When something came last."""
        self._deaf_at = 0.0
        self._first = (0, 0)
        self._mute_for = MUTE * timing.heartbeat
        self._mute_at = now + self._mute_for

    def is_deaf(self, now: float) -> bool:
        """Whether to replace the connection of the listening side now."""
        if now < max(self.heard + self._deaf_after, self._deaf_at):
            return False
        self._deaf_at = now + _AGAIN * self._beat
        return True

    def is_mute(self, session: int, first: int, now: float) -> bool:
        """Whether to replace the connection of the talking side now.

        Args:
            session: the session's id; each begins afresh.
            first: number of the oldest frame that the broker has not said it has; 0 if there is none.
            now: seconds.
        """
        if (session, first) != self._first or not first:
            self._first = session, first
            self._mute_for = MUTE * self._beat
            self._mute_at = now + self._mute_for
            return False
        if now < self._mute_at or now - self.heard > _LATELY * self._beat:
            return False
        self._mute_for = min(2 * self._mute_for, max(self._max_backoff, MUTE * self._beat))
        self._mute_at = now + self._mute_for
        return True
