"""A report as plain text in columns."""

from __future__ import annotations

from collections.abc import Sequence

from ether.lab.bench.measurement.result import Report
from ether.lab.bench.renderers.table import FIGURES, ROWS, figure_cells, row_cells

__all__ = ["render_text"]


def render_text(report: Report) -> str:
    """Figures, then what they were taken from, then what they were taken on."""
    parts = [_columns(FIGURES, figure_cells(report))]
    if rows := row_cells(report):
        parts.append(_columns(ROWS, rows))
    parts.append(", ".join(f"{name} {value}" for name, value in report.about.items()))
    return "\n\n".join(parts) + "\n"


def _columns(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[index]) for line in (head, *lines)) for index in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (head, *lines)
    )
