"""The invariant of scaling downwards: one instance at a time, each after its cooldown, and down to the least at rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Final

from ether.node.agents.agent_scaling import ScaledAgents
from ether.node.agents.scale_policy import ScalePolicy
from ether_actors.agent.scale import Scale

if TYPE_CHECKING:
    from ether_actors.execution.cell import Cell

__all__ = ["watched"]

_LATE: Final = 2.0
"""Seconds without a decision after which nobody knows what was enough."""
_ROUNDING: Final = 1e-6


@dataclass(slots=True, eq=False)
class _Looks:
    """What a node has seen each time that it decided, the last one among them."""

    group: ScaledAgents
    at: float = -inf
    """When it was; by its clock."""
    going: set[Cell] = field(default_factory=set)
    """The instances that took nothing new any more."""
    enough_since: float = inf
    """Since when one instance fewer would have been enough, without a break; or since when one was taken away."""
    is_due: bool = False
    """Whether one might be taken away then."""

    def see(self, queue: int, instances: int, now: float) -> str:
        """Judge what was taken away since the last look, and take note of this one; what is wrong, or an empty text."""
        group, scale, found = self.group, self.group.scale, ""
        taken = [cell for cell in group.going if cell not in self.going]
        if len(taken) > 1:
            found = f"{len(taken)} instances of {group.name} were taken away at once"
        elif taken and not self.is_due:
            found = f"an instance of {group.name} was taken away though it had been too many for less than {scale.cooldown:g} s"
        if taken:
            self.enough_since = self.at
        if now - self.at > _LATE:
            self.enough_since = inf
        is_enough = instances > scale.min and queue <= scale.per * (instances - 1)
        self.enough_since = min(self.enough_since, now) if is_enough else inf
        self.is_due = now - self.enough_since >= scale.cooldown - _ROUNDING
        self.at, self.going = now, set(group.going)
        return found


class _Watched(ScalePolicy):
    """A policy whose decisions are seen."""

    def __init__(self, scale: Scale, looks: _Looks, fail: Callable[[str, str], None]) -> None:
        super().__init__(scale)
        self._looks = looks
        self._fail = fail

    def decide(self, queue: int, instances: int, now: float) -> int:
        """See `ScalePolicy.decide`."""
        if found := self._looks.see(queue, instances, now):
            self._fail("scale", found)
        return super().decide(queue, instances, now)


def watched(group: ScaledAgents, fail: Callable[[str, str], None]) -> ScaledAgents:
    """An agent that scales, and whose instances that are taken away are seen."""
    group.policy = _Watched(group.scale, _Looks(group), fail)
    return group
