"""The report of a soak: figures with the bounds within which a bus counts as flat."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from ether.lab.report import Figure, Report, Row, at_most
from ether.lab.soak.settings import SoakSettings
from ether.lab.soak.trend import Series

__all__ = ["Measured", "Size", "Window", "make_report"]

_ALLOWED: Final = 4.0
"""MiB by which a process may grow in any case: allocators take memory by the MiB, and SQLite's caches are of some."""
_POINTER: Final = 8
"""Bytes a delegation by which it may grow besides: less than one entry of a list, so nothing can be kept for each."""
_DESCRIPTORS: Final = 0.9
"""By which the line through the open descriptors may rise."""
_SPREAD: Final = 2.0
"""What p99 of the last third may be of that of the first."""
_MINUTE: Final = 60.0
_MIB: Final = 1 << 20
_SOAK: Final = "soak"


@dataclass(frozen=True, slots=True)
class Size:
    """The memory and descriptors of one process, from the end of the warm-up on."""

    process: str
    resident: Series
    """Bytes in RAM."""
    descriptors: Series
    """Open descriptors."""


@dataclass(frozen=True, slots=True)
class Window:
    """A while of the delegator."""

    time: float
    """Seconds from the begin of the load to its end."""
    count: int
    p50: float
    p99: float
    """Seconds from when a delegation was due to its outcome."""
    resident: Mapping[str, int]
    """{process: bytes in RAM at its end}."""


@dataclass(slots=True)
class Measured:
    """The measurements of one soak."""

    maximum: float | None
    """Delegations a second that were measured with many open; None where the rate was given."""
    rate: float
    """Delegations a second that were due."""
    seconds: float = 0.0
    """For which the load was held."""
    sent: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    sizes: list[Size] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    stops: int = 0
    """Times that a node was stopped."""
    stalled: float = 0.0
    """Seconds for which an observer stood still."""
    observed: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """{observer: how many messages it has seen, how many it missed, its position}."""
    stored: int = 0
    """Bytes by which the journal grew."""


def make_report(measured: Measured, settings: SoakSettings) -> Report:
    """Hold what was seen against its bounds; a report that is `ok` is of a bus that stayed flat."""
    figures = (*_load(measured, settings), *(one for size in measured.sizes for one in _growth(size, measured.rate)))
    missed = sum(figure.is_met is False for figure in figures)
    tables: dict[str, list[Row]] = {
        "outcomes": [{"outcome": name, "delegations": count} for name, count in measured.statuses.items()],
        "processes": [_process(size) for size in measured.sizes],
        "windows": [_window(window) for window in measured.windows],
    }
    about = {"load average": [round(load, 1) for load in os.getloadavg()], **settings.plain()}
    return Report(figures, tables, about, f"not flat: {missed}" if missed else "flat")


def _load(measured: Measured, settings: SoakSettings) -> Iterator[Figure]:
    """The load itself: whether it was done, seen and as fast in the end as in the beginning."""
    if measured.maximum is not None:
        yield Figure(_SOAK, "maximum rate", measured.maximum, "delegations/s")
    yield Figure(_SOAK, "rate", measured.rate, "delegations/s")
    yield Figure(_SOAK, "load held", measured.seconds, "s")
    yield Figure(_SOAK, "delegations", measured.sent, "")
    left = measured.sent - measured.statuses.get("COMPLETED", 0)
    yield Figure(_SOAK, "delegations not completed", left, "", at_most(0))
    begin, end = settings.thirds
    first = median([window.p99 for window in measured.windows if window.time <= begin] or [0.0])
    last = median([window.p99 for window in measured.windows if window.time > end] or [0.0])
    yield Figure(_SOAK, "p99 in the first third", first * 1e3, "ms")
    yield Figure(_SOAK, "p99 in the last third", last * 1e3, "ms")
    yield Figure(_SOAK, "p99, last third / first", last / first if first else 0.0, bound=at_most(_SPREAD))
    for name, seen in measured.observed.items():
        yield Figure(name, "messages missed", seen["missed"], "", at_most(0))
    positions = {seen["position"] for seen in measured.observed.values()}
    yield Figure(_SOAK, "messages that one observer is behind another", max(positions) - min(positions), "", at_most(0))
    yield Figure(_SOAK, "stops of a node", measured.stops, "")
    yield Figure(_SOAK, "an observer stood still", measured.stalled, "s")
    yield Figure(_SOAK, "journal a delegation", measured.stored / max(measured.sent, 1), "bytes")


def _growth(size: Size, rate: float) -> Iterator[Figure]:
    """A process that becomes smaller is no complaint."""
    allowed = at_most(_ALLOWED + _POINTER * rate * size.resident.span / _MIB)
    yield Figure(size.process, "memory grown", size.resident.slope * size.resident.span / _MIB, "MiB", allowed)
    more = size.descriptors.slope * size.descriptors.span
    yield Figure(size.process, "descriptors more", more, "", at_most(_DESCRIPTORS))


def _process(size: Size) -> Row:
    resident, descriptors = size.resident.values, size.descriptors.values
    return {
        "process": size.process, "first MiB": resident[0] / _MIB, "last MiB": resident[-1] / _MIB,
        "most MiB": max(resident) / _MIB, "KiB/min": size.resident.slope * _MINUTE / 1024,
        "first descriptors": int(descriptors[0]), "last descriptors": int(descriptors[-1]),
    }  # fmt: skip


def _window(window: Window) -> Row:
    sizes = {f"{name} MiB": size / _MIB for name, size in window.resident.items()}
    return {
        "until s": window.time, "outcomes": window.count, "p50 ms": window.p50 * 1e3, "p99 ms": window.p99 * 1e3, **sizes,
    }  # fmt: skip
