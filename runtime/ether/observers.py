"""The observers that come with Ether: attach one with `bus.observe(Metrics())`.

docs/observers.md says what each shows, and how to write your own.
"""

from __future__ import annotations

from ether_actors.observers.log import Log
from ether_actors.observers.metrics.definitions import DEFINITIONS, EXTENSION_METRICS, Definition, Target
from ether_actors.observers.metrics.latency_quantiles import Turnaround
from ether_actors.observers.metrics.metrics import Metrics
from ether_actors.observers.metrics.prometheus import CONTENT_TYPE
from ether_actors.observers.metrics.rates_and_means import Figures
from ether_actors.observers.metrics.snapshot import MetricsStatistics, PairTotals, Verdict, WindowStatistics
from ether_actors.observers.probe import Probe

__all__ = [  # noqa: RUF022  in groups, for readers
    # Observers
    "Log",
    "Metrics",
    "Probe",
    # What the metrics tell
    "CONTENT_TYPE",
    "DEFINITIONS",
    "EXTENSION_METRICS",
    "Definition",
    "Figures",
    "MetricsStatistics",
    "PairTotals",
    "Turnaround",
    "Target",
    "Verdict",
    "WindowStatistics",
]
