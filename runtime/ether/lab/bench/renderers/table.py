"""What the tables of a report say, cell by cell; the text and the Markdown renderer draw them."""

from __future__ import annotations

from ether.lab.bench.measurement.result import Figure, Report, Row

__all__ = ["FIGURES", "ROWS", "figure_cells", "row_cells"]

FIGURES = ("case", "figure", "measured", "rounds", "target", "")
ROWS = ("case", "contender", "round trips/s", "p50 µs", "p99 µs", "CPU µs an envelope")


def figure_cells(report: Report) -> list[tuple[str, ...]]:
    """A line for each figure."""
    return [_figure(figure) for figure in report.figures]


def row_cells(report: Report) -> list[tuple[str, ...]]:
    """A line for each contender that made round trips."""
    return [_row(row) for row in report.rows if row.cpu]


def _figure(figure: Figure) -> tuple[str, ...]:
    spread = "" if figure.spread is None else f"{_number(figure.spread[0])}–{_number(figure.spread[1])}"
    verdict = {True: "met", False: "missed", None: ""}[figure.is_met]
    target = "" if figure.bound is None else str(figure.bound)
    return figure.case, figure.name, f"{_number(figure.value)} {figure.unit}", spread, target, verdict


def _row(row: Row) -> tuple[str, ...]:
    cpu = ", ".join(f"{role} {seconds * 1e6:.1f}" for role, seconds in row.cpu.items())
    return row.case, row.contender, f"{row.rate:,.0f}", _micro(row.p50), _micro(row.p99), cpu


def _micro(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e6:,.0f}"


def _number(value: float) -> str:
    """Three digits that mean something."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"  # noqa: PLR2004  three digits
