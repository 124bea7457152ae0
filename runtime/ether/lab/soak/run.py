"""Holds a bus under a steady load, disturbs it, and looks at it each second."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ether.cluster.cluster import Cluster
from ether.lab.harness.deployment import Deployment, deployed
from ether.lab.harness.histogram import Histogram
from ether.lab.harness.procfs import open_descriptors, resident_bytes
from ether.lab.harness.workload import OPAQUE, EchoAgent
from ether.lab.report import Report
from ether.lab.soak.report import Measured, Size, Window, make_report
from ether.lab.soak.settings import SoakSettings
from ether.lab.soak.trend import Series

__all__ = ["run"]

_LOOK: Final = 1.0
_MEASURED: Final = 5.0
"""Seconds for which the maximum is taken, behind as many to get going."""
_OPEN: Final = 256
_NODES: Final = 2
_VICTIM: Final = "node-2"
"""The node that is stopped."""
_STOPPED: Final = 1.5
"""Seconds for which it is: half of the silence after which it counts as lost."""
_STOPS: Final = 4
_CATCH_UP: Final = 120.0


def run(settings: SoakSettings) -> Report:
    """Soak a bus of one's own.

    Raises:
        UsageError: the folder is not empty.
        EtherError: the bus did not start, or a process of it broke.
        FileNotFoundError: a process of it ended.
    """
    bind = "tcp://127.0.0.1:*" if settings.transport == "tcp" else None
    with tempfile.TemporaryDirectory(prefix="ether-soak-") as own:
        journal = Path(settings.make_folder() or own, "journal.db")
        with (
            Cluster(
                _NODES, [EchoAgent], bind=bind, journal=str(journal), drain=0.0, on_event=settings.tell
            ) as cluster,
            deployed("soak", settings.transport, endpoint=cluster.url) as deployment,
        ):  # fmt: skip
            pids = {entry.name: entry.pid for entry in cluster.statistics() if entry.pid is not None}
            pids |= {name: peer.pid for name, peer in deployment.peers.items()}
            maximum = None
            if settings.rate is None:
                maximum = _maximum(deployment, min(_MEASURED, settings.seconds / 4))
                settings.tell(f"the maximum is {maximum:,.0f} delegations a second")
            rate = settings.rate or max(1.0, maximum * settings.load if maximum else 1.0)
            soak = _Soak(deployment, settings, rate, pids, journal)
            try:
                return make_report(soak.hold(maximum), settings)
            finally:
                soak.go_on()


def _maximum(deployment: Deployment, seconds: float) -> float:
    """Delegations a second with many open."""
    said = {}
    for _ in range(2):
        said = deployment.client.order(body=OPAQUE, window=_OPEN, seconds=seconds)
    return float(said["count"]) / float(said["seconds"])


@dataclass(slots=True)
class _Soak:
    deployment: Deployment
    settings: SoakSettings
    rate: float
    pids: dict[str, int]
    """{process: its id}"""
    journal: Path
    times: list[float] = field(default_factory=list)
    resident: dict[str, list[float]] = field(default_factory=dict)
    descriptors: dict[str, list[float]] = field(default_factory=dict)
    windows: list[Window] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    stops: int = 0
    stalled: float = 0.0
    _since: float = 0.0
    _stopped_at: float = 0.0

    def hold(self, maximum: float | None) -> Measured:
        settings, delegator = self.settings, self.deployment.client
        settings.tell(f"holding {self.rate:,.0f} delegations a second for {settings.seconds:g} s")
        before = self._stored()
        delegator.order(do="begin", rate=self.rate)
        start, window = time.monotonic(), settings.window
        now = 0.0
        while now < settings.seconds:
            self._disturb(now)
            self._look(now)
            if now >= window:
                self._take(delegator.order(do="window"), now)
                window += settings.window
            now = self._sleep(start, now)
        self.go_on()
        self._stall(max(now, settings.seconds))
        self._take(delegator.order(do="end"), settings.seconds)
        observed = self._settle()
        sizes = [
            Size(name, self._series(self.resident[name]), self._series(self.descriptors[name])) for name in self.pids
        ]
        return Measured(
            seconds=now, maximum=maximum, rate=self.rate, sent=self.sent, statuses=self.statuses, sizes=sizes,
            windows=self.windows, stops=self.stops, stalled=self.stalled, observed=observed,
            stored=self._stored() - before,
        )  # fmt: skip

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
        if now >= self._stopped_at + _STOPPED:
            self.go_on()
        self._stall(now)
        due = begin + self.stops * (end - begin) / _STOPS
        if due <= now < end and self.stops < _STOPS and not self._stopped_at:
            os.kill(self.pids[_VICTIM], signal.SIGSTOP)
            self._stopped_at = now
            self.stops += 1

    def _stall(self, now: float) -> None:
        """In the warm-up too: what the broker may keep for an observer that stands still is full then."""
        should = any(begin <= now < end for begin, end in self.settings.stalls)
        if should and not self._since:
            self.deployment.peers["laggard"].order(do="stall")
            self._since = now
        elif self._since and not should:
            self.deployment.peers["laggard"].order(do="go")
            self.stalled, self._since = self.stalled + now - self._since, 0.0

    def go_on(self) -> None:
        """Let the node go on, if it is stopped."""
        if self._stopped_at:
            self._stopped_at = 0.0
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pids[_VICTIM], signal.SIGCONT)

    # -- what came of it -----------------------------------------------------------------------------------------

    def _look(self, now: float) -> None:
        self.times.append(now)
        for name, pid in self.pids.items():
            self.resident.setdefault(name, []).append(float(resident_bytes(pid)))
            self.descriptors.setdefault(name, []).append(float(open_descriptors(pid)))

    def _series(self, values: list[float]) -> Series:
        return Series(self.times, values).since(self.settings.warm_up)

    def _stored(self) -> int:
        """Bytes of the journal's files."""
        return sum(file.stat().st_size for file in self.journal.parent.glob(f"{self.journal.name}*"))

    def _take(self, told: dict[str, dict[str, int]], now: float) -> None:
        histogram = Histogram({int(bucket): count for bucket, count in told["latencies"].items()})
        self.statuses.update(told["statuses"])
        self.sent = int(str(told["sent"]))
        if len(histogram):
            p50, p99 = histogram.percentile(0.5), histogram.percentile(0.99)
            sizes = {name: int(values[-1]) for name, values in self.resident.items()}
            self.windows.append(Window(now, len(histogram), p50, p99, sizes))
            self.settings.tell(
                f"{now:5.0f} s  {len(histogram):,} outcomes, p50 {p50 * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms"
            )

    def _settle(self) -> dict[str, dict[str, int]]:
        """Wait until the observers have seen all that passed."""
        limit = time.monotonic() + _CATCH_UP
        while True:
            told = {name: self.deployment.peers[name].order(do="look") for name in ("observer", "laggard")}
            if len({entry["position"] for entry in told.values()}) == 1 or time.monotonic() > limit:
                return told
            time.sleep(_LOOK)
