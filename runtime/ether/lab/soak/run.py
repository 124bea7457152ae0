"""The run of a soak: a bus under a steady load, disturbed, and sampled each second."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

from ether.cluster.cluster import Cluster
from ether.lab.harness.deployment import Deployment, deployed
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
            soak = _Soak(deployment, settings, pids, Measured(maximum, rate))
            before = _stored(journal)
            try:
                soak.hold()
            finally:
                soak.go_on()
            soak.measured.stored = _stored(journal) - before
            return make_report(soak.measured, settings)


def _maximum(deployment: Deployment, seconds: float) -> float:
    """Delegations a second with many open."""
    return [deployment.measure(body=OPAQUE, window=_OPEN, seconds=seconds).rate for _ in range(2)][-1]


def _stored(journal: Path) -> int:
    """Bytes of the journal's files."""
    return sum(file.stat().st_size for file in journal.parent.glob(f"{journal.name}*"))


class _Soak:
    """The load, what disturbs it, and what is seen of it.

    Args:
        deployment: the delegator and the observers.
        settings: of the soak.
        pids: {process: its id}.
        measured: filled in.
    """

    def __init__(
        self, deployment: Deployment, settings: SoakSettings, pids: dict[str, int], measured: Measured
    ) -> None:  # fmt: skip
        self.measured = measured
        self._peers = deployment.peers
        self._delegator = deployment.client
        self._settings = settings
        self._pids = pids
        self._times: list[float] = []
        self._resident: dict[str, list[int]] = defaultdict(list)
        self._descriptors: dict[str, list[int]] = defaultdict(list)
        self._stalled_at: float | None = None
        self._stopped_at: float | None = None

    def hold(self) -> None:
        """Hold the load, and measure."""
        settings, measured = self._settings, self.measured
        settings.tell(f"holding {measured.rate:,.0f} delegations a second for {settings.seconds:g} s")
        self._delegator.order("begin", rate=measured.rate)
        start, window = time.monotonic(), settings.window
        while (now := time.monotonic() - start) < settings.seconds:
            self._disturb(now)
            self._look(now)
            if now >= window:
                self._take(self._delegator.order("window"), now)
                window += settings.window
            wait = min(_LOOK, settings.seconds / 24)
            if self._stopped_at is not None:
                wait = min(wait, self._stopped_at + _STOPPED - (time.monotonic() - start))
            time.sleep(max(wait, 0.0))
        measured.seconds = now
        self.go_on()
        self._stall(now)
        self._take(self._delegator.order("end"), settings.seconds)
        measured.observed = self._settle()
        for name in self._pids:
            resident, descriptors = (
                Series(self._times, seen[name]).since(settings.warm_up) for seen in (self._resident, self._descriptors)
            )
            measured.sizes.append(Size(name, resident, descriptors))

    def _disturb(self, now: float) -> None:
        """An observer stands still for the first half of the middle third, and a node stops now and then in all of it."""
        begin, end = self._settings.thirds
        if self._stopped_at is not None and now >= self._stopped_at + _STOPPED:
            self.go_on()
        self._stall(now)
        due = begin + self.measured.stops * (end - begin) / _STOPS
        if due <= now < end and self.measured.stops < _STOPS and self._stopped_at is None:
            os.kill(self._pids[_VICTIM], signal.SIGSTOP)
            self._stopped_at = now
            self.measured.stops += 1

    def _stall(self, now: float) -> None:
        """In the warm-up too: what the broker may keep for an observer that stands still is full then."""
        should = any(begin <= now < end for begin, end in self._settings.stalls)
        if should and self._stalled_at is None:
            self._peers["laggard"].order("stall")
            self._stalled_at = now
        elif self._stalled_at is not None and not should:
            self._peers["laggard"].order("go")
            self.measured.stalled += now - self._stalled_at
            self._stalled_at = None

    def go_on(self) -> None:
        """Let the node go on, if it is stopped."""
        if self._stopped_at is not None:
            self._stopped_at = None
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pids[_VICTIM], signal.SIGCONT)

    def _look(self, now: float) -> None:
        self._times.append(now)
        for name, pid in self._pids.items():
            self._resident[name].append(resident_bytes(pid))
            self._descriptors[name].append(open_descriptors(pid))

    def _take(self, told: dict[str, Any], now: float) -> None:
        self.measured.statuses.update(told["statuses"])
        self.measured.sent = told["sent"]
        if count := told["count"]:
            p50, p99 = told["p50"], told["p99"]
            sizes = {name: values[-1] for name, values in self._resident.items()}
            self.measured.windows.append(Window(now, count, p50, p99, sizes))
            self._settings.tell(f"{now:5.0f} s  {count:,} outcomes, p50 {p50 * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms")

    def _settle(self) -> dict[str, dict[str, int]]:
        """Wait until the observers have seen all that passed."""
        limit = time.monotonic() + _CATCH_UP
        while True:
            told = {name: self._peers[name].order("look") for name in ("observer", "laggard")}
            if len({entry["position"] for entry in told.values()}) == 1 or time.monotonic() > limit:
                return told
            time.sleep(_LOOK)
