"""The bus beside the libraries that a user might take instead, in one table."""

from __future__ import annotations

from statistics import median
from typing import Final

from ether.lab.bench.case import Case
from ether.lab.bench.rounds import interleave
from ether.lab.bench.settings import BenchSettings
from ether.lab.harness.deployment import Deployment, Sample, deployed, pinned
from ether.lab.harness.workload import OPAQUE
from ether.lab.report import Figure, Report, Row

__all__ = ["PEERS"]

_SYSTEMS: Final = {
    "raw sockets": "raw", "zmq.proxy": "proxy", "NATS": "nats", "Ether, cluster": "ether", "Ether, embedded": "one-process",
    "AutoGen core, in one process": "autogen", "Ray actor": "ray", "Dask actor": "dask", "Celery with Redis": "celery",
}  # fmt: skip
"""{contender: its system}."""
_WINDOW: Final = 64
"""Round trips that are open at a time; with more, some of the others get slower."""
_WARM: Final = 0.2


def _measure(settings: BenchSettings) -> Report:
    """Round trips a second with 64 open, the median and p99 of one after the other, and the memory of all processes.

    One system runs at a time, as some of them keep a core busy though nobody asks them.
    """
    rows: list[Row] = []
    for contender, system in _SYSTEMS.items():
        if system not in settings.without:
            with pinned(settings.pin), deployed(system, settings.transport) as deployment:
                rows.append(_row(contender, deployment, settings))
    rows.sort(key=lambda row: -float(row["round trips/s"]))
    return Report(tuple(_figures(rows)), {"rows": rows})


def _row(contender: str, deployment: Deployment, settings: BenchSettings) -> Row:
    def measure(window: int) -> Sample:
        return deployment.measure(body=OPAQUE, window=window, seconds=settings.seconds, by_name=False)

    deployment.measure(body=OPAQUE, window=_WINDOW, seconds=min(_WARM, settings.seconds), by_name=False)
    found = interleave({"serial": lambda: measure(1), "pipelined": lambda: measure(_WINDOW)}, settings.rounds)
    return {
        "case": "peers", "contender": contender, "round trips/s": median(sample.rate for sample in found["pipelined"]),
        "p50 µs": median(sample.p50 or 0.0 for sample in found["serial"]) * 1e6,
        "p99 µs": median(sample.p99 or 0.0 for sample in found["serial"]) * 1e6, "MiB": deployment.memory() / (1 << 20),
    }  # fmt: skip


def _figures(rows: list[Row]) -> list[Figure]:
    """The rate of the cluster by that of each other library, of one that is in one process that of the embedded bus."""
    rates = {str(row["contender"]): float(row["round trips/s"]) for row in rows}
    figures = []
    for other in ("NATS", "AutoGen core, in one process", "Ray actor", "Dask actor", "Celery with Redis"):
        ours = "Ether, embedded" if "in one process" in other else "Ether, cluster"
        if other in rates and ours in rates:
            figures.append(Figure("peers", f"rate, {ours} / {other}", rates[ours] / rates[other]))
    return figures


PEERS: Final = Case(
    "peers",
    "bytes bodies beside Ray, Dask, Celery, AutoGen and NATS: rate, median, p99, memory; only when it is named",
    frozenset(_SYSTEMS.values()),
    _measure,
    is_extra=True,
)
