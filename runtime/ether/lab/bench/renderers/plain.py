"""A report as plain values, for JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ether.lab.bench.measurement.result import Report

__all__ = ["as_plain"]


def as_plain(report: Report) -> dict[str, Any]:
    """What `json.dumps` takes: figures with their bounds and whether they are met, rows, and the machine."""
    return {
        "figures": [{**asdict(figure), "met": figure.is_met} for figure in report.figures],
        "rows": [{**asdict(row), "cpu": dict(row.cpu)} for row in report.rows],
        "about": dict(report.about),
    }
