"""A thousand agents that take turns, beside one that does all the work."""

from __future__ import annotations

import contextlib
from functools import partial

from ether.lab.bench.measurement.case import Findings
from ether.lab.bench.measurement.result import Bound
from ether.lab.bench.measurement.rounds import interleave, ratio, row
from ether.lab.bench.measurement.settings import Settings
from ether.lab.harness.deployment import Deployment, pinned
from ether.lab.harness.workload import OPAQUE

__all__ = ["Registered"]


class Registered:
    """Whether many registered agents cost anything: the same work, spread over all of them."""

    name = "registered"
    about = "work spread over many registered agents beside one: rate, by capability and by name"
    systems: frozenset[str] = frozenset({"ether"})

    def run(self, settings: Settings) -> Findings:
        """Rate of many against that of one, chosen by the registry and named in turn."""
        with contextlib.ExitStack() as stack, pinned(settings.pin):
            one = stack.enter_context(Deployment("ether", settings.transport, agents=1))
            many = stack.enter_context(Deployment("ether", settings.transport, agents=settings.registered))
            turns = {
                f"{size}, {way}": partial(
                    deployment.measure, body=OPAQUE, window=settings.window, seconds=settings.seconds, by_name=by_name
                )
                for size, deployment in (("one", one), ("many", many))
                for way, by_name in (("by capability", False), ("by name", True))
            }
            for turn in turns.values():
                turn()
            samples = interleave(turns, settings.rounds)
        rates = {name: [sample.rate for sample in found] for name, found in samples.items()}
        figures = tuple(
            ratio(
                self.name, f"rate, {settings.registered:,} agents / one, {way}", rates[f"many, {way}"],
                rates[f"one, {way}"], Bound(0.9, at_least=True),
            )
            for way in ("by capability", "by name")
        )  # fmt: skip
        return Findings(figures, tuple(row(self.name, name, found) for name, found in samples.items()))
