"""A report as Markdown tables, for docs/performance.md."""

from __future__ import annotations

from collections.abc import Sequence

from ether.lab.bench.measurement.result import Report
from ether.lab.bench.renderers.table import FIGURES, ROWS, figure_cells, row_cells

__all__ = ["render_markdown"]


def render_markdown(report: Report) -> str:
    """Two tables, and a line that says what they were taken on."""
    parts = [_table(FIGURES, figure_cells(report))]
    if rows := row_cells(report):
        parts.append(_table(ROWS, rows))
    parts.append(", ".join(f"{name} {value}" for name, value in report.about.items()) + ".")
    return "\n\n".join(parts) + "\n"


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return "\n".join((_line(head), "|" + "---|" * len(head), *map(_line, lines)))


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
