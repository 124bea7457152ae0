"""A table of a report as a picture: one bar a line, on a logarithmic scale, as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Final

from ether.lab.report import Row

__all__ = ["bars"]

_LEFT: Final = 230
_WIDTH: Final = 420
_LINE: Final = 26
_RIGHT: Final = 90


def bars(rows: Sequence[Row], label: str, value: str) -> str:
    """Draw a column of a table; lines without a number in it are left out.

    Args:
        rows: of the table.
        label: the column with the names of the bars.
        value: the column with their lengths, above 0.
    """
    found = [
        (str(row.get(label, "")), float(row[value])) for row in rows if 0.0 < float(row.get(value) or 0.0) < math.inf
    ]
    least = min((number for _, number in found), default=1.0)
    most = max((number for _, number in found), default=1.0)
    low = 10.0 ** math.floor(math.log10(least))
    scale = _WIDTH / max(math.log10(most / low), 1.0)
    width, height = _LEFT + _WIDTH + _RIGHT, _LINE * (len(found) + 1) + 10
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="13">',
        f'<text x="{_LEFT}" y="18" fill="#666">{escape(value)}, logarithmic</text>',
    ]
    for place, (name, number) in enumerate(found, 1):
        top, long = place * _LINE, max(1.0, math.log10(number / low) * scale)
        colour = "#2f6f9f" if name.startswith("Ether") else "#9aa5b1"
        lines += [
            f'<text x="{_LEFT - 8}" y="{top + 15}" text-anchor="end" fill="#333">{escape(name)}</text>',
            f'<rect x="{_LEFT}" y="{top}" width="{long:.0f}" height="{_LINE - 6}" fill="{colour}"/>',
            f'<text x="{_LEFT + long + 6:.0f}" y="{top + 15}" fill="#333">{number:,.0f}</text>',
        ]
    return "\n".join([*lines, "</svg>\n"])
