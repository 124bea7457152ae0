"""Contenders that do the same work by turns, each with its own processes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ether.lab.bench.measurement.result import Row
from ether.lab.bench.measurement.rounds import interleave, row
from ether.lab.bench.measurement.settings import Settings
from ether.lab.harness.deployment import Deployment, pinned
from ether.lab.harness.sample import Sample

__all__ = ["Contender", "Contest"]

_WARM = 0.2


@dataclass(frozen=True, slots=True)
class Contender:
    """A system with a kind of body."""

    name: str
    system: str
    body: str


class Contest:
    """Runs contenders against each other.

    Args:
        case: the name of the case.
        contenders: in the order of the first round.
        window: round trips that are open at a time; 1 is one after the other.
    """

    def __init__(self, case: str, contenders: Sequence[Contender], window: int) -> None:
        self.case = case
        self.contenders = contenders
        self.window = window

    def run(self, settings: Settings, core: int | None) -> dict[str, list[Sample]]:
        """Samples of those that are not left out; `core` is where all their processes are kept."""
        contenders = [one for one in self.contenders if one.system not in settings.without]
        with _deployed({one.system for one in contenders}, settings, core) as deployments:
            turns: dict[str, Callable[[], Sample]] = {}
            for one in contenders:
                order: dict[str, Any] = {"body": one.body, "window": self.window}
                deployments[one.system].measure(**order, seconds=min(_WARM, settings.seconds))
                turns[one.name] = partial(deployments[one.system].measure, **order, seconds=settings.seconds)
            return interleave(turns, settings.rounds)

    def rows(self, samples: dict[str, list[Sample]]) -> tuple[Row, ...]:
        """Each contender's medians."""
        return tuple(row(self.case, name, found) for name, found in samples.items())


@contextlib.contextmanager
def _deployed(systems: set[str], settings: Settings, core: int | None) -> Iterator[dict[str, Deployment]]:
    with contextlib.ExitStack() as stack, pinned(core):
        yield {system: stack.enter_context(Deployment(system, settings.transport)) for system in sorted(systems)}
