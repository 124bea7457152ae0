"""The decision how many instances an agent has, by how much waits and runs."""

from __future__ import annotations

from math import inf

from ether_actors.agent.scale import Scale

__all__ = ["ScalePolicy"]


class ScalePolicy:
    """The decision how many instances an agent should have. Sans-IO.

    Args:
        scale: its bounds.
    """

    def __init__(self, scale: Scale) -> None:
        self._scale = scale
        self._enough_since = inf
        """Since when one instance fewer would have been enough."""

    def interrupted(self) -> None:
        """Note that nobody knows how much waited since the last decision: the cooldown begins anew."""
        self._enough_since = inf

    def peaked(self, most: int, instances: int) -> None:
        """Note how many delegations waited or ran at most since the last decision.

        If one of so many instances fewer would not have been enough for them, the cooldown begins anew.
        """
        if self._wanted(most) >= instances:
            self.interrupted()

    def decide(self, outstanding: int, instances: int, now: float) -> int:
        """How many instances more there should be, or fewer if it is below 0.

        Args:
            outstanding: delegations that wait or run.
            instances: that take work.
            now: seconds, never less than in the last call.
        """
        scale, wanted = self._scale, self._wanted(outstanding)
        if wanted >= instances:
            self._enough_since = inf
            return wanted - instances
        if instances > scale.max:
            return scale.max - instances
        self._enough_since = min(self._enough_since, now)
        if now - self._enough_since < scale.cooldown:
            return 0
        self._enough_since = now
        return -1

    def _wanted(self, outstanding: int) -> int:
        scale = self._scale
        return min(scale.max, max(scale.min, -(-outstanding // scale.per)))
