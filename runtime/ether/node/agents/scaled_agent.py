"""An agent that scales, on its node: its bounds, its instances, and the names that others have."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from ether.node.agents.scale_policy import ScalePolicy
from ether_actors.agent.scale import Scale
from ether_actors.execution.cell import Cell

__all__ = ["ScaledAgent"]


class ScaledAgent:
    """An agent that scales, and its instances on this node.

    Args:
        name: of the first, if it is free.
        names: gives the names that instances may have, in their order.
        scale: the bounds.
        start: starts instances under these names; raises as `AgentHost.start_agents`.
    """

    def __init__(
        self, name: str, names: Callable[[], Iterable[str]], scale: Scale, start: Callable[[list[str]], object]
    ) -> None:  # fmt: skip
        self.name: str = name
        self.names = names
        self.scale: Scale = scale
        self.start = start
        self.policy: ScalePolicy = ScalePolicy(scale)
        self.cells: dict[Cell, float] = {}
        """{instance: when it was started}, those that go among them."""
        self.draining: dict[Cell, bool] = {}
        """{instance that takes nothing new: whether that was said}."""
        self.foreign_names: dict[str, float] = {}
        """Names that others on the bus have."""
        self.rests: threading.Event = threading.Event()
        """Set while none is being started."""
        self.rests.set()
        self.has_ended: bool = False
        """Whether one that is being started ends when it has."""
        self.looked_at: float = 0.0
        """When it was decided last how many there should be."""
        self.failures: int = 0
        self.failed_at: float = 0.0

    @property
    def active(self) -> list[Cell]:
        """The instances that take work, or are restarted."""
        return [cell for cell in list(self.cells) if cell not in self.draining]

    @property
    def outstanding(self) -> int:
        """Delegations that wait for the instances, or run, those that go among them, as the broker said last of all at once."""
        return sum(cell.outstanding for cell in list(self.cells))

    def take_most(self) -> int:
        """The most that waited or ran at a moment since the last call, as far as it was told."""
        most = 0
        for cell in list(self.cells):
            most, cell.most_outstanding = max(most, cell.most_outstanding), 0
        return most

    @property
    def needs_more(self) -> bool:
        """Whether there are fewer instances than there should be at the least, or than what waits and runs needs."""
        active = len(self.active)
        return active < self.scale.min or self.outstanding > self.scale.per * active
