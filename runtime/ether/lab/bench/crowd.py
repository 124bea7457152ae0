"""A hundred thousand agents beside a thousand."""

from __future__ import annotations

from typing import Final

from ether.lab.bench.case import case
from ether.lab.bench.settings import BenchSettings
from ether.lab.harness.deployment import deployed, pinned
from ether.lab.report import Report, amount, at_most, ratio

__all__ = ["crowd"]

_ROUNDS: Final = 3
_FEW: Final = 1_000


@case(
    "crowd",
    "the supervisor with 100,000 agents beside 1,000: registering, choosing among busy ones, a node that leaves",
    "crowd",
)
def crowd(settings: BenchSettings) -> Report:
    """The supervisor's CPU time for one of many agents, in times of one of few."""
    few = min(_FEW, settings.crowd)
    ours, theirs = [], []
    with pinned(settings.pin), deployed("crowd", settings.transport) as deployment:
        for _ in range(min(settings.rounds, _ROUNDS)):
            theirs.append(deployment.client.order("fill", agents=few))
            ours.append(deployment.client.order("fill", agents=settings.crowd))
    figures, count = [], f"{settings.crowd:,}"
    for key, compared, cost in (
        ("register", f"agents at {count}", f"registering each of {count} agents"),
        ("choose", f"selection at {count} busy", f"a delegation to one of {count} busy"),
        ("leave", f"BYE with {count} open", f"each agent of a node that leaves, {count} open"),
    ):
        many, one = ([found[key] for found in side] for side in (ours, theirs))
        figures.append(ratio("crowd", f"{compared} / {few:,}", many, one, at_most(2.0)))
        figures.append(amount("crowd", cost, [seconds * 1e6 for seconds in many], "µs"))
    first = [found["first"] * 1e3 for found in ours]
    figures.append(amount("crowd", f"the first choice after each of {count} was given work by name", first, "ms"))
    return Report(tuple(figures))
