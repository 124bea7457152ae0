"""Tables of a result: cut to a bound, and honest about it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["table"]


def table(rows: Iterable[dict[str, Any]], limit: int) -> dict[str, Any]:
    """The first `limit` rows, with `total` and `omitted` beside them."""
    every = list(rows)
    return {"rows": every[:limit], "total": len(every), "omitted": max(0, len(every) - limit)}
