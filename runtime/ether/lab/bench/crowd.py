"""A hundred thousand agents beside a thousand."""

from __future__ import annotations

from typing import Final

from ether.lab.bench.settings import BenchSettings
from ether.lab.harness.deployment import deployed, pinned
from ether.lab.report import Report, amount, at_most, ratio

__all__ = ["Crowd"]

_ROUNDS: Final = 3
_FEW: Final = 1_000


class Crowd:
    """The case of many agents: the supervisor's CPU time for one of many, beside one of few."""

    name = "crowd"
    about = "the supervisor with 100,000 agents beside 1,000: registering, choosing among busy ones, a node that leaves"
    systems: frozenset[str] = frozenset({"crowd"})

    def run(self, settings: BenchSettings) -> Report:
        """Times of one with many, in times with few."""
        many, few = [], []
        with pinned(settings.pin), deployed("crowd", settings.transport) as deployment:
            for _ in range(min(settings.rounds, _ROUNDS)):
                few.append(deployment.client.order(agents=min(_FEW, settings.crowd)))
                many.append(deployment.client.order(agents=settings.crowd))
        count = f"{settings.crowd:,}"
        figures = []
        for key, name, what in (
            ("register", f"agents at {count}", f"registering each of {count} agents"),
            ("choose", f"selection at {count} busy", f"a delegation to one of {count} busy"),
            ("leave", f"BYE with {count} open", f"each agent of a node that leaves, {count} open"),
        ):
            ours, theirs = ([found[key] for found in side] for side in (many, few))
            figures.append(ratio(self.name, f"{name} / {min(_FEW, settings.crowd):,}", ours, theirs, at_most(2.0)))
            figures.append(amount(self.name, what, [seconds * 1e6 for seconds in ours], "µs"))
        first = [found["first"] * 1e3 for found in many]
        figures.append(amount(self.name, f"the first choice after each of {count} was given work by name", first, "ms"))
        return Report(tuple(figures))
