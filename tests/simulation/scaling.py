"""The invariant of scaling: instances come when what waits needs them, and go one at a time, each after its cooldown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any, Final

from ether.node.agents.scale_policy import ScalePolicy
from ether.node.agents.scaled_agent import ScaledAgent
from ether_actors.execution.cell import Cell
from ether_actors.execution.resources import Resources

if TYPE_CHECKING:
    from tests.simulation.member import Life

__all__ = ["BusyPool", "watched"]

_LATE: Final = 2.0
"""Seconds without a decision after which nobody knows what was enough."""
_EACH: Final = 0.25
"""Seconds from one look to the next at most, of a process that runs."""
_SOON: Final = 1.0
"""Seconds in which an instance that is needed is started: between two looks, and until the pool has a thread for it."""
_BUSY: Final = 0.4
"""Seconds that a pool may have no thread for."""
_ROUNDING: Final = 1e-6


class BusyPool:
    """What the scaling of a life runs on: its turns wait for a thread, and what it decided may not be true any more by then.

    Args:
        resources: the life's.
        life: whose.
        chance: how long each waits.
    """

    def __init__(self, resources: Resources, life: Life, chance: Random) -> None:
        self._resources = resources
        self._life = life
        self._chance = chance

    def __getattr__(self, name: str) -> Any:
        return getattr(self._resources, name)

    def run(self, call: Callable[[], None]) -> None:
        """See `Resources.run`."""
        self._life.after(self._chance.choice((0.0005, _BUSY)) * self._chance.random(), call)


@dataclass(slots=True, eq=False)
class _Looks:
    """What a node knew each time that it decided, by what it was told and what it has started; not by what it has counted."""

    group: ScaledAgent
    life: Life
    at: float = -inf
    """When it was; by its clock."""
    going: set[Cell] = field(default_factory=set)
    """The instances that took nothing new any more."""
    enough_since: float = inf
    """Since when one instance fewer would have been enough, without a break; or since when one was taken away."""
    is_due: bool = False
    """Whether one might be taken away then."""
    needed_since: float = inf
    """Since when one more has been needed and might be started, without a break."""

    @property
    def queue(self) -> int:
        """What waits or runs for the instances, those that go among them, as the broker has told this life."""
        return sum(self.life.outstanding[cell.name] for cell in self.group.cells)

    @property
    def taking(self) -> int:
        """The instances that do not go."""
        return sum(cell not in self.group.draining for cell in self.group.cells)

    def see(self, now: float) -> str:
        """Judge what was taken away since the last look, and take note of this one; what is wrong, or an empty text."""
        group, scale, found = self.group, self.group.scale, ""
        queue, instances = self.queue, self.taking
        taken = [cell for cell in group.draining if cell not in self.going]
        if len(taken) > 1:
            found = f"{len(taken)} instances of {group.name} were taken away at once"
        elif taken and not self.is_due:
            found = f"an instance of {group.name} was taken away though it had been too many for less than {scale.cooldown:g} s"
        if taken:
            self.enough_since = self.at
        if now - self.at > _LATE:
            self.enough_since = self.needed_since = inf
        elif now - self.at > _EACH:  # its process did not run, and could start nothing
            self.needed_since += now - self.at
        enough = scale.per * (instances - 1) if instances > scale.min else -1
        if max((self.life.peaks.pop(cell.name, 0) for cell in group.cells), default=0) > enough:
            self.enough_since = inf
        self.enough_since = min(self.enough_since, now) if queue <= enough else inf
        self.is_due = now - self.enough_since >= scale.cooldown - _ROUNDING
        may_come = len(group.cells) < scale.max and not group.failures
        self.needed_since = min(self.needed_since, now) if may_come and self._is_needed else inf
        if now - self.needed_since > _SOON:
            found = found or (
                f"{queue} wait or run for {group.name}, more than {scale.per} for each of {instances}, and none has come "
                f"for {now - self.needed_since:.1f} s"
            )
        self.at, self.going = now, set(group.draining)
        return found

    @property
    def _is_needed(self) -> bool:
        scale = self.group.scale
        return self.taking < scale.min or self.queue > scale.per * self.taking

    def start(self) -> str:
        """Judge that an instance is started now; what is wrong, or an empty text."""
        self.needed_since, scale = inf, self.group.scale
        if self._is_needed:
            return ""
        found = f"{self.queue} wait or run, no more than {scale.per} for each of {self.taking}"
        return f"an instance of {self.group.name} was started, and {found}"


class _Watched(ScalePolicy):
    """A policy whose decisions are seen."""

    def __init__(self, looks: _Looks, fail: Callable[[str, str], None]) -> None:
        super().__init__(looks.group.scale)
        self._looks = looks
        self._fail = fail

    def decide(self, outstanding: int, instances: int, now: float) -> int:
        """See `ScalePolicy.decide`."""
        if found := self._looks.see(now):
            self._fail("scale", found)
        return super().decide(outstanding, instances, now)


def watched(group: ScaledAgent, life: Life, fail: Callable[[str, str], None]) -> ScaledAgent:
    """An agent that scales, and whose instances that are started and taken away are seen."""
    looks = _Looks(group, life)

    def start(start: Callable[[list[str]], object], names: list[str]) -> object:
        if found := looks.start():
            fail("scale", found)
        for name in names:
            life.outstanding[name] = 0
            life.peaks.pop(name, None)
        return start(names)

    group.policy = _Watched(looks, fail)
    group.start = partial(start, group.start)
    return group
