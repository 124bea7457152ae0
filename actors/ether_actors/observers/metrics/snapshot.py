"""The snapshot of all metrics: frozen, and the same as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from ether_actors.observers.metrics.definitions import DEFINITIONS
from ether_actors.observers.metrics.rates_and_means import Figures

__all__ = ["NOBODY", "OTHER", "MetricsStatistics", "PairTotals", "Verdict", "WindowStatistics", "window_name"]

NOBODY = "(nobody)"
"""Stands where the delegation was given to no agent; no agent can have that name."""
OTHER = "(other)"
"""Stands for all agents and capabilities past the bound; none can have that name."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The value of a metric beside its target, and whether it meets it.

    Example:
        metrics = bus.observe(Metrics())
        bus.delegate("text.count", {"text": "two words"}).result()
        bus.settle(metrics)
        assert metrics.snapshot().verdicts()["delegation_success_rate"] == Verdict(1.0, "> 0.85", met=True)
    """

    value: float | None
    target: str
    """As in `> 0.85`."""
    met: bool | None
    """None when there is no value, or the target is no number."""


@dataclass(frozen=True, slots=True)
class PairTotals:
    """The totals of one agent for one capability since the metrics began; they only rise, as counters do.

    Example:
        metrics = bus.observe(Metrics())
        bus.delegate("text.count", {"text": "two words"}).result()
        bus.settle(metrics)
        (pair,) = metrics.snapshot().pairs
        assert (pair.agent, pair.capability, pair.by_status) == ("counter", "text.count", {"COMPLETED": 1})
    """

    agent: str
    capability: str
    by_status: dict[str, int]
    """{status: delegations that ended so}, without those that never occurred."""
    retries: int
    unresolved_items: int
    turnaround_count: int
    """COMPLETED whose delegation was seen."""
    turnaround_sum: float
    """Seconds."""
    turnaround_buckets: tuple[int, ...]
    """How many took at most 10^(n/3) s, for n from -12 to 9; rising."""


@dataclass(frozen=True, slots=True)
class WindowStatistics:
    """The metrics of one window: over all, by agent and by capability.

    Example:
        metrics = bus.observe(Metrics(windows=(60.0,)))
        bus.delegate("text.count", {"text": "two words"}).result()
        bus.settle(metrics)
        window = metrics.snapshot().windows["60"]
        assert window.seconds == 60.0 and window.overall.ended == 1
        assert window.rejections == {}
    """

    seconds: float | None
    """Its length; None is since the metrics began."""
    covered: float
    """Seconds of it in which the metrics were there to see; the newest slot counts as a whole."""
    missed: int
    """Messages in it that were gone before they could be seen. Above 0 the figures are of a part only."""
    overall: Figures
    by_agent: dict[str, Figures]
    """{specialist: its figures}. What nobody was given, and what was past the bound, have names in parentheses."""
    by_capability: dict[str, Figures]
    """{capability: its figures}."""

    @property
    def rejections(self) -> dict[str, int]:
        """{capability: delegations rejected}, those without any left out."""
        counts = {name: figures.ended - figures.executions for name, figures in self.by_capability.items()}
        return {name: count for name, count in counts.items() if count}


@dataclass(frozen=True, slots=True)
class MetricsStatistics:
    """A snapshot of all metrics at one moment; immutable.

    Example:
        metrics = bus.observe(Metrics())
        bus.delegate("text.count", {"text": "two words"}).result()
        bus.settle(metrics)
        statistics = metrics.snapshot()
        assert statistics.value("success_rate") == 1.0
        assert statistics.verdicts()["timeout_rate"].met
    """

    time: float
    """The moment, in seconds by the broker's clock; 0.0 before the first message."""
    seen: int
    """Messages that were seen since the metrics began."""
    missed: int
    """Messages that were gone before they could be seen (`on_gap`). Above 0, all counts since are too low by what they were."""
    open: int
    """Delegations that were seen and have no outcome yet."""
    outcomes_missed: int
    """Delegations that were seen, and whose outcome must have been missed: their deadline is long past."""
    delegations_missed: int
    """Outcomes that were seen without their delegation, which passed before the metrics began, or was missed."""
    unreadable: int
    """Outcomes whose body is none; they count by their status alone."""
    gap_suggestion_frequency: int | None
    """Spec 2: suggestions (events named `suggestion`) in the last 30 days, or since the metrics began; not extrapolated.

    None before the first message.
    """
    messages: dict[str, int]
    """{DELEGATION, ACCEPTED, PROGRESS, OUTCOME or EVENT: messages seen}; those of the bus's own `ether.*` count only here."""
    events: dict[str, int]
    """{event: how often}, as in `agent_up`, `agent_restarting`, `node_down`."""
    dead_letters: dict[str, int]
    """{reason: dead letters kept}."""
    pairs: tuple[PairTotals, ...]
    windows: dict[str, WindowStatistics]
    """{seconds, or `all`: the window}, the shortest first."""

    def verdicts(self, window: str = "all") -> dict[str, Verdict]:
        """{metric: how it stands against its target} in a window, for every metric that has one."""
        found = {}
        for definition in DEFINITIONS:
            if definition.target is None:
                continue
            value = self.value(definition.name, window)
            over_all = self.value(definition.name) if window != "all" else None
            met = definition.target.is_met(value, over_all)
            found[definition.name] = Verdict(value, str(definition.target), met)
        return found

    def value(self, metric: str, window: str = "all") -> float | None:
        """One of the named metrics, of all agents and capabilities together.

        Raises:
            AttributeError: there is no such metric; `DEFINITIONS` has them all.
            KeyError: there is no such window.
        """
        if metric == "gap_suggestion_frequency":
            return self.gap_suggestion_frequency
        value: float | None = getattr(self.windows[window].overall, metric)
        return value

    def as_dict(self) -> dict[str, Any]:
        """Plain values only, with the rejections and the verdicts of each window."""
        plain = asdict(self)
        for name, window in plain["windows"].items():
            window["rejections"] = self.windows[name].rejections
            window["targets"] = {metric: asdict(verdict) for metric, verdict in self.verdicts(name).items()}
        return plain

    def to_json(self, *, indent: int | None = None) -> str:
        """The same as JSON text; what is not known is null."""
        return json.dumps(self.as_dict(), indent=indent, allow_nan=False)


def window_name(seconds: float | None) -> str:
    """The name of a window in statistics and in Prometheus's labels."""
    return "all" if seconds is None else f"{seconds:g}"
