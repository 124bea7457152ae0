"""The rate of events to ten subscribers, beside Redis's publish and subscribe."""

from __future__ import annotations

from statistics import median
from typing import Final

from ether.lab.bench.case import Case
from ether.lab.bench.rounds import Contender, compete
from ether.lab.bench.settings import BenchSettings
from ether.lab.report import Report, ratio

__all__ = ["EVENTS"]

_WINDOW: Final = 64
"""Publications that are open at a time, or ride in one pipeline of Redis's."""


def _measure(settings: BenchSettings) -> Report:
    """Deliveries a second, from the first publication until the last subscriber has handled the last event."""
    contenders = {"Redis": Contender("redis", window=_WINDOW), "Ether": Contender("event-bus", window=_WINDOW)}
    found = compete(contenders, settings, None, settings.transport)
    figures = []
    if len(found) == len(contenders):
        rates = {name: [sample.rate for sample in samples] for name, samples in found.items()}
        figures.append(
            ratio("events", "deliveries a second / Redis publish and subscribe", rates["Ether"], rates["Redis"])
        )
    rows = [
        {"case": "events", "contender": name, "deliveries/s": median(sample.rate for sample in samples)}
        for name, samples in found.items()
    ]
    return Report(tuple(figures), {"rows": rows})


EVENTS: Final = Case(
    "events",
    "events to ten subscribers beside redis-py on a redis-server; only when it is named",
    frozenset({"redis", "event-bus"}),
    _measure,
    is_extra=True,
)
