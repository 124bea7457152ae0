"""Holds a bus under a steady load, disturbs it, and looks at it each second."""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from ether.lab.harness.histogram import Histogram
from ether.lab.harness.workload import OPAQUE
from ether.lab.soak.processes import Stage
from ether.lab.soak.report import ALLOWED, POINTER, Latency, Report, Size
from ether.lab.soak.settings import Settings
from ether.lab.soak.trend import Series

__all__ = ["run"]

_LOOK: Final = 1.0
_MEASURED: Final = 5.0
"""Seconds for which the maximum is taken, behind as many to get going."""
_OPEN: Final = 256
_STOPPED: Final = 1.5
"""Seconds for which a node is stopped: half of the silence after which it counts as lost."""
_STOPS: Final = 4
_CATCH_UP: Final = 120.0


def run(settings: Settings) -> Report:
    """Soak a bus of one's own.

    Raises:
        EtherError: it did not start, or a process of it broke.
        FileNotFoundError: a process of it ended.
    """
    with Stage(settings) as stage:
        maximum = None
        if settings.rate is None:
            maximum = _maximum(stage, min(_MEASURED, settings.seconds / 4))
            settings.tell(f"the maximum is {maximum:,.0f} delegations a second")
        rate = settings.rate or max(1.0, maximum * settings.load if maximum else 1.0)
        return _Soak(stage, settings, rate, maximum).hold()


def _maximum(stage: Stage, seconds: float) -> float:
    """Delegations a second with many open."""
    said = {}
    for _ in range(2):
        said = stage.delegator.order(body=OPAQUE, window=_OPEN, seconds=seconds)
    return float(said["count"]) / float(said["seconds"])


@dataclass(slots=True)
class _Soak:
    stage: Stage
    settings: Settings
    rate: float
    maximum: float | None
    times: list[float] = field(default_factory=list)
    sizes: list[dict[str, tuple[int, int]]] = field(default_factory=list)
    latencies: list[Latency] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    stops: int = 0
    stalled: float = 0.0
    _since: float = 0.0
    _stopped_at: float = 0.0

    def hold(self) -> Report:
        settings, stage = self.settings, self.stage
        settings.tell(f"holding {self.rate:,.0f} delegations a second for {settings.seconds:g} s")
        before = stage.stored()
        stage.delegator.order(do="begin", rate=self.rate)
        start, window = time.monotonic(), settings.window
        now = 0.0
        while now < settings.seconds:
            self._disturb(now)
            self.times.append(now)
            self.sizes.append(stage.sizes())
            if now >= window:
                self._take(stage.delegator.order(do="window"), now)
                window += settings.window
            now = self._sleep(start, now)
        self._calm(now)
        self._take(stage.delegator.order(do="end"), settings.seconds)
        observed = self._settle()
        return self._report(now, stage.stored() - before, observed)

    def _sleep(self, start: float, now: float) -> float:
        """Until the next look, or the end of a stop, whichever is sooner."""
        wait = min(_LOOK, self.settings.seconds / 24)
        if self._stopped_at:
            wait = min(wait, self._stopped_at + _STOPPED - now)
        time.sleep(max(wait, 0.0))
        return time.monotonic() - start

    # -- what disturbs -------------------------------------------------------------------------------------------

    def _disturb(self, now: float) -> None:
        """An observer stands still for the first half of the middle third, and a node stops now and then in all of it."""
        begin, end = self.settings.thirds
        if self._stopped_at and now >= self._stopped_at + _STOPPED:
            self._go_on()
        self._stall(now)
        due = begin + self.stops * (end - begin) / _STOPS
        if due <= now < end and self.stops < _STOPS and not self._stopped_at:
            self.stage.stop_node()
            self._stopped_at = now
            self.stops += 1

    def _stall(self, now: float) -> None:
        """In the warm-up too: what the broker may keep for an observer that stands still is full then."""
        should = any(begin <= now < end for begin, end in self.settings.stalls)
        if should and not self._since:
            self.stage.laggard.order(do="stall")
            self._since = now
        elif self._since and not should:
            self.stage.laggard.order(do="go")
            self.stalled, self._since = self.stalled + now - self._since, 0.0

    def _go_on(self) -> None:
        self.stage.go_on()
        self._stopped_at = 0.0

    def _calm(self, now: float) -> None:
        if self._stopped_at:
            self._go_on()
        self._stall(max(now, self.settings.seconds))

    # -- what came of it -----------------------------------------------------------------------------------------

    def _take(self, told: dict[str, dict[str, int]], now: float) -> None:
        histogram = Histogram({int(bucket): count for bucket, count in told["latencies"].items()})
        self.statuses.update(told["statuses"])
        self.sent = int(str(told["sent"]))
        if len(histogram):
            entry = Latency(now, len(histogram), histogram.percentile(0.5), histogram.percentile(0.99))
            self.latencies.append(entry)
            self.settings.tell(
                f"{now:5.0f} s  {entry.count:,} outcomes, p50 {entry.p50 * 1e3:.1f} ms, p99 {entry.p99 * 1e3:.1f} ms"
            )

    def _settle(self) -> dict[str, dict[str, int]]:
        """Wait until the observers have seen all that passed."""
        observers = {"observer": self.stage.observer, "laggard": self.stage.laggard}
        limit = time.monotonic() + _CATCH_UP
        while True:
            told = {name: peer.order(do="look") for name, peer in observers.items()}
            if len({entry["position"] for entry in told.values()}) == 1 or time.monotonic() > limit:
                return told
            time.sleep(_LOOK)

    def _report(self, seconds: float, stored: int, observed: dict[str, dict[str, int]]) -> Report:
        settings = self.settings
        sizes = []
        for name in self.stage.pids:
            resident = Series(self.times, [float(entry[name][0]) for entry in self.sizes]).since(settings.warm_up)
            descriptors = Series(self.times, [float(entry[name][1]) for entry in self.sizes]).since(settings.warm_up)
            allowed = ALLOWED + POINTER * self.rate * resident.span
            sizes.append(Size(name, resident, descriptors, allowed))
        return Report(
            seconds=seconds, maximum=self.maximum, rate=self.rate, sent=self.sent, statuses=dict(self.statuses),
            sizes=sizes, latencies=self.latencies, thirds=settings.thirds, stops=self.stops, stalled=self.stalled,
            observed=observed, stored=stored, load=os.getloadavg(),
        )  # fmt: skip
