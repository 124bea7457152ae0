"""A report as text in columns, or as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ether.lab.report import Figure, Report, Row
from ether_broker.text import markdown_cell, one_line, printable

__all__ = ["render"]

_SHOWN: Final = 5
"""Violations of one rule."""


def render(report: Report, *, markdown: bool = False) -> str:
    """The report for people: what it came to and what broke first of all, then figures and what they were taken from."""
    draw = _table if markdown else _columns
    parts = [printable(report.headline)] if report.headline else []
    figures = list(map(_figure, report.figures))
    parts += [draw(*_cells(rows)) for rows in (_violations(report), figures, *report.tables.values()) if rows]
    known = [f"{name} {_plain(value)}" for name, value in report.about.items() if value not in (None, "", [], False)]
    return "\n\n".join([*parts, one_line(", ".join(known))] if known else parts) + "\n"


def _plain(value: Any) -> str:
    """As it was given, such as a seed."""
    return " ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _violations(report: Report) -> list[Row]:
    found: list[Row] = []
    for rule, count in Counter(violation.rule for violation in report.violations).items():
        shown = [violation for violation in report.violations if violation.rule == rule][:_SHOWN]
        found += [{"rule": rule, "delegation": one.id, "broken promise": one.text} for one in shown]
        if count > _SHOWN:
            more = f"and {count - _SHOWN:,} more; -o json has all"
            found.append({"rule": rule, "delegation": "", "broken promise": more})
    return found


def _figure(figure: Figure) -> Row:
    spread = "" if figure.spread is None else "–".join(map(_text, figure.spread))
    verdict = {True: "met", False: "missed", None: ""}[figure.is_met]
    return {
        "case": figure.case, "figure": figure.name, "measured": f"{_text(figure.value)} {figure.unit}".rstrip(),
        "before": figure.before, "range": spread, "target": figure.bound or "", "": verdict,
    }  # fmt: skip


def _cells(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """The head and the lines of a table, without the columns that have nothing to say."""
    said = [name for name in rows[0] if any(row[name] not in (None, "") for row in rows)]
    return said, [[one_line(_text(row[name])) for name in said] for row in rows]


def _text(value: Any) -> str:
    """Numbers have three digits that mean something."""
    match value:
        case None:
            return ""
        case Mapping():
            return ", ".join(f"{name} {_text(one)}" for name, one in value.items())
        case int() | float() if isinstance(value, int) or abs(value) >= 100:  # noqa: PLR2004  three digits
            return f"{value:,.0f}"
        case float():
            return f"{value:.3g}"
        case _:
            return str(value)


def _columns(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[index]) for line in (head, *lines)) for index in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (head, *lines)
    )


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return "\n".join((_line(head), "|" + "---|" * len(head), *map(_line, lines)))


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(markdown_cell, cells)) + " |"
