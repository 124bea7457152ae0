"""The rate of an artifact that another machine fetches, beside a plain TCP connection, and what it costs the broker."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from ether.lab.bench.case import Case
from ether.lab.bench.rounds import interleave
from ether.lab.bench.settings import BenchSettings
from ether.lab.harness.deployment import deployed, pinned
from ether.lab.harness.procfs import forget_peak, peak_bytes, resident_bytes
from ether.lab.harness.role import Info
from ether.lab.report import Report, amount, ratio

__all__ = ["ARTIFACTS"]

_MIB: Final = 1 << 20


def _measure(settings: BenchSettings) -> Report:
    """Bytes a second with their digest, from a node through the broker to another, and straight from process to process."""
    grown: list[float] = []
    with pinned(settings.pin), deployed("artifact", settings.transport, size=settings.artifact) as deployment:
        broker, order = deployment.peers["broker"].pid, deployment.client.order

        def fetch() -> Info:
            forget_peak(broker)
            before = resident_bytes(broker)
            said = order("fetch")
            grown.append((peak_bytes(broker) - before) / _MIB)
            return said

        order("receive")  # the system has the file in its cache after it
        turns: dict[str, Callable[[], Info]] = {"TCP": partial(order, "receive"), "bus": fetch}
        found = interleave(turns, settings.rounds)
    over_bus, over_tcp = ([settings.artifact / said["seconds"] for said in found[name]] for name in ("bus", "TCP"))
    size = f"{settings.artifact / _MIB:,.0f} MiB"
    return Report((
        ratio("artifact", f"bytes a second of {size}, fetched over the bus / a plain TCP connection", over_bus, over_tcp),
        amount("artifact", "bytes a second, fetched over the bus", [rate / _MIB for rate in over_bus], "MiB/s"),
        amount("artifact", f"growth of the broker's memory while {size} pass", grown, "MiB"),
    ))  # fmt: skip


ARTIFACTS: Final = Case(
    "artifact",
    "a file of 1 GiB fetched over the bus beside a plain TCP connection, and the broker's memory; only when it is named",
    frozenset({"artifact"}),
    _measure,
    is_extra=True,
)
